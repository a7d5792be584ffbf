//! The eleven methods, each as a command to the board and back. What they mean is in `map`, what they fail with in
//! `error`; this carries.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::HeaderMap;
use futures_util::future::BoxFuture;
use patchboard_core::access::Caller;
use patchboard_core::bridge::WorkerId;
use patchboard_core::command::{CallInSession, Command, Reach};
use patchboard_core::reply::Reply;
use patchboard_core::tool::ToolSpec;
use patchboard_core::{BoardError, trace};
use patchboard_proto::pb;
use patchboard_proto::pb::bridge_service_server::BridgeService;
use patchboard_proto::value::InvalidParameter;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use super::error::{self, Failure};
use super::map::{self, Outcome, Travel, Wanted};
use super::upload::Charge;
use super::{Bridge, chunks, listening};

/// Parameters larger than this are read on a thread that may take its time.
const MUCH_TO_READ: usize = 1024 * 1024;

/// One request and whoever makes it.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) bridge: Bridge,
    pub(super) caller: Caller,
    /// The worker that asks, on its own line.
    pub(super) worker: Option<WorkerId>,
    /// What it has sent, for as long as that is in hand.
    pub(super) charge: Arc<Charge>,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl BridgeService for Turn {
    async fn ping(&self, request: Request<pb::PingRequest>) -> Answer<pb::PingResponse> {
        let message = format!("pong: {}", request.into_inner().message);
        Ok(Response::new(pb::PingResponse { message, server_time: Some(self.bridge.time()) }))
    }

    async fn initialize_session(
        &self,
        request: Request<pb::InitializeSessionRequest>,
    ) -> Answer<pb::InitializeSessionResponse> {
        let (headers, request) = taken_apart(request);
        // A worker opens sessions while it starts; whoever waits for workers must not be one.
        if self.worker.is_none() {
            self.bridge.settled().await;
        }
        let reply = self.ask(Command::OpenSession(map::open(request, self.worker.clone()))).await;
        let Reply::SessionOpened(tools) = reply.map_err(|error| error::status(&error))? else {
            return Err(error::unexpected());
        };
        Ok(Response::new(map::opened(&tools, self.reply_limit(&headers))))
    }

    async fn cleanup_session(&self, request: Request<pb::CleanupSessionRequest>) -> Answer<pb::CleanupSessionResponse> {
        let id = request.into_inner().session_id.into();
        // Half a cleaning is none: it goes on even if nobody waits for it any more.
        let reply = self.see_through(Command::CloseSession { id }, CancellationToken::new(), None).await;
        let Reply::SessionClosed { resources } = reply.map_err(|error| error::status(&error))? else {
            return Err(error::unexpected());
        };
        let resources_cleaned = i32::try_from(resources).unwrap_or(i32::MAX);
        Ok(Response::new(pb::CleanupSessionResponse { success: true, resources_cleaned }))
    }

    async fn get_session(&self, request: Request<pb::GetSessionRequest>) -> Answer<pb::GetSessionResponse> {
        let id = request.into_inner().session_id.into();
        let reply = self.ask(Command::DescribeSession { id }).await.map_err(|error| error::status(&error))?;
        let Reply::BridgeSession(report) = reply else { return Err(error::unexpected()) };
        Ok(Response::new(map::session(report)))
    }

    async fn heartbeat(&self, request: Request<pb::HeartbeatRequest>) -> Answer<pb::HeartbeatResponse> {
        let id = request.into_inner().session_id.into();
        let reply = self.ask(Command::TouchSession { id }).await.map_err(|error| error::status(&error))?;
        let Reply::SessionTouched { exists } = reply else { return Err(error::unexpected()) };
        Ok(Response::new(pb::HeartbeatResponse { server_time: Some(self.bridge.time()), session_valid: exists }))
    }

    async fn execute_tool(&self, request: Request<pb::ExecuteToolRequest>) -> Answer<pb::ExecuteToolResponse> {
        let (headers, request) = taken_apart(request);
        self.execute(&headers, request.into(), Reach::All).await
    }

    type ExecuteStreamingToolStream = chunks::Chunks;

    async fn execute_streaming_tool(
        &self,
        request: Request<pb::ExecuteToolRequest>,
    ) -> Answer<Self::ExecuteStreamingToolStream> {
        let (headers, request) = taken_apart(request);
        self.stream(&headers, request.into()).await
    }

    async fn register_tools(&self, request: Request<pb::RegisterToolsRequest>) -> Answer<pb::RegisterToolsResponse> {
        let told = |error_message| {
            Ok(Response::new(pb::RegisterToolsResponse { error_message, ..pb::RegisterToolsResponse::default() }))
        };
        let wanted = match map::register(request.into_inner(), self.worker.clone()) {
            Ok(wanted) => wanted,
            Err(problem) => return told(problem),
        };
        match self.ask(Command::RegisterTools(wanted)).await {
            Ok(Reply::ToolsRegistered(ids)) => {
                let tool_ids = ids.into_iter().map(|(name, id)| (name.to_string(), id.to_string())).collect();
                Ok(Response::new(pb::RegisterToolsResponse { success: true, tool_ids, error_message: String::new() }))
            }
            Ok(_) => Err(error::unexpected()),
            Err(problem) => match error::registering(&problem) {
                Failure::Told(text) => told(text),
                Failure::Status(status) => Err(status),
            },
        }
    }

    async fn get_exposed_elixir_tools(
        &self,
        request: Request<pb::GetExposedElixirToolsRequest>,
    ) -> Answer<pb::GetExposedElixirToolsResponse> {
        let (headers, request) = taken_apart(request);
        let session = request.session_id.into();
        let reply = self.ask(Command::ListHostTools { session }).await.map_err(|error| error::status(&error))?;
        let Reply::HostTools(tools) = reply else { return Err(error::unexpected()) };
        Ok(Response::new(map::host_tools(&tools, self.reply_limit(&headers))))
    }

    async fn execute_elixir_tool(
        &self,
        request: Request<pb::ExecuteElixirToolRequest>,
    ) -> Answer<pb::ExecuteElixirToolResponse> {
        let (headers, request) = taken_apart(request);
        self.execute(&headers, request.into(), Reach::Host).await
    }

    type StreamTelemetryStream = listening::Events;

    async fn stream_telemetry(
        &self,
        request: Request<Streaming<pb::TelemetryControl>>,
    ) -> Answer<Self::StreamTelemetryStream> {
        let (headers, controls) = taken_apart(request);
        let signals = self.bridge.0.board.signals(&self.caller).map_err(|error| error::status(&error))?;
        listening::begin(self.bridge.clone(), controls, signals, map::deadline(&headers)).map(Response::new)
    }
}

impl Turn {
    async fn ask(&self, command: Command) -> Result<Reply, BoardError> {
        self.bridge.0.board.ask(&self.caller, command, CancellationToken::new()).await
    }

    /// Asked to its end, cancelled or not. When nobody waits any more, what it started is stopped, and what became of it
    /// is still recorded.
    fn see_through(&self, command: Command, stop: CancellationToken, traceparent: Option<&str>) -> SeenThrough {
        let inner = &self.bridge.0;
        let asking = trace::ask(&inner.board, &self.caller, command, stop.clone(), traceparent);
        SeenThrough { asking: Some(asking), stop, tracker: inner.tracker.clone() }
    }

    fn reply_limit(&self, headers: &HeaderMap) -> usize {
        map::reply_limit(headers, self.worker.as_ref(), self.bridge.0.limits.message)
    }

    async fn execute<T: From<Outcome>>(&self, headers: &HeaderMap, wanted: Wanted, reach: Reach) -> Answer<T> {
        let started = Instant::now();
        let correlation = wanted.correlation(headers);
        let outcome = match self.outcome(headers, wanted, reach, correlation.clone(), started).await {
            Ok(outcome) => outcome.within(self.reply_limit(headers)),
            Err(Failure::Told(text)) => Outcome::failed(text),
            Err(Failure::Status(status)) => return Err(correlated_status(status, correlation.as_deref())),
        };
        self.charge.turn_into(outcome.size())?;
        Ok(correlated(Response::new(outcome.into()), correlation.as_deref()))
    }

    async fn outcome(
        &self,
        headers: &HeaderMap,
        wanted: Wanted,
        reach: Reach,
        correlation: Option<Arc<str>>,
        started: Instant,
    ) -> Result<Outcome, Failure> {
        self.refuse_pickle(&wanted).map_err(Failure::Status)?;
        let _place = self.bridge.place().map_err(Failure::Status)?;
        let spec = self.find(&wanted, reach).await.map_err(|problem| match problem {
            NotFound::Board(error) => error::unary(&error),
            NotFound::Unexpected(status) => Failure::Status(status),
        })?;
        let trace = map::trace(headers);
        let travel = Travel {
            correlation,
            trace: trace.clone(),
            timeout: self.timeout(&wanted, headers, &spec, self.bridge.0.limits.call),
            chunks: None,
        };
        let call = read(wanted, &spec, reach, travel).await.map_err(Failure::Status)?;
        let call = call.map_err(|invalid| Failure::Told(invalid.to_string()))?;
        let command = Command::CallInSession(call);
        let reply = self.see_through(command, CancellationToken::new(), trace.as_deref()).await;
        let Reply::ToolCalled(output) = reply.map_err(|error| error::unary(&error))? else {
            return Err(Failure::Status(error::unexpected()));
        };
        Outcome::of(output, &spec, started.elapsed())
    }

    async fn stream(&self, headers: &HeaderMap, wanted: Wanted) -> Answer<chunks::Chunks> {
        self.refuse_pickle(&wanted)?;
        let place = self.bridge.place()?;
        let spec = self.find(&wanted, Reach::Streams).await.map_err(|problem| match problem {
            NotFound::Board(error) => error::stream(&error),
            NotFound::Unexpected(status) => status,
        })?;
        let correlation = wanted.correlation(headers);
        let trace = map::trace(headers);
        let (sender, receiver) = chunks::channel();
        let travel = Travel {
            correlation: correlation.clone(),
            trace: trace.clone(),
            timeout: self.timeout(&wanted, headers, &spec, self.bridge.0.limits.stream),
            chunks: Some(sender),
        };
        let call = read(wanted, &spec, Reach::Streams, travel).await?;
        let call = call.map_err(|invalid| Status::invalid_argument(invalid.to_string()))?;
        let stop = CancellationToken::new();
        let calling = trace::ask(
            &self.bridge.0.board,
            &self.caller,
            Command::CallInSession(call),
            stop.clone(),
            trace.as_deref(),
        );
        let stream = chunks::begin(
            &self.bridge,
            calling,
            receiver,
            chunks::Terms { stop, held: (place, self.charge.clone()), limit: self.reply_limit(headers) },
        );
        Ok(correlated(Response::new(stream), correlation.as_deref()))
    }

    fn refuse_pickle(&self, wanted: &Wanted) -> Result<(), Status> {
        if wanted.is_pickled() && !self.bridge.0.allow_pickle {
            let words = "pickled values are not forwarded: set `allow_pickle` in `[bridge]` if workers may load them";
            return Err(Status::invalid_argument(words));
        }
        Ok(())
    }

    async fn find(&self, wanted: &Wanted, reach: Reach) -> Result<ToolSpec, NotFound> {
        let command = Command::FindTool { session: wanted.session.clone(), name: wanted.name.clone(), reach };
        let reply = self.ask(command).await.map_err(NotFound::Board)?;
        let Reply::Tool(spec) = reply else { return Err(NotFound::Unexpected(error::unexpected())) };
        Ok(spec)
    }

    /// What the caller asks for or, if it asks for nothing, what the tool itself does; never more than the limit.
    fn timeout(&self, wanted: &Wanted, headers: &HeaderMap, spec: &ToolSpec, limit: Duration) -> Duration {
        wanted.patience(headers).or(spec.timeout).map_or(limit, |asked| asked.min(limit))
    }
}

#[derive(Debug)]
enum NotFound {
    Board(BoardError),
    Unexpected(Status),
}

/// The arguments out of the parameters, where that takes no time or where it does.
async fn read(
    wanted: Wanted,
    spec: &ToolSpec,
    reach: Reach,
    travel: Travel,
) -> Result<Result<CallInSession, InvalidParameter>, Status> {
    if wanted.size() <= MUCH_TO_READ {
        return Ok(wanted.command(spec, reach, travel));
    }
    let spec = spec.clone();
    let reading = tokio::task::spawn_blocking(move || wanted.command(&spec, reach, travel));
    reading.await.map_err(|_| Status::unavailable("server is shutting down"))
}

/// A question to the board that is not left half-way.
struct SeenThrough {
    asking: Option<BoxFuture<'static, Result<Reply, BoardError>>>,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Future for SeenThrough {
    type Output = Result<Reply, BoardError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(asking) = self.asking.as_mut() else { return Poll::Ready(Err(BoardError::cancelled())) };
        let polled = asking.as_mut().poll(context);
        if polled.is_ready() {
            self.asking = None;
        }
        polled
    }
}

impl Drop for SeenThrough {
    fn drop(&mut self) {
        let Some(asking) = self.asking.take() else { return };
        self.stop.cancel();
        if let Ok(runtime) = Handle::try_current() {
            self.tracker.spawn_on(asking, &runtime);
        }
    }
}

fn taken_apart<T>(request: Request<T>) -> (HeaderMap, T) {
    let (metadata, _, message) = request.into_parts();
    (metadata.into_headers(), message)
}

fn correlated<T>(mut response: Response<T>, correlation: Option<&str>) -> Response<T> {
    note(response.metadata_mut(), correlation);
    response
}

fn correlated_status(mut status: Status, correlation: Option<&str>) -> Status {
    note(status.metadata_mut(), correlation);
    status
}

fn note(metadata: &mut MetadataMap, correlation: Option<&str>) {
    if let Some(value) = correlation.and_then(|text| text.parse().ok()) {
        metadata.insert(map::CORRELATION, value);
    }
}
