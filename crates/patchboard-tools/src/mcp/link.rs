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

use super::http::{Endpoint, MAX_MESSAGE};
use super::notices::{Ear, Notices};
use super::offer::{Listing, Next, Offered};
use super::process::{self, LastWords, Order, ServerProcess};
use super::{Launch, McpReach, McpServerOptions};
pub(super) use crate::words::with_causes as told;

/// How long the protocol library may take to let go.
const LET_GO: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Connection,
    /// Ends with the connection.
    serving: JoinHandle<()>,
    over: CancellationToken,
    process: Option<ServerProcess>,
}

/// What calls need of a connection.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) notices: Arc<Notices>,
}

type Service = RunningService<RoleClient, Ear>;

impl Link {
    /// Reaches the server and shakes hands. `Err` is a sentence for the log.
    pub(super) async fn open(options: &McpServerOptions, launch: &Launch, tasks: &TaskTracker) -> Result<Self, String> {
        let notices = Notices::new(options.name.clone());
        let over = CancellationToken::new();
        let ear = Ear(notices.clone());
        let deadline = Instant::now() + options.start_timeout;
        match &options.reach {
            McpReach::Command { program, arguments, env, working_folder, private } => {
                let (working_folder, private) = (working_folder.as_deref(), private.as_deref());
                let order = Order { program, arguments, env, working_folder, private };
                let (mut process, input, output) = process::spawn(&options.name, order, launch, tasks).await?;
                let shaken = tokio::select! {
                    shaken = shake_hands(ear, lines(output, input), &over, deadline) => shaken,
                    status = process.exited() => Err(Stranger::Gone(status)),
                };
                let reason = match shaken {
                    Ok(service) => return Ok(Self::new(service, notices, over, Some(process), tasks)),
                    // Which end of the pipe was found closed first tells nothing.
                    Err(Stranger::Gone(_)) => "it ended without introducing itself".to_owned(),
                    Err(stranger) => stranger.to_string(),
                };
                Err(reason + &process.end().await.report())
            }
            McpReach::Http { url, token } => {
                let endpoint = Endpoint::new(url, token.clone()).map_err(|error| error.to_string())?;
                // An expired session is a new connection, with its tools looked at again; never the old one under a
                // new number.
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_sse_event_size(MAX_MESSAGE)
                    .reinit_on_expired_session(false);
                let transport = StreamableHttpClientTransport::with_client(endpoint, config);
                let shaken = shake_hands(ear, transport, &over, deadline).await;
                let service = shaken.map_err(|stranger| stranger.to_string())?;
                Ok(Self::new(service, notices, over, None, tasks))
            }
            #[cfg(test)]
            McpReach::InProcess(connect) => {
                let (output, input) = tokio::io::split(connect());
                let shaken = shake_hands(ear, lines(output, input), &over, deadline).await;
                let service = shaken.map_err(|stranger| stranger.to_string())?;
                Ok(Self::new(service, notices, over, None, tasks))
            }
        }
    }

    fn new(
        service: Service,
        notices: Arc<Notices>,
        over: CancellationToken,
        process: Option<ServerProcess>,
        tasks: &TaskTracker,
    ) -> Self {
        let connection = Connection { peer: service.peer().clone(), notices };
        let serving = tasks.spawn(async move {
            // However it ended, it is over.
            drop(service.waiting().await);
        });
        Self { connection, serving, over, process }
    }

    /// Every tool the server offers. `Err` is a sentence for the log.
    pub(super) async fn list(&self, server: &str, within: Duration) -> Result<Vec<Offered>, String> {
        let deadline = Instant::now() + within;
        let mut listing = Listing::new(server);
        let mut cursor = None;
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request: ListToolsRequest = RequestOptionalParam::with_param(params);
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = match self.connection.ask(ClientRequest::ListToolsRequest(request), left).await {
                Ok(answer) => answer,
                // A server without tools need not know the question.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    return Ok(Vec::new());
                }
                Err(error) => return Err(format!("its tools cannot be listed: {}", reason(&error))),
            };
            match listing.add(&answer)? {
                Next::Page(next) => cursor = Some(next),
                Next::Done => return Ok(listing.finish()),
            }
        }
    }

    /// Returns when the connection has ended by itself. A program's end is one, even when a child of it still holds its
    /// output open; what it said before is heard out.
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
            () = exited => drop(tokio::time::timeout(LET_GO, &mut self.serving).await),
        }
    }

    /// Lets go of the server; a program is gone after this, with its children.
    pub(super) async fn close(mut self) -> LastWords {
        self.over.cancel();
        // Ending the connection closes the program's input, which is its sign to end.
        if !self.serving.is_finished() && tokio::time::timeout(LET_GO, &mut self.serving).await.is_err() {
            self.serving.abort();
        }
        match self.process.take() {
            Some(process) => process.end().await,
            None => LastWords::default(),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

impl Connection {
    /// One question, with its answer as plain JSON: an unknown part of it then costs that part, not all of it.
    async fn ask(&self, request: ClientRequest, within: Duration) -> Result<serde_json::Value, ServiceError> {
        let options = PeerRequestOptions::with_timeout(within);
        let asking = async { self.peer.send_request_with_option(request, options).await?.await_response().await };
        // The queue to the server may be full as well.
        let answer = tokio::time::timeout(within + LET_GO, asking).await;
        let result = answer.unwrap_or(Err(ServiceError::Timeout { timeout: within }))?;
        serde_json::to_value(result).map_err(|_| ServiceError::UnexpectedResponse)
    }

    /// Is the server there? An error it answers with is an answer too.
    pub(super) async fn ping(&self, within: Duration) -> Result<(), ServiceError> {
        let request: PingRequest = RequestNoParam { method: Default::default(), extensions: Default::default() };
        match self.ask(ClientRequest::PingRequest(request), within).await {
            Ok(_) | Err(ServiceError::McpError(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn lines<R, W>(output: R, input: W) -> AsyncRwTransport<RoleClient, R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    AsyncRwTransport::new_client(output, input).with_max_line_length(MAX_MESSAGE)
}

/// A server that did not introduce itself.
#[derive(Debug, thiserror::Error)]
enum Stranger {
    #[error("it cannot be reached: {0}")]
    Gone(String),
    #[error("it does not introduce itself: {0}")]
    Odd(String),
    #[error("it does not introduce itself in time")]
    Slow,
}

async fn shake_hands<T>(
    ear: Ear,
    transport: T,
    over: &CancellationToken,
    deadline: Instant,
) -> Result<Service, Stranger>
where
    T: Transport<RoleClient> + 'static,
{
    let handshake = serve_client_with_lifecycle_and_ct(ear, transport, ClientLifecycleMode::Initialize, over.clone());
    match tokio::time::timeout_at(deadline, Box::pin(handshake)).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(ClientInitializeError::ConnectionClosed(while_doing))) => Err(Stranger::Gone(while_doing)),
        Ok(Err(ClientInitializeError::TransportError { error, .. })) => Err(Stranger::Gone(told(&*error.error))),
        Ok(Err(error)) => Err(Stranger::Odd(told(&error))),
        Err(_) => Err(Stranger::Slow),
    }
}

/// What went wrong with a request, on one line, without the names of types.
pub(super) fn reason(error: &ServiceError) -> String {
    if let ServiceError::TransportSend(error) = error { told(&*error.error) } else { told(error) }
}
