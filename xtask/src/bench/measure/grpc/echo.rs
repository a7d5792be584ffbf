//! The baseline of everything that speaks gRPC: the least a server of the same service can do with the same library.

use anyhow::Context;
use patchboard_proto::pb::bridge_service_server::{BridgeService, BridgeServiceServer};
use patchboard_proto::{Any, Timestamp, pb};
use tonic::codegen::BoxStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::bench::measure::helper;

/// What every tool answers: as long as what the product says of a session without variables.
pub(in crate::bench) const RESULT: &str = r#"{"variables":[]}"#;
const JSON: &str = "type.snakepit.bridge/json";
/// Any time will do; telling it is the product's work.
const NOON: Timestamp = Timestamp { seconds: 1_800_000_000, nanos: 123_456_789 };
const WINDOW: u32 = 16 * 1024 * 1024;

/// Serves until it is killed.
pub(in crate::bench) fn run() -> anyhow::Result<()> {
    helper::runtime()?.block_on(async {
        let incoming = TcpIncoming::from(helper::listen().await?).with_nodelay(Some(true));
        let server = Server::builder().initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
        server
            .clone()
            .add_service(BridgeServiceServer::new(Echo))
            .serve_with_incoming(incoming)
            .await
            .context("cannot serve")
    })
}

#[derive(Debug)]
pub(in crate::bench) struct Echo;

/// An answer, or a refusal.
type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl BridgeService for Echo {
    async fn ping(&self, request: Request<pb::PingRequest>) -> Answer<pb::PingResponse> {
        let message = format!("pong: {}", request.into_inner().message);
        Ok(Response::new(pb::PingResponse { message, server_time: Some(NOON) }))
    }

    async fn initialize_session(
        &self,
        _: Request<pb::InitializeSessionRequest>,
    ) -> Answer<pb::InitializeSessionResponse> {
        Ok(Response::new(pb::InitializeSessionResponse { success: true, ..Default::default() }))
    }

    async fn execute_tool(&self, _: Request<pb::ExecuteToolRequest>) -> Answer<pb::ExecuteToolResponse> {
        let result = Any { type_url: JSON.to_owned(), value: RESULT.into() };
        Ok(Response::new(pb::ExecuteToolResponse { success: true, result: Some(result), ..Default::default() }))
    }

    // Nobody measures the rest.

    async fn cleanup_session(&self, _: Request<pb::CleanupSessionRequest>) -> Answer<pb::CleanupSessionResponse> {
        nothing()
    }

    async fn get_session(&self, _: Request<pb::GetSessionRequest>) -> Answer<pb::GetSessionResponse> {
        nothing()
    }

    async fn heartbeat(&self, _: Request<pb::HeartbeatRequest>) -> Answer<pb::HeartbeatResponse> {
        nothing()
    }

    type ExecuteStreamingToolStream = BoxStream<pb::ToolChunk>;

    async fn execute_streaming_tool(
        &self,
        _: Request<pb::ExecuteToolRequest>,
    ) -> Answer<Self::ExecuteStreamingToolStream> {
        nothing()
    }

    async fn register_tools(&self, _: Request<pb::RegisterToolsRequest>) -> Answer<pb::RegisterToolsResponse> {
        nothing()
    }

    async fn get_exposed_elixir_tools(
        &self,
        _: Request<pb::GetExposedElixirToolsRequest>,
    ) -> Answer<pb::GetExposedElixirToolsResponse> {
        nothing()
    }

    async fn execute_elixir_tool(
        &self,
        _: Request<pb::ExecuteElixirToolRequest>,
    ) -> Answer<pb::ExecuteElixirToolResponse> {
        nothing()
    }

    type StreamTelemetryStream = BoxStream<pb::TelemetryEvent>;

    async fn stream_telemetry(
        &self,
        _: Request<Streaming<pb::TelemetryControl>>,
    ) -> Answer<Self::StreamTelemetryStream> {
        nothing()
    }
}

fn nothing<T>() -> Answer<T> {
    Err(Status::unimplemented("an echo knows nothing else"))
}
