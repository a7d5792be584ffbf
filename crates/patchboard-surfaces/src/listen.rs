//! TCP listeners: bind and accept, with bounds on the number of connections and on the time to receive a request head.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::local_users::{LocalUsers, UserRejection};
use crate::telemetry;

mod refusal;
mod request_body;

use request_body::RequestBody;

/// Time limit for a complete request head, the first or a later one: an idle connection holds one of the listener's
/// slots for no longer than that.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long unread input is drained after a connection has ended.
const CLOSE_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after `accept` failed (usually: out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Listener {
    pub surface: &'static str,
    pub socket: TcpListener,
    /// Concurrent connections; further ones wait in the kernel's accept queue.
    pub max_connections: usize,
    /// Set if the listener requires no token: the users whose processes may connect.
    pub local_users: Option<LocalUsers>,
}

/// Limits the concurrent connections of all listeners that share it; further ones are refused with 503.
#[derive(Debug, Clone)]
pub struct ConnectionSlots {
    permits: Arc<Semaphore>,
    /// Refusals in progress; past this many, connections are closed without a response.
    refusals: Arc<Semaphore>,
    pool: Arc<UnfinishedPool>,
}

impl ConnectionSlots {
    const MAX_REFUSALS: usize = 32;

    pub fn new(max_connections: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(max_connections)),
            refusals: Arc::new(Semaphore::new(Self::MAX_REFUSALS)),
            pool: Arc::new(UnfinishedPool::default()),
        }
    }
}

/// Connection data that is available to a request's handlers.
#[derive(Debug, Clone)]
pub struct Peer {
    pub address: IpAddr,
    /// Set if the listener requires no token and the connecting process belongs to a user who may not use it.
    pub user_rejection: Option<UserRejection>,
    pub read_budget: Arc<ReadBudget>,
    /// Held by every owner of the connection, an upgraded WebSocket included; dropping the last clone frees the slot.
    _slot: Arc<ConnectionSlot>,
}

#[derive(Debug)]
struct ConnectionSlot {
    surface: &'static str,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        telemetry::connection_closed(self.surface);
    }
}

/// Counts the bytes a connection has read: against its allowance before sign-in, and as part of the message that is
/// still incomplete. Only the connection's own task reads, so the counters need no read-modify-write.
#[derive(Debug)]
pub struct ReadBudget {
    allowance: AtomicU64,
    unfinished: AtomicU64,
    charged: AtomicU64,
    /// Set if the client may still be sending when the connection ends.
    drains_on_close: AtomicBool,
    pool: Arc<UnfinishedPool>,
}

/// Total size of all connections' incomplete messages. One client may send a large message, but many clients cannot
/// exhaust the memory with large messages that never end.
#[derive(Debug, Default)]
struct UnfinishedPool(AtomicU64);

impl UnfinishedPool {
    const LIMIT: u64 = 256 * 1024 * 1024;
    /// Bytes per connection that do not count towards the pool.
    const FAIR_SHARE: u64 = 64 * 1024;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadLimitExceeded {
    BeforeSignIn,
    /// The shared pool of incomplete messages is full; a later attempt may succeed.
    SharedPool,
}

impl ReadBudget {
    const UNLIMITED: u64 = u64::MAX;

    fn new(pool: Arc<UnfinishedPool>) -> Self {
        Self {
            allowance: AtomicU64::new(Self::UNLIMITED),
            unfinished: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            drains_on_close: AtomicBool::new(false),
            pool,
        }
    }

    pub fn set_limit(&self, bytes: u64) {
        self.allowance.store(bytes, Ordering::Release);
    }

    pub fn lift_limit(&self) {
        self.allowance.store(Self::UNLIMITED, Ordering::Release);
    }

    /// Returns the limit that forbids further reads, if any.
    pub fn exceeded_limit(&self) -> Option<ReadLimitExceeded> {
        if self.allowance.load(Ordering::Acquire) == 0 {
            return Some(ReadLimitExceeded::BeforeSignIn);
        }
        let charged = self.charged.load(Ordering::Relaxed);
        let over = charged > 0 && self.pool.0.load(Ordering::Relaxed) > UnfinishedPool::LIMIT;
        over.then_some(ReadLimitExceeded::SharedPool)
    }

    /// Must be called before closing a connection whose client may still be sending: input is then drained for a
    /// moment, because closing a socket with unread input makes the kernel reset it, which discards the response or
    /// close frame.
    pub fn drain_on_close(&self) {
        self.drains_on_close.store(true, Ordering::Release);
    }

    /// A complete message was received and consumed.
    pub fn message_completed(&self) {
        self.unfinished.store(0, Ordering::Relaxed);
        let charged = self.charged.load(Ordering::Relaxed);
        if charged > 0 {
            self.charged.store(0, Ordering::Relaxed);
            self.pool.0.fetch_sub(charged, Ordering::Relaxed);
        }
    }

    fn record_read(&self, bytes: u64) {
        let left = self.allowance.load(Ordering::Acquire);
        if left != Self::UNLIMITED {
            self.allowance.store(left.saturating_sub(bytes), Ordering::Release);
        }
        let unfinished = self.unfinished.load(Ordering::Relaxed) + bytes;
        self.unfinished.store(unfinished, Ordering::Relaxed);
        let charged = self.charged.load(Ordering::Relaxed);
        let owed = unfinished.saturating_sub(UnfinishedPool::FAIR_SHARE);
        if owed > charged {
            self.charged.store(owed, Ordering::Relaxed);
            self.pool.0.fetch_add(owed - charged, Ordering::Relaxed);
        }
    }
}

impl Drop for ReadBudget {
    fn drop(&mut self) {
        self.message_completed();
    }
}

/// Accepts connections until `stop`; each one is a task of `tracker`.
pub async fn serve(listener: Listener, router: Router, stop: CancellationToken, tracker: TaskTracker) {
    let Listener { surface, socket, max_connections, local_users } = listener;
    let places = Arc::new(Semaphore::new(max_connections));
    let pool = Arc::new(UnfinishedPool::default());
    loop {
        let permit = tokio::select! {
            permit = places.clone().acquire_owned() => permit,
            () = stop.cancelled() => return,
        };
        let Ok(permit) = permit else { return };
        let Some((stream, address)) = accept(surface, &socket, &stop).await else { return };
        let stranger = check_user(surface, &stream, local_users.as_ref());
        let peer = Peer::new(surface, address.ip(), stranger, permit, &pool);
        tracker.spawn(connection(stream, peer, router.clone(), stop.clone()));
    }
}

/// Must run before the first read: once the peer has closed its socket, its user can no longer be determined.
fn check_user(surface: &'static str, stream: &TcpStream, users: Option<&LocalUsers>) -> Option<UserRejection> {
    users.and_then(|users| users.check(surface, stream).err())
}

/// Like `serve`, but refuses connections past the limit with 503 instead of queueing them.
pub async fn serve_or_refuse(
    surface: &'static str,
    socket: TcpListener,
    local_users: Option<LocalUsers>,
    places: ConnectionSlots,
    router: Router,
    stop: CancellationToken,
    tracker: TaskTracker,
) {
    while let Some((stream, address)) = accept(surface, &socket, &stop).await {
        match places.permits.clone().try_acquire_owned() {
            Ok(permit) => {
                let stranger = check_user(surface, &stream, local_users.as_ref());
                let peer = Peer::new(surface, address.ip(), stranger, permit, &places.pool);
                tracker.spawn(connection(stream, peer, router.clone(), stop.clone()));
            }
            Err(_full) => {
                telemetry::refused(surface, "capacity");
                if let Ok(permit) = places.refusals.clone().try_acquire_owned() {
                    tracker.spawn(refusal::refuse(stream, permit));
                }
            }
        }
    }
}

/// Accepts the next connection; returns `None` on `stop`.
async fn accept(
    surface: &'static str,
    socket: &TcpListener,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr)> {
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = stop.cancelled() => return None,
        };
        match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) => {
                tracing::warn!(surface, %error, "accepting a connection failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Peer {
    fn new(
        surface: &'static str,
        address: IpAddr,
        stranger: Option<UserRejection>,
        permit: OwnedSemaphorePermit,
        pool: &Arc<UnfinishedPool>,
    ) -> Self {
        telemetry::connection_opened(surface);
        let place = Arc::new(ConnectionSlot { surface, _permit: permit });
        Self { address, user_rejection: stranger, read_budget: Arc::new(ReadBudget::new(pool.clone())), _slot: place }
    }
}

/// Serves HTTP on one socket. Ends when the peer closes or, on `stop`, after the current request. An upgraded WebSocket
/// continues in its own task.
fn connection(stream: TcpStream, peer: Peer, router: Router, stop: CancellationToken) -> impl Future<Output = ()> {
    // Streamed frames are small and must leave at once; without this each waits for the previous one's ACK.
    let nodelay = stream.set_nodelay(true);
    let reads = peer.read_budget.clone();
    let service = hyper::service::service_fn(move |request| respond(router.clone(), peer.clone(), request));
    async move {
        if let Err(error) = nodelay {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        // hyper starts the head timeout at the first byte, so waiting for that byte needs a timeout of its own.
        if tokio::time::timeout(HEAD_TIMEOUT, stream.peek(&mut [0])).await.is_err() {
            return;
        }
        let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(64 * 1024);
        let io = TokioIo::new(MeteredStream { stream: Some(stream), read_budget: reads });
        let serving = builder.serve_connection_with_upgrades(io, service);
        tokio::pin!(serving);
        let ended = tokio::select! {
            ended = serving.as_mut() => ended,
            () = stop.cancelled() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended with an error");
        }
    }
}

/// Handles one request. The connection is kept only if the request was read to its end; otherwise the rest of it would
/// be parsed as the next request.
async fn respond(router: Router, peer: Peer, request: Request<Incoming>) -> Result<Response, NoResponse> {
    let reads = peer.read_budget.clone();
    let mut request = request.map(RequestBody::new);
    let progress = request.body().progress();
    request.extensions_mut().insert(peer);
    let mut response = router.oneshot(request).await?;
    if response.extensions().get::<NoResponse>().is_some() {
        return Err(NoResponse);
    }
    if progress.is_complete() {
        reads.message_completed();
    } else if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        reads.drain_on_close();
    }
    Ok(response)
}

/// Marks a response: the connection is closed without sending one.
pub(crate) fn close_without_response() -> Response {
    let mut answer = Response::default();
    answer.extensions_mut().insert(NoResponse);
    answer
}

#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("closed without an answer")]
struct NoResponse;

impl From<Infallible> for NoResponse {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// A TCP stream that counts its reads against a `ReadBudget`.
struct MeteredStream {
    /// `None` only during drop.
    stream: Option<TcpStream>,
    read_budget: Arc<ReadBudget>,
}

impl MeteredStream {
    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::Error::other("the connection is closed"))
    }
}

impl Drop for MeteredStream {
    fn drop(&mut self) {
        let stream = self.stream.take().filter(|_| self.read_budget.drains_on_close.load(Ordering::Acquire));
        if let (Some(stream), Ok(runtime)) = (stream, Handle::try_current()) {
            // Ends after at most `CLOSE_DRAIN_TIMEOUT`, so shutdown need not track the task.
            runtime.spawn(tokio::time::timeout(CLOSE_DRAIN_TIMEOUT, drain_unread(stream)));
        }
    }
}

/// Reads and discards input until the client has closed.
async fn drain_unread(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut unread = [0; 16 * 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read_budget.exceeded_limit().is_some() {
            return Poll::Ready(Err(io::Error::other("the connection may not read more")));
        }
        let before = buffer.filled().len();
        let polled = match self.stream() {
            Ok(stream) => stream.poll_read(context, buffer),
            Err(over) => return Poll::Ready(Err(over)),
        };
        self.read_budget.record_read((buffer.filled().len() - before) as u64);
        polled
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.stream() {
            Ok(stream) => stream.poll_write(context, bytes),
            Err(over) => Poll::Ready(Err(over)),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.stream() {
            Ok(stream) => stream.poll_write_vectored(context, slices),
            Err(over) => Poll::Ready(Err(over)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(TcpStream::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream() {
            Ok(stream) => stream.poll_flush(context),
            Err(over) => Poll::Ready(Err(over)),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream() {
            Ok(stream) => stream.poll_shutdown(context),
            Err(over) => Poll::Ready(Err(over)),
        }
    }
}

#[cfg(test)]
mod tests;
