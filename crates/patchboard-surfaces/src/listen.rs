//! Sockets: bind, accept, bound the number of connections and the time they may take to say what they want.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::telemetry;

/// A client that has not finished its request head by then is dropped.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// Pause after `accept` failed (usually: out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Listener {
    pub surface: &'static str,
    pub socket: TcpListener,
    /// Connections at once; the next one waits in the kernel's queue.
    pub max_connections: usize,
}

/// What a request can know of the connection it came on.
#[derive(Debug, Clone)]
pub struct Peer {
    pub address: IpAddr,
    pub reads: Arc<ReadAllowance>,
    /// Kept by whoever keeps the connection, an upgraded WebSocket included: the place is free when it is dropped.
    _place: Arc<Place>,
}

#[derive(Debug)]
struct Place {
    surface: &'static str,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        telemetry::connection_closed(self.surface);
    }
}

/// How many more bytes may be read from a connection. Unlimited unless a handler says otherwise, as it does for
/// clients that have not shown their token yet.
#[derive(Debug)]
pub struct ReadAllowance(AtomicU64);

impl ReadAllowance {
    const UNLIMITED: u64 = u64::MAX;

    pub fn limit(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Release);
    }

    pub fn lift(&self) {
        self.0.store(Self::UNLIMITED, Ordering::Release);
    }

    pub fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    fn spend(&self, bytes: u64) {
        // Only the connection's own reader spends, so load and store need not be one step.
        let left = self.0.load(Ordering::Acquire);
        if left != Self::UNLIMITED {
            self.0.store(left.saturating_sub(bytes), Ordering::Release);
        }
    }
}

/// Accepts until `stop`; every connection is a task of `tracker`.
pub async fn serve(listener: Listener, router: Router, stop: CancellationToken, tracker: TaskTracker) {
    let Listener { surface, socket, max_connections } = listener;
    let places = Arc::new(Semaphore::new(max_connections));
    loop {
        let permit = tokio::select! {
            permit = places.clone().acquire_owned() => permit,
            () = stop.cancelled() => return,
        };
        let Ok(permit) = permit else { return };
        let (stream, address) = tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(surface, %error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = stop.cancelled() => return,
        };
        telemetry::connection_opened(surface);
        let place = Arc::new(Place { surface, _permit: permit });
        tracker.spawn(connection(stream, address, place, router.clone(), stop.clone()));
    }
}

/// Serves HTTP on one socket. Ends when the peer is done, or, on `stop`, after the request in hand.
/// An upgraded WebSocket lives on in a task of its own.
fn connection(
    stream: TcpStream,
    address: SocketAddr,
    place: Arc<Place>,
    router: Router,
    stop: CancellationToken,
) -> impl Future<Output = ()> {
    // Streamed frames are small and must leave at once; without this each waits for the previous one's ACK.
    let nodelay = stream.set_nodelay(true);
    let reads = Arc::new(ReadAllowance(AtomicU64::new(ReadAllowance::UNLIMITED)));
    let peer = Peer { address: address.ip(), reads: reads.clone(), _place: place };
    let service = router.map_request(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer.clone());
        request
    });
    async move {
        if let Err(error) = nodelay {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        // WebSockets need HTTP/1 only, and telling the versions apart would wait for a first byte without a limit.
        let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(64 * 1024);
        let io = TokioIo::new(Metered { stream, reads });
        let serving = builder.serve_connection_with_upgrades(io, TowerToHyperService::new(service));
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

/// A stream whose reads are counted against an allowance.
struct Metered {
    stream: TcpStream,
    reads: Arc<ReadAllowance>,
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.reads.is_used_up() {
            return Poll::Ready(Err(io::Error::other("the connection read more than it may before it signed in")));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.reads.spend((buffer.filled().len() - before) as u64);
        polled
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
