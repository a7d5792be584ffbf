//! The bridge surface: gRPC for programs, as `proto/bridge.proto` says it. Workers of the pools come in on lines of their
//! own, everybody else over TCP or a Unix socket.
//!
//! - `connection` and `admit`: from a socket to a request that may come in; `private`: the lines of workers; `tls`,
//!   `unix`: what sockets are made of; `authority`: what clients call them.
//! - `service`: the methods; `map` and `error`: what they mean to the board; `chunks`, `listening`: what goes on for a
//!   while; `health`: for whoever watches.
//! - `upload` and `counts`: what is in hand, and what there was.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Request, Response};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use patchboard_core::Board;
use patchboard_core::port::Clock;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::body::Body;
use tower::util::BoxCloneSyncService;

use crate::auth::{AuthGate, Seat, WaitingRoom};
use crate::guard::Guard;
use crate::local_users::{self, LocalUsers, Stranger};
use crate::telemetry;

mod admit;
mod authority;
mod chunks;
mod connection;
mod counts;
mod error;
mod health;
mod listening;
mod map;
mod private;
mod service;
mod tls;
mod unix;
mod upload;

pub use private::PrivateDoors;
pub use tls::{Error as TlsError, Tls, TlsFiles};
pub use unix::UnixSocket;

use authority::Nameless;
use connection::{Door, Io, Visitor};
use counts::Counts;
use health::Health;
use upload::{Upload, Uploads};

const SURFACE: &str = "bridge";
/// For so long after the start a session's opening waits for workers that are still starting; then it lists what there
/// is, so that a pool that never comes up delays nobody later.
const SETTLE: Duration = Duration::from_secs(10);
/// A client that is not done with its certificates by then is dropped.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Pause after `accept` failed (usually: out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Streams of telemetry at once; the next one is refused.
const MAX_LISTENERS: usize = 64;

/// Calls under way at once, those that wait for a worker included; the next one is refused.
const MAX_CALLS: usize = 16 * 1024;

pub struct BridgeOptions {
    /// Whose processes may connect over TCP where no token is asked for.
    pub local_users: LocalUsers,
    /// For TCP and the Unix socket. Without a token everybody on this machine is its local user.
    pub gate: AuthGate,
    pub guard: Guard,
    /// What the server calls itself in what it tells.
    pub node: Arc<str>,
    pub clock: Arc<dyn Clock>,
    pub limits: BridgeLimits,
    /// Forward pickled values to workers.
    pub allow_pickle: bool,
    /// Done when every pool has had its first worker, or cannot have one.
    pub settled: BoxFuture<'static, ()>,
    /// Cancelled when the server goes down.
    pub draining: CancellationToken,
    /// How long what is under way may take then, before connections are cut.
    pub patience: Duration,
    /// Listeners of workers, connections, requests and calls are its tasks. Those of workers end with their workers.
    pub tracker: TaskTracker,
}

impl fmt::Debug for BridgeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgeOptions")
            .field("guard", &self.guard)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct BridgeLimits {
    /// Largest message in bytes, both ways.
    pub message: usize,
    /// Connections over TCP and the Unix socket at once; the next one is cut.
    pub connections: usize,
    /// How long a call may take; a caller may ask for less.
    pub call: Duration,
    /// The same for calls that hand over their result piece by piece.
    pub stream: Duration,
}

impl Default for BridgeLimits {
    fn default() -> Self {
        Self {
            message: 100 * 1024 * 1024,
            connections: 1000,
            call: Duration::from_millis(298_800),
            stream: Duration::from_secs(900),
        }
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Bridge(Arc<Inner>);

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

type Reflection = BoxCloneSyncService<Request<Upload>, Response<Body>, Infallible>;

struct Inner {
    board: Board,
    local_users: LocalUsers,
    gate: AuthGate,
    waiting: WaitingRoom,
    guard: Guard,
    /// For the lines of workers, which call this machine by its own names.
    private_guard: Guard,
    node: Arc<str>,
    clock: Arc<dyn Clock>,
    limits: BridgeLimits,
    allow_pickle: bool,
    settled: Shared<BoxFuture<'static, ()>>,
    draining: CancellationToken,
    patience: Duration,
    tracker: TaskTracker,
    uploads: Arc<Uploads>,
    counts: Counts,
    health: Arc<Health>,
    reflection: Option<[Reflection; 2]>,
    /// Places for connections.
    places: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    listeners: Arc<Semaphore>,
    started: Instant,
}

impl Bridge {
    pub fn new(board: Board, options: BridgeOptions) -> Self {
        let health = Arc::new(Health { draining: options.draining.clone() });
        Self(Arc::new(Inner {
            board,
            local_users: options.local_users,
            gate: options.gate,
            waiting: WaitingRoom::default(),
            guard: options.guard,
            private_guard: Guard { surface: SURFACE, ..Guard::default() },
            node: options.node,
            clock: options.clock,
            limits: options.limits,
            allow_pickle: options.allow_pickle,
            settled: options.settled.shared(),
            draining: options.draining,
            patience: options.patience,
            tracker: options.tracker,
            uploads: Arc::new(Uploads::new(options.limits.message)),
            counts: Counts::default(),
            health,
            reflection: reflection(),
            places: Arc::new(Semaphore::new(options.limits.connections)),
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
            listeners: Arc::new(Semaphore::new(MAX_LISTENERS)),
            started: Instant::now(),
        }))
    }

    /// Accepts over TCP until the server goes down.
    pub async fn serve_public(self, socket: TcpListener, tls: Option<Tls>) {
        while let Some((stream, place)) = self.next(|| socket.accept()).await {
            let Ok(address) = stream.peer_addr() else { continue };
            let needs_token = self.0.gate.needs_token();
            let seat = needs_token.then(|| self.0.waiting.enter(address.ip()));
            if seat.as_ref().is_some_and(Option::is_none) {
                telemetry::refused(SURFACE, "capacity");
                continue;
            }
            // Who shows a certificate needs no token wherever it is.
            let asks_user = !needs_token && !tls.as_ref().is_some_and(|tls| tls.knows_clients);
            // Asked before anything is read: afterwards the other end may be gone, and nobody's.
            let stranger = asks_user.then(|| self.0.local_users.check(SURFACE, &stream).err()).flatten();
            let (bridge, tls) = (self.clone(), tls.clone());
            self.0.tracker.spawn(async move {
                bridge.welcome(stream, (address.ip(), stranger), tls, seat.flatten()).await;
                drop(place);
            });
        }
    }

    /// Accepts processes of the same user until the server goes down.
    pub async fn serve_unix(self, socket: UnixSocket) {
        let own_user = local_users::own_user();
        while let Some((stream, place)) = self.next(|| socket.listener.accept()).await {
            if !unix::is_of(&stream, own_user) {
                telemetry::refused(SURFACE, "address");
                tracing::warn!(surface = SURFACE, "a process of another user tried the Unix socket");
                continue;
            }
            let visitor = Visitor::new(self.clone(), Door::Unix, None);
            let stop = self.0.draining.clone();
            self.0.tracker.spawn(async move {
                connection::serve(Io::Unix(Nameless::new(stream)), visitor, stop).await;
                drop(place);
            });
        }
    }

    /// The next connection there is a place for; `None` when it is time to stop.
    async fn next<S, A, F>(&self, accept: impl Fn() -> F) -> Option<(S, OwnedSemaphorePermit)>
    where
        F: Future<Output = io::Result<(S, A)>>,
    {
        loop {
            let stream = tokio::select! {
                stream = accepted(&accept) => stream,
                () = self.0.draining.cancelled() => return None,
            };
            match self.0.places.clone().try_acquire_owned() {
                Ok(place) => return Some((stream, place)),
                Err(_full) => telemetry::refused(SURFACE, "capacity"),
            }
        }
    }

    async fn welcome(
        self,
        stream: TcpStream,
        (address, stranger): (IpAddr, Option<Stranger>),
        tls: Option<Tls>,
        seat: Option<Seat>,
    ) {
        connection::without_delay(&stream);
        let (io, is_certified) = match tls {
            None => (Io::Tcp(stream), false),
            Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.acceptor().accept(stream)).await {
                Ok(Ok(stream)) => (Io::Tls(Box::new(stream)), tls.knows_clients),
                Ok(Err(error)) => return tracing::debug!(surface = SURFACE, %error, "no secure connection"),
                Err(_) => return,
            },
        };
        let stop = self.0.draining.clone();
        let door = Door::Public { address, is_certified, stranger };
        connection::serve(io, Visitor::new(self, door, seat), stop).await;
    }

    /// Waits for workers that are still starting, but not for long.
    async fn settled(&self) {
        if self.0.settled.peek().is_none() {
            // Whoever has not come by then is listed when it has.
            drop(tokio::time::timeout_at(self.0.started + SETTLE, self.0.settled.clone()).await);
        }
    }

    /// A place for one more call.
    fn place(&self) -> Result<OwnedSemaphorePermit, Status> {
        let place = self.0.calls.clone().try_acquire_owned();
        place.map_err(|_| Status::resource_exhausted("too many calls are under way; try again in a few seconds"))
    }

    fn time(&self) -> patchboard_proto::Timestamp {
        map::timestamp(self.0.clock.now())
    }
}

/// The next connection, however long it takes.
async fn accepted<S, A, F>(accept: impl Fn() -> F) -> S
where
    F: Future<Output = io::Result<(S, A)>>,
{
    loop {
        match accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(surface = SURFACE, %error, "accepting a connection failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What the server speaks, for clients that ask: the current protocol and the one before it.
fn reflection() -> Option<[Reflection; 2]> {
    let about = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(patchboard_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let (current, former) = (about().build_v1().ok()?, about().build_v1alpha().ok()?);
    Some([BoxCloneSyncService::new(current), BoxCloneSyncService::new(former)])
}

#[cfg(test)]
mod tests;
