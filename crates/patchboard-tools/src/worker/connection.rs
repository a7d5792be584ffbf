//! The single connection to a worker and the calls on it. It is never reopened: a worker whose connection is lost is
//! replaced.

use std::error::Error as _;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::TokioIo;
use patchboard_core::bridge::WorkerSecret;
use patchboard_proto::WORKER_SECRET_HEADER;
use patchboard_proto::pb::bridge_service_client::BridgeServiceClient;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::HeaderValue;
use tonic::codegen::{Service, http};

use super::platform::WorkerStream;
use crate::text::with_causes;

/// The limit that workers use too, in both directions.
const MAX_MESSAGE: usize = 100 * 1024 * 1024;
/// Flow-control window of one call: images and arrays are sent in one piece.
const STREAM_WINDOW: u32 = 16 * 1024 * 1024;
/// The maximum of HTTP/2, because the windows of the streams already bound memory. With a window as small as one
/// stream's, a stream that is not read would fill it and block all other responses, heartbeats included: the worker
/// would be considered dead.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
const MAX_FRAME: u32 = 1024 * 1024;
const SEND_BUFFER: usize = 4 * 1024 * 1024;
/// Streams report errors with the traceback in a header.
const MAX_HEADERS: u32 = 1024 * 1024;

pub(super) type WorkerClient = BridgeServiceClient<AuthenticatedChannel>;

#[derive(Debug, Clone)]
pub(super) struct WorkerConnection {
    client: WorkerClient,
    /// Cancelled when the connection is lost.
    closed: CancellationToken,
}

impl WorkerConnection {
    /// Opens the connection; every call on it carries `secret`.
    pub(super) async fn open(
        connection: Box<dyn WorkerStream>,
        tasks: &TaskTracker,
        secret: &WorkerSecret,
    ) -> Result<Self, String> {
        let mut secret_header =
            HeaderValue::from_str(secret.expose()).map_err(|_| "its secret cannot be sent".to_owned())?;
        secret_header.set_sensitive(true);
        let mut builder = http2::Builder::new(TrackedExecutor(tasks.clone()));
        builder
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(MAX_FRAME)
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(MAX_HEADERS);
        let handshake = builder.handshake(TokioIo::new(connection));
        let (sender, driver) = handshake.await.map_err(|error| with_causes(&error))?;
        let closed = CancellationToken::new();
        let close_guard = closed.clone().drop_guard();
        tasks.spawn(async move {
            // Each call on the connection reports the failure itself, so the result is ignored.
            drop(driver.await);
            drop(close_guard);
        });
        let client = BridgeServiceClient::with_origin(
            AuthenticatedChannel { sender, secret_header },
            http::Uri::from_static("http://localhost"),
        )
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
        Ok(Self { client, closed })
    }

    pub(super) fn client(&self) -> WorkerClient {
        self.client.clone()
    }

    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

/// Sends requests on the connection, each with the worker's secret.
#[derive(Debug, Clone)]
pub(super) struct AuthenticatedChannel {
    sender: SendRequest<Body>,
    secret_header: HeaderValue,
}

/// Why the worker gave no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkerTransportError {
    /// Nothing of the request was sent, so it may be sent to another worker.
    #[error("the connection to the worker was lost before")]
    BeforeSend(#[source] hyper::Error),
    #[error("the connection to the worker was lost")]
    AfterSend(#[source] hyper::Error),
}

impl Service<http::Request<Body>> for AuthenticatedChannel {
    type Response = http::Response<Incoming>;
    type Error = WorkerTransportError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, WorkerTransportError>> + Send>>;

    /// Always ready: a lost connection is reported by the call itself, which knows that nothing was sent. An error
    /// returned here would reach the caller as a status without a source.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), WorkerTransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        request.headers_mut().insert(WORKER_SECRET_HEADER, self.secret_header.clone());
        let sent = self.sender.try_send_request(request);
        Box::pin(async move {
            sent.await.map_err(|error| match error.message() {
                Some(_) => WorkerTransportError::BeforeSend(error.into_error()),
                None => WorkerTransportError::AfterSend(error.into_error()),
            })
        })
    }
}

/// What a failed call means for its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionLoss {
    /// The worker itself returned the error.
    None,
    /// The connection is lost and the worker never received the call.
    BeforeSend,
    /// The connection is lost; whether the call ran is unknown.
    AfterSend,
}

/// A status received from the worker has no source; a status created by the transport has one.
pub(super) fn connection_loss(status: &Status) -> ConnectionLoss {
    let mut cause = status.source();
    if cause.is_none() {
        return ConnectionLoss::None;
    }
    while let Some(error) = cause {
        if let Some(WorkerTransportError::BeforeSend(_)) = error.downcast_ref() {
            return ConnectionLoss::BeforeSend;
        }
        cause = error.source();
    }
    ConnectionLoss::AfterSend
}

/// Spawns the connection's tasks on a tracker that is waited for at shutdown.
#[derive(Debug, Clone)]
struct TrackedExecutor(TaskTracker);

impl<F> hyper::rt::Executor<F> for TrackedExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}
