//! One connection, HTTP/2 only. Authentication and dispatch happen per request in `admit`.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use patchboard_core::bridge::WorkerSecret;
use patchboard_core::caller::Principal;
use patchboard_core::id::ConnectionId;
use patchboard_core::keys::Key;
use patchboard_core::worker::WorkerId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::h2_authority_rewrite::AuthorityRewriteStream;
use super::{Bridge, SURFACE, admit};
use crate::auth::SignInPermit;
use crate::local_users::UserRejection;
use crate::{pump, telemetry};

/// A client without an admitted request by then is disconnected.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the graceful shutdown of such a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// A peer that is silent for the first interval and does not answer a ping within the second is disconnected.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PONG_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes that a client may send ahead of the reader: enough for large messages at full speed on this machine, small
/// enough to be buffered for every connection.
const FLOW_CONTROL_WINDOW: u32 = 2 * 1024 * 1024;
/// Concurrent calls per connection; further ones queue in the client.
const MAX_STREAMS: u32 = 1024;
const MAX_HEADERS: u32 = 32 * 1024;
/// Large, so that large messages need few frames.
const MAX_FRAME: u32 = 256 * 1024;
/// Response bytes buffered per call until the client reads them.
const SEND_BUFFER: usize = 1024 * 1024;

/// The listener a connection arrived on.
#[derive(Debug)]
pub(super) enum ConnectionKind {
    Public {
        address: IpAddr,
        /// The client presented a certificate of the configured authority.
        is_certified: bool,
        /// Set if no token is required and the process belongs to another user.
        user_rejection: Option<UserRejection>,
    },
    /// From a process of the server's own user.
    Unix,
    /// From a worker, on its own listener.
    Worker { worker: WorkerId, principal: Principal, secret: WorkerSecret },
}

impl ConnectionKind {
    pub(super) fn worker(worker: WorkerId, secret: WorkerSecret) -> Self {
        let principal = Principal::Worker(worker.0.clone());
        Self::Worker { worker, principal, secret }
    }
}

/// The peer of one connection.
#[derive(Debug)]
pub(super) struct PeerConnection {
    pub(super) bridge: Bridge,
    pub(super) kind: ConnectionKind,
    pub(super) connection: ConnectionId,
    is_admitted: AtomicBool,
    /// Cancelled when a key that was shown on it is revoked, and at its end.
    ended: CancellationToken,
    /// The names of the keys that end it.
    keys: Mutex<Vec<Arc<str>>>,
    /// Held until the connection has an admitted request.
    sign_in_permit: Mutex<Option<SignInPermit>>,
}

impl PeerConnection {
    pub(super) fn new(bridge: Bridge, kind: ConnectionKind, sign_in_permit: Option<SignInPermit>) -> Arc<Self> {
        telemetry::connection_opened(SURFACE);
        let connection = pump::next_connection();
        Arc::new(Self {
            bridge,
            kind,
            connection,
            is_admitted: AtomicBool::new(false),
            ended: CancellationToken::new(),
            keys: Mutex::default(),
            sign_in_permit: Mutex::new(sign_in_permit),
        })
    }

    /// Workers get no reflection; their SDK contains the protocol.
    pub(super) fn reflection(&self, version: usize) -> Option<&super::ReflectionService> {
        match self.kind {
            ConnectionKind::Public { .. } | ConnectionKind::Unix => self.bridge.0.reflection.as_ref()?.get(version),
            ConnectionKind::Worker { .. } => None,
        }
    }

    /// Ends the connection, with all its calls, when the key is revoked.
    pub(super) fn end_with(&self, key: &Key) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &key.spec.name;
        if keys.contains(name) {
            return;
        }
        keys.push(name.clone());
        let (revoked, ended) = (key.revoked.clone(), self.ended.clone());
        self.bridge.0.tracker.spawn(async move {
            tokio::select! {
                () = revoked.cancelled() => ended.cancel(),
                () = ended.cancelled() => {}
            }
        });
    }

    /// Marks that a request has been admitted.
    pub(super) fn mark_admitted(&self) {
        if !self.is_admitted.load(Ordering::Relaxed) && !self.is_admitted.swap(true, Ordering::Relaxed) {
            drop(self.sign_in_permit.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        self.ended.cancel();
        telemetry::connection_closed(SURFACE);
    }
}

/// Serves until the peer is done or, after `stop`, until active requests have ended or the drain timeout has passed.
pub(super) async fn serve(io: TransportStream, peer: Arc<PeerConnection>, stop: CancellationToken) {
    let bridge = peer.bridge.clone();
    let mut builder = auto::Builder::new(TrackedExecutor(bridge.0.tracker.clone())).http2_only();
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(FLOW_CONTROL_WINDOW)
        .initial_connection_window_size(FLOW_CONTROL_WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS)
        .max_frame_size(MAX_FRAME)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PONG_TIMEOUT);
    let request_peer = peer.clone();
    let serving = builder
        .serve_connection(TokioIo::new(io), service_fn(move |request| admit::handle(request_peer.clone(), request)));
    tokio::pin!(serving);
    let first = tokio::time::sleep(FIRST_REQUEST_TIMEOUT);
    tokio::pin!(first);
    let mut is_new = true;
    let timeout = loop {
        tokio::select! {
            ended = serving.as_mut() => return log_end(ended),
            () = peer.ended.cancelled() => {
                return tracing::debug!(surface = SURFACE, "connection closed: its key was revoked");
            }
            () = stop.cancelled() => break bridge.0.drain_timeout,
            () = first.as_mut(), if is_new => {
                is_new = false;
                if !peer.is_admitted.load(Ordering::Relaxed) {
                    break CLOSE_TIMEOUT;
                }
            }
        }
    };
    serving.as_mut().graceful_shutdown();
    match tokio::time::timeout(timeout, serving).await {
        Ok(ended) => log_end(ended),
        Err(_) => tracing::debug!(surface = SURFACE, "connection closed after the drain timeout"),
    }
}

fn log_end(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(surface = SURFACE, error, "connection ended with an error");
    }
}

/// Spawns request tasks on the server's tracker.
#[derive(Debug, Clone)]
struct TrackedExecutor(TaskTracker);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for TrackedExecutor {
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// The transports of a connection in one type, so that HTTP/2 is compiled only once.
#[derive(Debug)]
pub(super) enum TransportStream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(AuthorityRewriteStream),
}

impl TransportStream {
    pub(super) fn tcp(stream: TcpStream) -> Self {
        set_nodelay(&stream);
        Self::Tcp(stream)
    }
}

/// Disables Nagle's algorithm: messages are small, and each would wait for the previous one's ACK.
pub(super) fn set_nodelay(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
}

macro_rules! with_transport {
    ($io:expr, $stream:ident => $do:expr) => {
        match $io {
            TransportStream::Tcp($stream) => $do,
            TransportStream::Tls($stream) => $do,
            TransportStream::Unix($stream) => $do,
        }
    };
}

impl AsyncRead for TransportStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        with_transport!(&mut *self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for TransportStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        with_transport!(&mut *self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with_transport!(&mut *self, stream => Pin::new(stream).poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        with_transport!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_transport!(&mut *self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_transport!(&mut *self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
