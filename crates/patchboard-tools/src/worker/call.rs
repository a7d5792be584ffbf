//! One call, from its seat on a worker to its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use patchboard_core::bridge::Measure;
use patchboard_core::model::ToolCall;
use patchboard_core::tool::{Fault, Parcel, ToolData, ToolOutput, ToolScope, ToolSpec};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

use super::answer::{self, Reader, Trip};
use super::link::{Loss, loss};
use super::pool::{Pool, Worker};
use super::request::{self, Shape};
use super::stream::{List, Next, Relay, Taker, Text};

/// A call that found its worker gone before anything was sent is given to another one, so many times.
const MAX_SENDS: u32 = 3;
/// A connection that broke is known to be closed within this time; else it was only this call that broke.
const NOTICE: Duration = Duration::from_millis(50);
/// After the last piece a worker may still have to clean up; it is not waited for longer.
const AFTER_LAST: Duration = Duration::from_secs(1);

/// Calls a tool of the pool that a worker registered.
pub(super) async fn run_registered(
    pool: &Pool,
    scope: &ToolScope,
    call: &ToolCall,
    arguments: &Value,
    stop: CancellationToken,
) -> ToolOutput {
    if let Some(tool) = pool.find(&call.name) {
        return run(pool, &tool, scope, arguments, stop).await;
    }
    let session = scope.parcel.as_deref().map(|parcel| &*parcel.session).unwrap_or_default();
    let message = format!("Tool {} not found for session {session}", call.name);
    ToolOutput::fault(Fault::NotFound, message)
}

/// Calls a tool by the name that `tool` has, whether or not a worker registered it.
pub(super) async fn run(
    pool: &Pool,
    tool: &ToolSpec,
    scope: &ToolScope,
    arguments: &Value,
    stop: CancellationToken,
) -> ToolOutput {
    let Some(parcel) = scope.parcel.as_deref() else {
        return ToolOutput::fault(Fault::Internal, "a call to a worker without its session");
    };
    if !pool.common.allow_pickle
        && let Some(refusal) = request::refuse_pickle(parcel)
    {
        return refusal;
    }
    let fresh = || {
        let id = pool.common.ids.next().simple().to_string();
        // Its end: the beginning of such an id is the time.
        format!("sp-{}", id.get(8..).unwrap_or(&id))
    };
    let correlation = request::correlation(parcel, fresh);
    let reader = if parcel.for_model && parcel.chunks.is_none() { Reader::Model } else { Reader::Program };
    let is_streamed = parcel.chunks.is_some() || (reader == Reader::Model && tool.streams());
    let usual = if is_streamed { pool.options.stream_timeout } else { pool.options.call_timeout };
    let limit = parcel.timeout.or(tool.timeout).unwrap_or(usual);
    let trip = Call { pool, scope, parcel, tool, arguments, correlation, reader, limit, asked: Instant::now() };
    let output = tokio::select! {
        biased;
        output = trip.carry(if is_streamed { Shape::Pieces } else { Shape::Whole }) => output,
        () = stop.cancelled() => trip.given_up(),
    };
    count(pool, &output);
    output
}

struct Call<'a> {
    pool: &'a Pool,
    scope: &'a ToolScope,
    parcel: &'a Parcel,
    tool: &'a ToolSpec,
    arguments: &'a Value,
    correlation: Arc<str>,
    reader: Reader,
    limit: Duration,
    asked: Instant,
}

/// A client with a deadline gives up a moment before the server's own clock says that it is over: at most so much, and
/// at most this share of the whole time.
const CLIENT_AHEAD: Duration = Duration::from_millis(100);
const CLIENT_AHEAD_SHARE: u32 = 10;

/// What came of sending it to a worker.
enum Sent {
    Answered(ToolOutput),
    /// The worker was gone before.
    Never,
}

impl Call<'_> {
    /// The caller does not wait any longer. Whether its own time was over is told apart for those who count.
    fn given_up(&self) -> ToolOutput {
        let left = (self.asked + self.limit).saturating_duration_since(Instant::now());
        match left <= CLIENT_AHEAD.min(self.limit / CLIENT_AHEAD_SHARE) {
            true => ToolOutput::fault(Fault::TimedOut, "the caller's time was over"),
            false => ToolOutput::fault(Fault::Cancelled, "cancelled"),
        }
    }

    async fn carry(&self, shape: Shape) -> ToolOutput {
        let ends = self.asked + self.limit;
        for _ in 0..MAX_SENDS {
            let seat = self.pool.seat(&self.parcel.session, ends).await;
            let (_seat, worker) = match seat {
                Ok(seated) => seated,
                Err(why) => return answer::refused(why, self.pool.name(), || self.pool.trouble()),
            };
            self.tell_dispatched(&worker);
            // Boxed: a call that waits for its seat need not hold the memory of its answer.
            let sent = Box::pin(self.send(&worker, shape, ends)).await;
            let calls = worker.calls.fetch_add(1, Ordering::Relaxed) + 1;
            if self.pool.options.max_requests.is_some_and(|most| calls >= most) {
                worker.worn_out.notify_one();
            }
            match sent {
                Sent::Answered(output) => return output,
                Sent::Never => {}
            }
        }
        ToolOutput::fault(Fault::Unavailable, "worker after worker went away; the call never ran")
    }

    async fn send(&self, worker: &Worker, shape: Shape, ends: Instant) -> Sent {
        let asking = async {
            let left = ends.saturating_duration_since(Instant::now());
            let (tool, correlation) = (&*self.tool.name, &*self.correlation);
            let request = request::request(tool, self.parcel, self.arguments, correlation, left, shape);
            match shape {
                Shape::Whole => self.whole(worker, request, ends).await,
                Shape::Pieces => self.pieces(worker, request, self.taker()).await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = asking => answer,
            () = worker.gone.cancelled() => {
                let message = format!("the worker `{}` went away during the call", worker.id);
                return Sent::Answered(ToolOutput::fault(Fault::Unavailable, message));
            }
            () = tokio::time::sleep_until(ends) => {
                let message = format!("the call did not end within {} ms", self.limit.as_millis());
                return Sent::Answered(ToolOutput::fault(Fault::TimedOut, message));
            }
        };
        match answer {
            Ok(output) => Sent::Answered(output),
            Err(status) => self.broken(worker, &status).await,
        }
    }

    /// There was no answer. If that is the connection's doing, the worker gets nothing more, before this seat is free.
    async fn broken(&self, worker: &Worker, status: &Status) -> Sent {
        let loss = loss(status);
        if loss != Loss::None && tokio::time::timeout(NOTICE, worker.link.closed()).await.is_ok() {
            self.pool.lost(worker);
        }
        match loss {
            Loss::NeverSent => Sent::Never,
            Loss::Sent => {
                let message = format!("the worker `{}` went away during the call", worker.id);
                Sent::Answered(ToolOutput::fault(Fault::Unavailable, message))
            }
            Loss::None => Sent::Answered(answer::unanswered(status, self.reader)),
        }
    }

    async fn whole(
        &self,
        worker: &Worker,
        request: Request<patchboard_proto::pb::ExecuteToolRequest>,
        ends: Instant,
    ) -> Result<ToolOutput, Status> {
        let began = Instant::now();
        let response = worker.link.client().execute_tool(request).await?.into_inner();
        if self.tool.streams() && answer::is_wrong_endpoint(&response) {
            let left = ends.saturating_duration_since(Instant::now());
            let (tool, correlation) = (&*self.tool.name, &*self.correlation);
            let request = request::request(tool, self.parcel, self.arguments, correlation, left, Shape::Pieces);
            return self.pieces(worker, request, self.taker()).await;
        }
        Ok(answer::output(response, self.reader, trip(worker, began)))
    }

    fn taker(&self) -> Taker<'_> {
        match (&self.parcel.chunks, self.reader) {
            (Some(chunks), _) => Taker::Each(Relay::new(chunks)),
            (None, Reader::Model) => Taker::Text(Text::new(&self.scope.voice)),
            (None, Reader::Program) => Taker::List(List::default()),
        }
    }

    async fn pieces(
        &self,
        worker: &Worker,
        request: Request<patchboard_proto::pb::ExecuteToolRequest>,
        mut taker: Taker<'_>,
    ) -> Result<ToolOutput, Status> {
        let began = Instant::now();
        let mut chunks = worker.link.client().execute_streaming_tool(request).await?.into_inner();
        let mut is_finished = false;
        while let Some(chunk) = chunks.message().await? {
            match taker.take(chunk, trip(worker, began)).await {
                Next::GoOn => {}
                Next::Last => {
                    is_finished = true;
                    // What comes after the last piece is nobody's; the worker is heard out so that it can clean up.
                    let rest = async { while let Ok(Some(_)) = chunks.message().await {} };
                    drop(tokio::time::timeout(AFTER_LAST, rest).await);
                    break;
                }
                Next::NobodyThere => return Ok(ToolOutput::fault(Fault::Cancelled, "nobody takes the result")),
                Next::TooLong => {
                    let message = "the result is too long to be had as a whole: ask for it piece by piece";
                    return Ok(ToolOutput::fault(Fault::Internal, message));
                }
            }
        }
        let trip = trip(worker, began);
        if !is_finished {
            taker.finish(trip).await;
        }
        let metadata = answer::described(Default::default(), trip);
        let data = |json| ToolData { json, metadata, ..ToolData::default() };
        Ok(match taker {
            Taker::Each(_) => ToolOutput::ok("").with(data(None)),
            Taker::Text(text) => ToolOutput::ok(text.into_text()).with(data(None)),
            Taker::List(list) => ToolOutput::ok("").with(data(Some(list.into_json()))),
        })
    }

    /// Of the pool, not of the session: whether anything is told of a session is for the session to say.
    fn tell_dispatched(&self, worker: &Worker) {
        self.pool.tell("pool.call.dispatched", Some(&worker.id), |signal| {
            let waited = i64::try_from(self.asked.elapsed().as_micros()).unwrap_or(i64::MAX);
            signal.measure("queue_time", Measure::Int(waited)).note("tool", self.tool.name.clone())
        });
    }
}

fn trip(worker: &Worker, began: Instant) -> Trip<'_> {
    Trip { worker: &worker.id.0, milliseconds: began.elapsed().as_millis() }
}

fn count(pool: &Pool, output: &ToolOutput) {
    let (meters, tally) = (&pool.meters, pool.tally());
    let fault = output.data.as_ref().and_then(|data| data.fault);
    let meter = match fault {
        None if output.is_error => &meters.failed,
        None => &meters.succeeded,
        Some(Fault::QueueTimeout) => &meters.queue_timeout,
        Some(Fault::Saturated | Fault::WorkerBusy | Fault::Invalid | Fault::Argument | Fault::NotFound) => {
            &meters.refused
        }
        Some(Fault::TimedOut) => &meters.timed_out,
        Some(Fault::Cancelled) => &meters.cancelled,
        Some(Fault::Unavailable | Fault::Internal) => &meters.lost,
    };
    meter.increment(1);
    match fault {
        None if !output.is_error => tally.succeeded.fetch_add(1, Ordering::Relaxed),
        // Never ran, and counted as such.
        Some(Fault::QueueTimeout | Fault::Saturated | Fault::WorkerBusy | Fault::Invalid | Fault::Argument) => 0,
        Some(Fault::TimedOut) => tally.timed_out.fetch_add(1, Ordering::Relaxed),
        None | Some(Fault::NotFound | Fault::Cancelled | Fault::Unavailable | Fault::Internal) => {
            tally.failed.fetch_add(1, Ordering::Relaxed)
        }
    };
}
