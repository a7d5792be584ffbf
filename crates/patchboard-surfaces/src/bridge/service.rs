//! The eleven RPC methods. Conversion is in `map`, failures are in `error`; this file asks the board.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::HeaderMap;
use patchboard_core::BoardError;
use patchboard_core::board::{BoardCommand, CommandFuture};
use patchboard_core::caller::Caller;
use patchboard_core::command::{
    CallInSession, CloseSession, DescribeSession, FindTool, ListHostTools, ToolFilter, TouchSession,
};
use patchboard_core::tool::ToolSpec;
use patchboard_core::worker::WorkerId;
use patchboard_proto::pb;
use patchboard_proto::pb::bridge_service_server::BridgeService;
use patchboard_proto::value::InvalidParameter;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use super::error::{self, ToolCallFailure};
use super::map::{self, CallOptions, ToolCallOutcome, ToolCallRequest};
use super::metered_body::MemoryCharge;
use super::{Bridge, chunk_stream, telemetry_stream};

/// Larger parameters are decoded on a blocking thread.
const BLOCKING_DECODE_BYTES: usize = 1024 * 1024;

/// One request with its caller.
#[derive(Debug)]
pub(super) struct BridgeRpc {
    pub(super) bridge: Bridge,
    pub(super) caller: Caller,
    /// Set for calls on a worker's own listener.
    pub(super) worker: Option<WorkerId>,
    /// The memory charged for the request.
    pub(super) charge: Arc<MemoryCharge>,
}

type RpcResult<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl BridgeService for BridgeRpc {
    async fn ping(&self, request: Request<pb::PingRequest>) -> RpcResult<pb::PingResponse> {
        let message = format!("pong: {}", request.into_inner().message);
        Ok(Response::new(pb::PingResponse { message, server_time: Some(self.bridge.server_time()) }))
    }

    async fn initialize_session(
        &self,
        request: Request<pb::InitializeSessionRequest>,
    ) -> RpcResult<pb::InitializeSessionResponse> {
        let (headers, request) = split_request(request);
        // Workers open sessions while they start; a worker that waited for workers would deadlock.
        if self.worker.is_none() {
            self.bridge.wait_for_workers().await;
        }
        let tools = self.ask(map::open_session(request, self.worker.clone())).await;
        let tools = tools.map_err(|error| error::status(&error))?;
        Ok(Response::new(map::session_opened(&tools, self.reply_limit(&headers))))
    }

    async fn cleanup_session(
        &self,
        request: Request<pb::CleanupSessionRequest>,
    ) -> RpcResult<pb::CleanupSessionResponse> {
        let id = request.into_inner().session_id.into();
        // Cleanup must be complete, so it continues after the client has disconnected.
        let resources = self.ask_to_completion(CloseSession { id }, CancellationToken::new(), None).await;
        let resources = resources.map_err(|error| error::status(&error))?;
        let resources_cleaned = i32::try_from(resources).unwrap_or(i32::MAX);
        Ok(Response::new(pb::CleanupSessionResponse { success: true, resources_cleaned }))
    }

    async fn get_session(&self, request: Request<pb::GetSessionRequest>) -> RpcResult<pb::GetSessionResponse> {
        let id = request.into_inner().session_id.into();
        let report = self.ask(DescribeSession { id }).await.map_err(|error| error::status(&error))?;
        Ok(Response::new(map::session(report)))
    }

    async fn heartbeat(&self, request: Request<pb::HeartbeatRequest>) -> RpcResult<pb::HeartbeatResponse> {
        let id = request.into_inner().session_id.into();
        let exists = self.ask(TouchSession { id }).await.map_err(|error| error::status(&error))?;
        Ok(Response::new(pb::HeartbeatResponse { server_time: Some(self.bridge.server_time()), session_valid: exists }))
    }

    async fn execute_tool(&self, request: Request<pb::ExecuteToolRequest>) -> RpcResult<pb::ExecuteToolResponse> {
        let (headers, request) = split_request(request);
        self.execute(&headers, request.into(), ToolFilter::All).await
    }

    type ExecuteStreamingToolStream = chunk_stream::ChunkStream;

    async fn execute_streaming_tool(
        &self,
        request: Request<pb::ExecuteToolRequest>,
    ) -> RpcResult<Self::ExecuteStreamingToolStream> {
        let (headers, request) = split_request(request);
        self.stream_tool(&headers, request.into()).await
    }

    async fn register_tools(&self, request: Request<pb::RegisterToolsRequest>) -> RpcResult<pb::RegisterToolsResponse> {
        let failure_response = |error_message| {
            Ok(Response::new(pb::RegisterToolsResponse { error_message, ..pb::RegisterToolsResponse::default() }))
        };
        let command = match map::register(request.into_inner(), self.worker.clone()) {
            Ok(command) => command,
            Err(problem) => return failure_response(problem),
        };
        match self.ask(command).await {
            Ok(ids) => {
                let tool_ids = ids.into_iter().map(|(name, id)| (name.to_string(), id.to_string())).collect();
                Ok(Response::new(pb::RegisterToolsResponse { success: true, tool_ids, error_message: String::new() }))
            }
            Err(problem) => match error::registration_failure(&problem) {
                ToolCallFailure::Response(text) => failure_response(text),
                ToolCallFailure::Status(status) => Err(status),
            },
        }
    }

    async fn get_exposed_elixir_tools(
        &self,
        request: Request<pb::GetExposedElixirToolsRequest>,
    ) -> RpcResult<pb::GetExposedElixirToolsResponse> {
        let (headers, request) = split_request(request);
        let session = request.session_id.into();
        let tools = self.ask(ListHostTools { session }).await.map_err(|error| error::status(&error))?;
        Ok(Response::new(map::host_tools(&tools, self.reply_limit(&headers))))
    }

    async fn execute_elixir_tool(
        &self,
        request: Request<pb::ExecuteElixirToolRequest>,
    ) -> RpcResult<pb::ExecuteElixirToolResponse> {
        let (headers, request) = split_request(request);
        self.execute(&headers, request.into(), ToolFilter::ServerTools).await
    }

    type StreamTelemetryStream = telemetry_stream::TelemetryStream;

    async fn stream_telemetry(
        &self,
        request: Request<Streaming<pb::TelemetryControl>>,
    ) -> RpcResult<Self::StreamTelemetryStream> {
        let (headers, controls) = split_request(request);
        let events = self.bridge.0.board.telemetry(&self.caller).map_err(|error| error::status(&error))?;
        telemetry_stream::subscribe(self.bridge.clone(), controls, events, map::deadline(&headers)).map(Response::new)
    }
}

impl BridgeRpc {
    fn ask<C: BoardCommand>(&self, command: C) -> CommandFuture<C> {
        self.bridge.0.board.ask(&self.caller, command, CancellationToken::new())
    }

    /// Runs a command to completion even if the caller drops the future: it is then cancelled, and its outcome is still
    /// recorded.
    fn ask_to_completion<C: BoardCommand>(
        &self,
        command: C,
        stop: CancellationToken,
        traceparent: Option<&str>,
    ) -> FinishOnDrop<C> {
        let inner = &self.bridge.0;
        let future = inner.board.ask_traced(&self.caller, command, stop.clone(), traceparent);
        FinishOnDrop { future: Some(future), stop, tracker: inner.tracker.clone() }
    }

    fn reply_limit(&self, headers: &HeaderMap) -> usize {
        map::reply_limit(headers, self.worker.as_ref(), self.bridge.0.limits.message)
    }

    async fn execute<T: From<ToolCallOutcome>>(
        &self,
        headers: &HeaderMap,
        request: ToolCallRequest,
        filter: ToolFilter,
    ) -> RpcResult<T> {
        let started = Instant::now();
        let correlation = request.correlation(headers);
        let outcome = match self.call_tool(headers, request, filter, correlation.clone(), started).await {
            Ok(outcome) => outcome.limited_to(self.reply_limit(headers)),
            Err(ToolCallFailure::Response(text)) => ToolCallOutcome::failed(text),
            Err(ToolCallFailure::Status(status)) => {
                return Err(status_with_correlation(status, correlation.as_deref()));
            }
        };
        // The request's memory is free now; the response is charged until it is sent.
        self.charge.replace_with(outcome.size())?;
        Ok(with_correlation(Response::new(outcome.into()), correlation.as_deref()))
    }

    /// The tool is looked up twice: here for the types by which the parameters are decoded, and by the board for the call
    /// itself, whose schema check decides.
    async fn call_tool(
        &self,
        headers: &HeaderMap,
        request: ToolCallRequest,
        filter: ToolFilter,
        correlation: Option<Arc<str>>,
        started: Instant,
    ) -> Result<ToolCallOutcome, ToolCallFailure> {
        self.refuse_pickle(&request).map_err(ToolCallFailure::Status)?;
        let _permit = self.bridge.acquire_call_permit().map_err(ToolCallFailure::Status)?;
        let spec = self.find_tool(&request, filter).await.map_err(|error| error::unary_failure(&error))?;
        let trace = map::trace_parent(headers);
        let options = CallOptions {
            correlation,
            trace: trace.clone(),
            timeout: self.timeout(&request, headers, &spec, self.bridge.0.limits.call),
            chunks: None,
        };
        let call = decode_call(request, &spec, filter, options).await.map_err(ToolCallFailure::Status)?;
        let call = call.map_err(|invalid| ToolCallFailure::Response(invalid.to_string()))?;
        let output = self.ask_to_completion(call, CancellationToken::new(), trace.as_deref()).await;
        let output = output.map_err(|error| error::unary_failure(&error))?;
        ToolCallOutcome::from_output(output, &spec, started.elapsed())
    }

    async fn stream_tool(&self, headers: &HeaderMap, request: ToolCallRequest) -> RpcResult<chunk_stream::ChunkStream> {
        self.refuse_pickle(&request)?;
        let permit = self.bridge.acquire_call_permit()?;
        let spec = self.find_tool(&request, ToolFilter::Streaming).await;
        let spec = spec.map_err(|error| error::stream_status(&error))?;
        let correlation = request.correlation(headers);
        let trace = map::trace_parent(headers);
        let (sender, receiver) = chunk_stream::channel();
        let options = CallOptions {
            correlation: correlation.clone(),
            trace: trace.clone(),
            timeout: self.timeout(&request, headers, &spec, self.bridge.0.limits.stream),
            chunks: Some(sender),
        };
        let call = decode_call(request, &spec, ToolFilter::Streaming, options).await?;
        let call = call.map_err(|invalid| Status::invalid_argument(invalid.to_string()))?;
        let stop = CancellationToken::new();
        let future = self.bridge.0.board.ask_traced(&self.caller, call, stop.clone(), trace.as_deref());
        let stream = chunk_stream::stream_call(
            &self.bridge,
            future,
            receiver,
            chunk_stream::ChunkStreamOptions {
                stop,
                guards: (permit, self.charge.clone()),
                limit: self.reply_limit(headers),
            },
        );
        Ok(with_correlation(Response::new(stream), correlation.as_deref()))
    }

    fn refuse_pickle(&self, request: &ToolCallRequest) -> Result<(), Status> {
        if request.is_pickled() && !self.bridge.0.allow_pickle {
            let message = "pickled values are not forwarded: set `allow_pickle` in `[bridge]` if workers may load them";
            return Err(Status::invalid_argument(message));
        }
        Ok(())
    }

    fn find_tool(&self, request: &ToolCallRequest, filter: ToolFilter) -> CommandFuture<FindTool> {
        self.ask(FindTool { session: request.session.clone(), name: request.name.clone(), filter })
    }

    /// The caller's timeout or, without one, the tool's; at most `limit`.
    fn timeout(&self, request: &ToolCallRequest, headers: &HeaderMap, spec: &ToolSpec, limit: Duration) -> Duration {
        request.requested_timeout(headers).or(spec.timeout).map_or(limit, |requested| requested.min(limit))
    }
}

/// Decodes the parameters, large ones on a blocking thread.
async fn decode_call(
    request: ToolCallRequest,
    spec: &ToolSpec,
    filter: ToolFilter,
    options: CallOptions,
) -> Result<Result<CallInSession, InvalidParameter>, Status> {
    if request.size() <= BLOCKING_DECODE_BYTES {
        return Ok(request.into_command(spec, filter, options));
    }
    let spec = spec.clone();
    let decoding = tokio::task::spawn_blocking(move || request.into_command(&spec, filter, options));
    decoding.await.map_err(|_| Status::unavailable("server is shutting down"))
}

/// A board command that moves to a tracked task when it is dropped unfinished.
struct FinishOnDrop<C: BoardCommand> {
    future: Option<CommandFuture<C>>,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl<C: BoardCommand> Future for FinishOnDrop<C> {
    type Output = Result<C::Reply, BoardError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.future.as_mut() else { return Poll::Ready(Err(BoardError::cancelled())) };
        let polled = future.as_mut().poll(context);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl<C: BoardCommand> Drop for FinishOnDrop<C> {
    fn drop(&mut self) {
        let Some(future) = self.future.take() else { return };
        self.stop.cancel();
        if let Ok(runtime) = Handle::try_current() {
            self.tracker.spawn_on(future, &runtime);
        }
    }
}

fn split_request<T>(request: Request<T>) -> (HeaderMap, T) {
    let (metadata, _, message) = request.into_parts();
    (metadata.into_headers(), message)
}

fn with_correlation<T>(mut response: Response<T>, correlation: Option<&str>) -> Response<T> {
    insert_correlation(response.metadata_mut(), correlation);
    response
}

fn status_with_correlation(mut status: Status, correlation: Option<&str>) -> Status {
    insert_correlation(status.metadata_mut(), correlation);
    status
}

fn insert_correlation(metadata: &mut MetadataMap, correlation: Option<&str>) {
    if let Some(value) = correlation.and_then(|text| text.parse().ok()) {
        metadata.insert(map::CORRELATION_HEADER, value);
    }
}
