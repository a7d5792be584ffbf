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
    pub(super) notifications: Arc<ServerNotifications>,
}

type ClientService = RunningService<RoleClient, ClientHandler>;

impl ServerConnection {
    /// Connects to the server and performs the handshake. The error is a message for the log.
    pub(super) async fn open(
        options: &McpServerOptions,
        launch: &LaunchMode,
        tasks: &TaskTracker,
    ) -> Result<Self, String> {
        let notifications = ServerNotifications::new(options.name.clone());
        let cancel = CancellationToken::new();
        let handler = ClientHandler(notifications.clone());
        let deadline = Instant::now() + options.start_timeout;
        match &options.transport {
            McpTransport::Command { program, arguments, env, working_folder, private } => {
                let (working_folder, private) = (working_folder.as_deref(), private.as_deref());
                let command = ServerCommand { program, arguments, env, working_folder, private };
                let (mut process, input, output) = process::spawn(&options.name, command, launch, tasks).await?;
                let handshake = tokio::select! {
                    handshake = perform_handshake(handler, line_transport(output, input), &cancel, deadline) => handshake,
                    status = process.exited() => Err(HandshakeError::Unreachable(status)),
                };
                let reason = match handshake {
                    Ok(service) => return Ok(Self::new(service, notifications, cancel, Some(process), tasks)),
                    // Which end of the pipe was found closed first carries no information.
                    Err(HandshakeError::Unreachable(_)) => "it ended without introducing itself".to_owned(),
                    Err(error) => error.to_string(),
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
                let handshake = perform_handshake(handler, transport, &cancel, deadline).await;
                let service = handshake.map_err(|error| error.to_string())?;
                Ok(Self::new(service, notifications, cancel, None, tasks))
            }
            #[cfg(test)]
            McpTransport::InProcess(connect) => {
                let (output, input) = tokio::io::split(connect());
                let handshake = perform_handshake(handler, line_transport(output, input), &cancel, deadline).await;
                let service = handshake.map_err(|error| error.to_string())?;
                Ok(Self::new(service, notifications, cancel, None, tasks))
            }
        }
    }

    fn new(
        service: ClientService,
        notifications: Arc<ServerNotifications>,
        cancel: CancellationToken,
        process: Option<ServerProcess>,
        tasks: &TaskTracker,
    ) -> Self {
        let connection = ConnectionHandle { peer: service.peer().clone(), notifications };
        let serving = tasks.spawn(async move {
            // Only the end matters, not its reason.
            drop(service.waiting().await);
        });
        Self { handle: connection, serving, cancel, process }
    }

    /// Lists all tools the server offers. The error is a message for the log.
    pub(super) async fn list_tools(&self, server: &str, timeout: Duration) -> Result<Vec<ListedTool>, String> {
        let deadline = Instant::now() + timeout;
        let mut reader = ToolListReader::new(server);
        let mut cursor = None;
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request: ListToolsRequest = RequestOptionalParam::with_param(params);
            let remaining = deadline.saturating_duration_since(Instant::now());
            let response = match self.handle.send_request(ClientRequest::ListToolsRequest(request), remaining).await {
                Ok(response) => response,
                // A server without tools need not implement `tools/list`.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    return Ok(Vec::new());
                }
                Err(error) => return Err(format!("its tools cannot be listed: {}", service_error_text(&error))),
            };
            match reader.add_page(&response)? {
                ListStep::Page(next) => cursor = Some(next),
                ListStep::Done => return Ok(reader.finish()),
            }
        }
    }

    /// Returns when the connection has ended by itself. The exit of a program counts as the end, even if a child of it
    /// still holds its output open; output written before is still processed.
    pub(super) async fn ended(&mut self) {
        if self.serving.is_finished() {
            return;
        }
        let process_exit = async {
            match &mut self.process {
                Some(process) => drop(process.exited().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = &mut self.serving => drop(ended),
            () = process_exit => drop(tokio::time::timeout(CLOSE_TIMEOUT, &mut self.serving).await),
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
    async fn send_request(&self, request: ClientRequest, timeout: Duration) -> Result<serde_json::Value, ServiceError> {
        let options = PeerRequestOptions::with_timeout(timeout);
        let exchange = async { self.peer.send_request_with_option(request, options).await?.await_response().await };
        // The outer timeout also covers a full queue to the server.
        let response = tokio::time::timeout(timeout + CLOSE_TIMEOUT, exchange).await;
        let result = response.unwrap_or(Err(ServiceError::Timeout { timeout }))?;
        serde_json::to_value(result).map_err(|_| ServiceError::UnexpectedResponse)
    }

    /// Checks that the server responds. An error response counts as a response.
    pub(super) async fn ping(&self, timeout: Duration) -> Result<(), ServiceError> {
        let request: PingRequest = RequestNoParam { method: Default::default(), extensions: Default::default() };
        match self.send_request(ClientRequest::PingRequest(request), timeout).await {
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
    handler: ClientHandler,
    transport: T,
    cancel: &CancellationToken,
    deadline: Instant,
) -> Result<ClientService, HandshakeError>
where
    T: Transport<RoleClient> + 'static,
{
    let handshake =
        serve_client_with_lifecycle_and_ct(handler, transport, ClientLifecycleMode::Initialize, cancel.clone());
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
