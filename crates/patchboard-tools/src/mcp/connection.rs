//! One connection to a server, from the handshake to its end.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams, PingRequest, RequestNoParam,
    RequestOptionalParam,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions, RoleClient, RunningService, ServiceError,
    serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::http::{HttpEndpoint, MAX_MESSAGE};
use super::notifications::{ClientHandler, ServerNotifications};
use super::process::{self, ExitReport, ServerCommand, ServerProcess};
use super::tool_list::{ListStep, ListedTool, ToolListReader};
use super::{LaunchMode, McpServerOptions, McpTransport};
pub(super) use crate::text::with_causes;

/// How long the protocol library may take to close the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(super) struct ServerConnection {
    pub(super) handle: ConnectionHandle,
    /// Finishes when the connection ends.
    serving: JoinHandle<()>,
    cancel: CancellationToken,
    process: Option<ServerProcess>,
}

/// What calls need of a connection.
#[derive(Debug, Clone)]
pub(super) struct ConnectionHandle {
    pub(super) peer: Peer<RoleClient>,
    pub(super) notices: Arc<ServerNotifications>,
}

type ClientService = RunningService<RoleClient, ClientHandler>;

impl ServerConnection {
    /// Connects to the server and performs the handshake. The error is a message for the log.
    pub(super) async fn open(
        options: &McpServerOptions,
        launch: &LaunchMode,
        tasks: &TaskTracker,
    ) -> Result<Self, String> {
        let notices = ServerNotifications::new(options.name.clone());
        let over = CancellationToken::new();
        let ear = ClientHandler(notices.clone());
        let deadline = Instant::now() + options.start_timeout;
        match &options.transport {
            McpTransport::Command { program, arguments, env, working_folder, private } => {
                let (working_folder, private) = (working_folder.as_deref(), private.as_deref());
                let order = ServerCommand { program, arguments, env, working_folder, private };
                let (mut process, input, output) = process::spawn(&options.name, order, launch, tasks).await?;
                let shaken = tokio::select! {
                    shaken = perform_handshake(ear, line_transport(output, input), &over, deadline) => shaken,
                    status = process.exited() => Err(HandshakeError::Unreachable(status)),
                };
                let reason = match shaken {
                    Ok(service) => return Ok(Self::new(service, notices, over, Some(process), tasks)),
                    // Which end of the pipe was found closed first carries no information.
                    Err(HandshakeError::Unreachable(_)) => "it ended without introducing itself".to_owned(),
                    Err(stranger) => stranger.to_string(),
                };
                Err(reason + &process.end().await.message_suffix())
            }
            McpTransport::Http { url, token } => {
                let endpoint = HttpEndpoint::new(url, token.clone()).await.map_err(|error| error.to_string())?;
                // An expired session is a new connection, with its tools looked at again; never the old one under a
                // new number.
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_sse_event_size(MAX_MESSAGE)
                    .reinit_on_expired_session(false);
                let transport = StreamableHttpClientTransport::with_client(endpoint, config);
                let shaken = perform_handshake(ear, transport, &over, deadline).await;
                let service = shaken.map_err(|stranger| stranger.to_string())?;
                Ok(Self::new(service, notices, over, None, tasks))
            }
            #[cfg(test)]
            McpTransport::InProcess(connect) => {
                let (output, input) = tokio::io::split(connect());
                let shaken = perform_handshake(ear, line_transport(output, input), &over, deadline).await;
                let service = shaken.map_err(|stranger| stranger.to_string())?;
                Ok(Self::new(service, notices, over, None, tasks))
            }
        }
    }

    fn new(
        service: ClientService,
        notices: Arc<ServerNotifications>,
        over: CancellationToken,
        process: Option<ServerProcess>,
        tasks: &TaskTracker,
    ) -> Self {
        let connection = ConnectionHandle { peer: service.peer().clone(), notices };
        let serving = tasks.spawn(async move {
            // Only the end matters, not its reason.
            drop(service.waiting().await);
        });
        Self { handle: connection, serving, cancel: over, process }
    }

    /// Lists all tools the server offers. The error is a message for the log.
    pub(super) async fn list_tools(&self, server: &str, within: Duration) -> Result<Vec<ListedTool>, String> {
        let deadline = Instant::now() + within;
        let mut listing = ToolListReader::new(server);
        let mut cursor = None;
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request: ListToolsRequest = RequestOptionalParam::with_param(params);
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = match self.handle.send_request(ClientRequest::ListToolsRequest(request), left).await {
                Ok(answer) => answer,
                // A server without tools need not implement `tools/list`.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    return Ok(Vec::new());
                }
                Err(error) => return Err(format!("its tools cannot be listed: {}", service_error_text(&error))),
            };
            match listing.add_page(&answer)? {
                ListStep::Page(next) => cursor = Some(next),
                ListStep::Done => return Ok(listing.finish()),
            }
        }
    }

    /// Returns when the connection has ended by itself. The exit of a program counts as the end, even if a child of it
    /// still holds its output open; output written before is still processed.
    pub(super) async fn ended(&mut self) {
        if self.serving.is_finished() {
            return;
        }
        let exited = async {
            match &mut self.process {
                Some(process) => drop(process.exited().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = &mut self.serving => drop(ended),
            () = exited => drop(tokio::time::timeout(CLOSE_TIMEOUT, &mut self.serving).await),
        }
    }

    /// Closes the connection; a program and its children have ended when this returns.
    pub(super) async fn close(mut self) -> ExitReport {
        self.cancel.cancel();
        // Ending the connection closes the program's standard input, which tells it to exit.
        if !self.serving.is_finished() && tokio::time::timeout(CLOSE_TIMEOUT, &mut self.serving).await.is_err() {
            self.serving.abort();
        }
        match self.process.take() {
            Some(process) => process.end().await,
            None => ExitReport::default(),
        }
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl ConnectionHandle {
    /// Sends one request and returns the response as plain JSON, so that an unknown part of it does not invalidate the
    /// rest.
    async fn send_request(&self, request: ClientRequest, within: Duration) -> Result<serde_json::Value, ServiceError> {
        let options = PeerRequestOptions::with_timeout(within);
        let asking = async { self.peer.send_request_with_option(request, options).await?.await_response().await };
        // The outer timeout also covers a full queue to the server.
        let answer = tokio::time::timeout(within + CLOSE_TIMEOUT, asking).await;
        let result = answer.unwrap_or(Err(ServiceError::Timeout { timeout: within }))?;
        serde_json::to_value(result).map_err(|_| ServiceError::UnexpectedResponse)
    }

    /// Checks that the server responds. An error response counts as a response.
    pub(super) async fn ping(&self, within: Duration) -> Result<(), ServiceError> {
        let request: PingRequest = RequestNoParam { method: Default::default(), extensions: Default::default() };
        match self.send_request(ClientRequest::PingRequest(request), within).await {
            Ok(_) | Err(ServiceError::McpError(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn line_transport<R, W>(output: R, input: W) -> AsyncRwTransport<RoleClient, R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    AsyncRwTransport::new_client(output, input).with_max_line_length(MAX_MESSAGE)
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
enum HandshakeError {
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it does not introduce itself: {0}")]
    InvalidReply(String),
    #[error("it does not introduce itself in time")]
    TimedOut,
}

async fn perform_handshake<T>(
    ear: ClientHandler,
    transport: T,
    over: &CancellationToken,
    deadline: Instant,
) -> Result<ClientService, HandshakeError>
where
    T: Transport<RoleClient> + 'static,
{
    let handshake = serve_client_with_lifecycle_and_ct(ear, transport, ClientLifecycleMode::Initialize, over.clone());
    match tokio::time::timeout_at(deadline, Box::pin(handshake)).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(ClientInitializeError::ConnectionClosed(while_doing))) => Err(HandshakeError::Unreachable(while_doing)),
        Ok(Err(ClientInitializeError::TransportError { error, .. })) => {
            Err(HandshakeError::Unreachable(with_causes(&*error.error)))
        }
        Ok(Err(error)) => Err(HandshakeError::InvalidReply(with_causes(&error))),
        Err(_) => Err(HandshakeError::TimedOut),
    }
}

/// A request error on one line, without type names.
pub(super) fn service_error_text(error: &ServiceError) -> String {
    if let ServiceError::TransportSend(error) = error { with_causes(&*error.error) } else { with_causes(error) }
}
