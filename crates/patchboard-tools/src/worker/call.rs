//! One call, from its permit to its output.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use patchboard_core::bridge::MeasuredValue;
use patchboard_core::model::ToolCall;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::{CallMetadata, StructuredOutput, ToolFault, ToolOutput, ToolSpec};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

use super::connection::{ConnectionLoss, connection_loss};
use super::pool::{ConnectedWorker, WorkerPool};
use super::request::{self, CallMode};
use super::response::{self, CallerKind, ExecutionInfo};
use super::stream::{ChunkRelay, ChunkSink, ChunkStep, ListCollector, TextCollector};

/// A call whose worker was lost before anything was sent is retried on another worker, at most this many attempts in
/// total.
const MAX_ATTEMPTS: u32 = 3;
/// A broken connection is reported as closed within this time; otherwise only the one call failed.
const CLOSE_DETECTION: Duration = Duration::from_millis(50);
/// After the last chunk a worker may still run cleanup code; the stream is drained for at most this long.
const STREAM_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Calls a tool that a worker of the pool registered.
pub(super) async fn run_registered(
    pool: &WorkerPool,
    scope: &ToolScope,
    call: &ToolCall,
    arguments: &Value,
    stop: CancellationToken,
) -> ToolOutput {
    if let Some(tool) = pool.find(&call.name) {
        return run(pool, &tool, scope, arguments, stop).await;
    }
    let session = scope.call_metadata.as_deref().map(|metadata| &*metadata.session).unwrap_or_default();
    let message = format!("Tool {} not found for session {session}", call.name);
    ToolOutput::fault(ToolFault::NotFound, message)
}

/// Calls a tool by its own name, whether or not a worker registered it.
pub(super) async fn run(
    pool: &WorkerPool,
    tool: &ToolSpec,
    scope: &ToolScope,
    arguments: &Value,
    stop: CancellationToken,
) -> ToolOutput {
    let Some(metadata) = scope.call_metadata.as_deref() else {
        return ToolOutput::fault(ToolFault::Internal, "a call to a worker without its session");
    };
    if !pool.context.allow_pickle
        && let Some(refusal) = request::reject_pickle(metadata)
    {
        return refusal;
    }
    let new_id = || {
        let id = pool.context.ids.next().simple().to_string();
        // The leading digits of such an id are a timestamp; the id uses the rest.
        format!("sp-{}", id.get(8..).unwrap_or(&id))
    };
    let correlation_id = request::correlation_id(metadata, new_id);
    let caller = if metadata.for_model && metadata.chunks.is_none() { CallerKind::Model } else { CallerKind::Program };
    let is_streamed = metadata.chunks.is_some() || (caller == CallerKind::Model && tool.streams());
    let default_timeout = if is_streamed { pool.options.stream_timeout } else { pool.options.call_timeout };
    let limit = metadata.timeout.or(tool.timeout).unwrap_or(default_timeout);
    let call = WorkerCall {
        pool,
        scope,
        metadata,
        tool,
        arguments,
        correlation_id,
        caller,
        limit,
        started_at: Instant::now(),
    };
    let output = tokio::select! {
        biased;
        output = call.execute(if is_streamed { CallMode::Streaming } else { CallMode::Unary }) => output,
        () = stop.cancelled() => call.cancellation_output(),
    };
    count_outcome(pool, &output);
    output
}

struct WorkerCall<'a> {
    pool: &'a WorkerPool,
    scope: &'a ToolScope,
    metadata: &'a CallMetadata,
    tool: &'a ToolSpec,
    arguments: &'a Value,
    correlation_id: Arc<str>,
    caller: CallerKind,
    limit: Duration,
    started_at: Instant,
}

/// A client with a deadline cancels shortly before the server's own deadline: at most this long before, and at most
/// this share of the whole limit.
const CLIENT_MARGIN: Duration = Duration::from_millis(100);
const CLIENT_MARGIN_SHARE: u32 = 10;

/// Result of one attempt to send the call to a worker.
enum AttemptOutcome {
    Answered(ToolOutput),
    /// The connection was lost before the request was sent.
    NotSent,
}

impl WorkerCall<'_> {
    /// Output for a call that its caller cancelled. A cancellation close to the deadline is reported as `TimedOut`, for
    /// the metrics.
    fn cancellation_output(&self) -> ToolOutput {
        let remaining = (self.started_at + self.limit).saturating_duration_since(Instant::now());
        match remaining <= CLIENT_MARGIN.min(self.limit / CLIENT_MARGIN_SHARE) {
            true => ToolOutput::fault(ToolFault::TimedOut, "the caller's time was over"),
            false => ToolOutput::fault(ToolFault::Cancelled, "cancelled"),
        }
    }

    async fn execute(&self, mode: CallMode) -> ToolOutput {
        let deadline = self.started_at + self.limit;
        for _ in 0..MAX_ATTEMPTS {
            let permit = self.pool.acquire_permit(&self.metadata.session, deadline).await;
            let (_permit, worker) = match permit {
                Ok(assigned) => assigned,
                Err(rejection) => {
                    return response::rejection_output(rejection, self.pool.name(), || self.pool.last_error());
                }
            };
            self.emit_dispatched(&worker);
            // Boxed so that a queued call does not hold the memory of the response future.
            let outcome = Box::pin(self.send(&worker, mode, deadline)).await;
            let calls = worker.calls.fetch_add(1, Ordering::Relaxed) + 1;
            if self.pool.options.max_requests.is_some_and(|limit| calls >= limit) {
                worker.retire.notify_one();
            }
            match outcome {
                AttemptOutcome::Answered(output) => return output,
                AttemptOutcome::NotSent => {}
            }
        }
        ToolOutput::fault(ToolFault::Unavailable, "worker after worker went away; the call never ran")
    }

    async fn send(&self, worker: &ConnectedWorker, mode: CallMode, deadline: Instant) -> AttemptOutcome {
        let exchange = async {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let (tool, correlation_id) = (&*self.tool.name, &*self.correlation_id);
            let request = request::build(tool, self.metadata, self.arguments, correlation_id, remaining, mode);
            match mode {
                CallMode::Unary => self.call_unary(worker, request, deadline).await,
                CallMode::Streaming => self.call_streaming(worker, request, self.chunk_sink()).await,
            }
        };
        let result = tokio::select! {
            biased;
            result = exchange => result,
            () = worker.removed.cancelled() => {
                let message = format!("the worker `{}` went away during the call", worker.id);
                return AttemptOutcome::Answered(ToolOutput::fault(ToolFault::Unavailable, message));
            }
            () = tokio::time::sleep_until(deadline) => {
                let message = format!("the call did not end within {} ms", self.limit.as_millis());
                return AttemptOutcome::Answered(ToolOutput::fault(ToolFault::TimedOut, message));
            }
        };
        match result {
            Ok(output) => AttemptOutcome::Answered(output),
            Err(status) => self.handle_lost_call(worker, &status).await,
        }
    }

    /// Handles a call without a response. If the connection is lost, the worker is drained before the permit is
    /// released.
    async fn handle_lost_call(&self, worker: &ConnectedWorker, status: &Status) -> AttemptOutcome {
        let loss = connection_loss(status);
        if loss != ConnectionLoss::None
            && tokio::time::timeout(CLOSE_DETECTION, worker.connection.closed()).await.is_ok()
        {
            self.pool.connection_lost(worker);
        }
        match loss {
            ConnectionLoss::BeforeSend => AttemptOutcome::NotSent,
            ConnectionLoss::AfterSend => {
                let message = format!("the worker `{}` went away during the call", worker.id);
                AttemptOutcome::Answered(ToolOutput::fault(ToolFault::Unavailable, message))
            }
            ConnectionLoss::None => AttemptOutcome::Answered(response::status_output(status, self.caller)),
        }
    }

    async fn call_unary(
        &self,
        worker: &ConnectedWorker,
        request: Request<patchboard_proto::pb::ExecuteToolRequest>,
        deadline: Instant,
    ) -> Result<ToolOutput, Status> {
        let started = Instant::now();
        let response = worker.connection.client().execute_tool(request).await?.into_inner();
        if self.tool.streams() && response::is_wrong_endpoint(&response) {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let (tool, correlation_id) = (&*self.tool.name, &*self.correlation_id);
            let request =
                request::build(tool, self.metadata, self.arguments, correlation_id, remaining, CallMode::Streaming);
            return self.call_streaming(worker, request, self.chunk_sink()).await;
        }
        Ok(response::tool_output(response, self.caller, execution_info(worker, started)))
    }

    fn chunk_sink(&self) -> ChunkSink<'_> {
        match (&self.metadata.chunks, self.caller) {
            (Some(chunks), _) => ChunkSink::Each(ChunkRelay::new(chunks)),
            (None, CallerKind::Model) => ChunkSink::Text(TextCollector::new(&self.scope.progress)),
            (None, CallerKind::Program) => ChunkSink::List(ListCollector::default()),
        }
    }

    async fn call_streaming(
        &self,
        worker: &ConnectedWorker,
        request: Request<patchboard_proto::pb::ExecuteToolRequest>,
        mut sink: ChunkSink<'_>,
    ) -> Result<ToolOutput, Status> {
        let started = Instant::now();
        let mut chunks = worker.connection.client().execute_streaming_tool(request).await?.into_inner();
        let mut is_finished = false;
        while let Some(chunk) = chunks.message().await? {
            match sink.accept(chunk, execution_info(worker, started)).await {
                ChunkStep::Continue => {}
                ChunkStep::Last => {
                    is_finished = true;
                    // Data after the last chunk is discarded; the stream is still read so that the worker can clean up.
                    let rest = async { while let Ok(Some(_)) = chunks.message().await {} };
                    drop(tokio::time::timeout(STREAM_DRAIN_TIMEOUT, rest).await);
                    break;
                }
                ChunkStep::ReceiverGone => {
                    return Ok(ToolOutput::fault(ToolFault::Cancelled, "the receiver of the result is gone"));
                }
                ChunkStep::TooLong => {
                    let message = "the result is too long to be had as a whole: ask for it piece by piece";
                    return Ok(ToolOutput::fault(ToolFault::Internal, message));
                }
            }
        }
        let info = execution_info(worker, started);
        if !is_finished {
            sink.finish(info).await;
        }
        let metadata = response::with_execution_info(Default::default(), info);
        let data = |json| StructuredOutput { json, metadata, ..StructuredOutput::default() };
        Ok(match sink {
            ChunkSink::Each(_) => ToolOutput::ok("").with_structured(data(None)),
            ChunkSink::Text(text) => ToolOutput::ok(text.into_text()).with_structured(data(None)),
            ChunkSink::List(list) => ToolOutput::ok("").with_structured(data(Some(list.into_json()))),
        })
    }

    /// An event of the pool, not of the session: only the session decides whether its own events are emitted.
    fn emit_dispatched(&self, worker: &ConnectedWorker) {
        self.pool.emit_event("pool.call.dispatched", Some(&worker.id), |event| {
            let queue_time = i64::try_from(self.started_at.elapsed().as_micros()).unwrap_or(i64::MAX);
            event
                .with_measure("queue_time", MeasuredValue::Int(queue_time))
                .with_metadata("tool", self.tool.name.clone())
        });
    }
}

fn execution_info(worker: &ConnectedWorker, started: Instant) -> ExecutionInfo<'_> {
    ExecutionInfo { worker: &worker.id.0, milliseconds: started.elapsed().as_millis() }
}

fn count_outcome(pool: &WorkerPool, output: &ToolOutput) {
    let (metrics, tally) = (&pool.metrics, pool.tally());
    let fault = output.data.as_ref().and_then(|data| data.fault);
    let counter = match fault {
        None if output.is_error => &metrics.failed,
        None => &metrics.succeeded,
        Some(ToolFault::QueueTimeout) => &metrics.queue_timeout,
        Some(
            ToolFault::Saturated
            | ToolFault::WorkerBusy
            | ToolFault::Invalid
            | ToolFault::Argument
            | ToolFault::NotFound,
        ) => &metrics.refused,
        Some(ToolFault::TimedOut) => &metrics.timed_out,
        Some(ToolFault::Cancelled) => &metrics.cancelled,
        Some(ToolFault::Unavailable | ToolFault::Internal) => &metrics.lost,
    };
    counter.increment(1);
    match fault {
        None if !output.is_error => tally.succeeded.fetch_add(1, Ordering::Relaxed),
        // These calls never ran and are counted as refused.
        Some(
            ToolFault::QueueTimeout
            | ToolFault::Saturated
            | ToolFault::WorkerBusy
            | ToolFault::Invalid
            | ToolFault::Argument,
        ) => 0,
        Some(ToolFault::TimedOut) => tally.timed_out.fetch_add(1, Ordering::Relaxed),
        None | Some(ToolFault::NotFound | ToolFault::Cancelled | ToolFault::Unavailable | ToolFault::Internal) => {
            tally.failed.fetch_add(1, Ordering::Relaxed)
        }
    };
}
