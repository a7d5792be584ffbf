//! Sockets: bind, accept, bound the number of connections and the time they may take to say what they want.

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

/// A client that has not finished its request head by then is dropped, be it the first or a later one: an idle
/// connection holds one of the listener's slots for no longer than that.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client that is still sending is read out after its connection has ended.
const CLOSE_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after `accept` failed (usually: out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Listener {
    pub surface: &'static str,
    pub socket: TcpListener,
    /// Connections at once; the next one waits in the kernel's queue.
    pub max_connections: usize,
    /// Set where no token is asked for: whose processes may connect.
    pub local_users: Option<LocalUsers>,
}

/// Connections at once on all listeners that share it; the next one is told that there is no place.
#[derive(Debug, Clone)]
pub struct ConnectionSlots {
    permits: Arc<Semaphore>,
    /// Refusals under way; past this many, connections are cut without a word.
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

/// What a request can know of the connection it came on.
#[derive(Debug, Clone)]
pub struct Peer {
    pub address: IpAddr,
    /// Set for a process that may not use this listener without a token, and none is asked for.
    pub user_rejection: Option<UserRejection>,
    pub read_budget: Arc<ReadBudget>,
    /// Kept by whoever keeps the connection, an upgraded WebSocket included: the place is free when it is dropped.
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

/// How much a connection has read: how much it may before it has signed in, and how much of it is a message that is not
/// whole yet. Only the connection's own task reads, so the counters need no read-modify-write.
#[derive(Debug)]
pub struct ReadBudget {
    allowance: AtomicU64,
    unfinished: AtomicU64,
    charged: AtomicU64,
    /// The client may still be sending when the connection ends.
    drains_on_close: AtomicBool,
    pool: Arc<UnfinishedPool>,
}

/// What all connections together hold of messages that are not whole yet. A client may send a large message, but many
/// clients cannot fill the memory with large messages that never end.
#[derive(Debug, Default)]
struct UnfinishedPool(AtomicU64);

impl UnfinishedPool {
    const LIMIT: u64 = 256 * 1024 * 1024;
    /// What a connection may hold without counting against the others.
    const FAIR_SHARE: u64 = 64 * 1024;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadLimitExceeded {
    BeforeSignIn,
    /// Everybody's unfinished messages together; it may go better later.
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

    /// May nothing more be read?
    pub fn exceeded_limit(&self) -> Option<ReadLimitExceeded> {
        if self.allowance.load(Ordering::Acquire) == 0 {
            return Some(ReadLimitExceeded::BeforeSignIn);
        }
        let charged = self.charged.load(Ordering::Relaxed);
        let over = charged > 0 && self.pool.0.load(Ordering::Relaxed) > UnfinishedPool::LIMIT;
        over.then_some(ReadLimitExceeded::SharedPool)
    }

    /// The connection is about to end in the middle of what the client sends: what still comes is read and thrown away
    /// for a moment, or the system would cut off the farewell with it.
    pub fn drain_on_close(&self) {
        self.drains_on_close.store(true, Ordering::Release);
    }

    /// A message was whole and has been taken.
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

/// Accepts until `stop`; every connection is a task of `tracker`.
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

/// Asked before anything is read: afterwards the other end may be gone, and nobody's.
fn check_user(surface: &'static str, stream: &TcpStream, users: Option<&LocalUsers>) -> Option<UserRejection> {
    users.and_then(|users| users.check(surface, stream).err())
}

/// As `serve`, but whoever finds no place is answered with 503 instead of waiting for one.
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

/// The next connection; `None` when it is time to stop.
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

/// Serves HTTP on one socket. Ends when the peer is done, or, on `stop`, after the request in hand.
/// An upgraded WebSocket lives on in a task of its own.
fn connection(stream: TcpStream, peer: Peer, router: Router, stop: CancellationToken) -> impl Future<Output = ()> {
    // Streamed frames are small and must leave at once; without this each waits for the previous one's ACK.
    let nodelay = stream.set_nodelay(true);
    let reads = peer.read_budget.clone();
    let service = hyper::service::service_fn(move |request| respond(router.clone(), peer.clone(), request));
    async move {
        if let Err(error) = nodelay {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        // The time for the head is counted from its first byte, so the first byte has to come in time too.
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

/// One request and its response. The connection goes on afterwards if the request was read to its end; otherwise what is
/// left of it would be taken for the next request.
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

/// Instead of an answer: the connection is closed without one.
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

/// A stream whose reads are counted against an allowance.
struct MeteredStream {
    /// Gone only when it is dropped.
    stream: Option<TcpStream>,
    read_budget: Arc<ReadBudget>,
}

impl MeteredStream {
    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::Error::other("the connection is over"))
    }
}

impl Drop for MeteredStream {
    fn drop(&mut self) {
        let stream = self.stream.take().filter(|_| self.read_budget.drains_on_close.load(Ordering::Acquire));
        if let (Some(stream), Ok(runtime)) = (stream, Handle::try_current()) {
            // Over in a second whatever happens, so nobody has to wait for it.
            runtime.spawn(tokio::time::timeout(CLOSE_DRAIN_TIMEOUT, drain_unread(stream)));
        }
    }
}

/// Reads and forgets what the client still sends, until it has closed.
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
