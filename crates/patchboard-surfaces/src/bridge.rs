//! The bridge surface: gRPC for programs, as defined by `proto/bridge.proto`. Each worker of a pool connects to a
//! loopback listener of its own, all other clients over TCP or a Unix socket.
//!
//! - `connection` and `admit`: from a socket to an admitted request; `worker_listeners`: the workers' listeners; `tls`,
//!   `unix`: transports; `h2_authority_rewrite`: repairs the `:authority` that Unix socket clients send.
//! - `service`: the methods; `map` and `error`: conversion to and from the board; `chunk_stream`, `telemetry_stream`:
//!   long-lived responses; `health`: for monitoring.
//! - `metered_body` and `rpc_counters`: memory in use, and metrics.

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

use crate::auth::{AuthGate, PendingSignIns, SignInPermit};
use crate::guard::OriginGuard;
use crate::local_users::{self, LocalUsers, UserRejection};
use crate::telemetry;

mod admit;
mod chunk_stream;
mod connection;
mod error;
mod h2_authority_rewrite;
mod health;
mod map;
mod metered_body;
mod rpc_counters;
mod service;
mod telemetry_stream;
mod tls;
mod unix;
mod worker_listeners;

pub use tls::{ReloadableTls, TlsError, TlsFiles};
pub use unix::UnixSocket;
pub use worker_listeners::WorkerListeners;

use connection::{ConnectionKind, PeerConnection, TransportStream};
use h2_authority_rewrite::AuthorityRewriteStream;
use health::HealthService;
use metered_body::{MessageMemory, UploadBody};
use rpc_counters::RpcCounters;

const SURFACE: &str = "bridge";
/// For this long after startup, opening a session waits for workers that are still starting; afterwards it lists the
/// tools that are registered, so that a pool that never comes up delays no later session.
const WORKER_START_TIMEOUT: Duration = Duration::from_secs(10);
/// Deadline for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after `accept` failed (usually: out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Concurrent telemetry streams; further ones are refused.
const MAX_TELEMETRY_STREAMS: usize = 64;

/// Concurrent calls, those queued for a worker included; further ones are refused.
const MAX_CALLS: usize = 16 * 1024;

pub struct BridgeOptions {
    /// Whose processes may connect over TCP if no token is required.
    pub local_users: LocalUsers,
    /// For TCP and the Unix socket. Without a configured token, clients on this machine are authenticated as the local
    /// user.
    pub gate: AuthGate,
    pub guard: OriginGuard,
    /// The server's node name in telemetry events.
    pub node: Arc<str>,
    pub clock: Arc<dyn Clock>,
    pub limits: BridgeLimits,
    /// Whether pickled values are forwarded to workers.
    pub allow_pickle: bool,
    /// Resolves once every pool has its first worker, or cannot get one.
    pub workers_ready: BoxFuture<'static, ()>,
    /// Cancelled at shutdown.
    pub draining: CancellationToken,
    /// How long active requests may continue during shutdown before connections are closed.
    pub drain_timeout: Duration,
    /// Tracks the worker listeners, connections, requests and calls. Worker listeners end with their workers.
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
    /// Largest message in bytes, in both directions.
    pub message: usize,
    /// Concurrent connections over TCP and the Unix socket; further ones are closed.
    pub connections: usize,
    /// Longest duration of a call; a caller may ask for less.
    pub call: Duration,
    /// Longest duration of a streaming call.
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
pub struct Bridge(Arc<GrpcShared>);

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

type ReflectionService = BoxCloneSyncService<Request<UploadBody>, Response<Body>, Infallible>;

struct GrpcShared {
    board: Board,
    local_users: LocalUsers,
    gate: AuthGate,
    pending_sign_ins: PendingSignIns,
    guard: OriginGuard,
    /// For worker listeners; workers connect under this machine's own names.
    worker_guard: OriginGuard,
    node: Arc<str>,
    clock: Arc<dyn Clock>,
    limits: BridgeLimits,
    allow_pickle: bool,
    workers_ready: Shared<BoxFuture<'static, ()>>,
    draining: CancellationToken,
    drain_timeout: Duration,
    tracker: TaskTracker,
    message_memory: Arc<MessageMemory>,
    rpc_counters: RpcCounters,
    health: Arc<HealthService>,
    reflection: Option<[ReflectionService; 2]>,
    /// Bounds the connections over TCP and the Unix socket.
    connection_permits: Arc<Semaphore>,
    call_permits: Arc<Semaphore>,
    telemetry_permits: Arc<Semaphore>,
    started: Instant,
}

impl Bridge {
    pub fn new(board: Board, options: BridgeOptions) -> Self {
        let health = Arc::new(HealthService { draining: options.draining.clone() });
        Self(Arc::new(GrpcShared {
            board,
            local_users: options.local_users,
            gate: options.gate,
            pending_sign_ins: PendingSignIns::default(),
            guard: options.guard,
            worker_guard: OriginGuard { surface: SURFACE, ..OriginGuard::default() },
            node: options.node,
            clock: options.clock,
            limits: options.limits,
            allow_pickle: options.allow_pickle,
            workers_ready: options.workers_ready.shared(),
            draining: options.draining,
            drain_timeout: options.drain_timeout,
            tracker: options.tracker,
            message_memory: Arc::new(MessageMemory::new(options.limits.message)),
            rpc_counters: RpcCounters::default(),
            health,
            reflection: reflection_services(),
            connection_permits: Arc::new(Semaphore::new(options.limits.connections)),
            call_permits: Arc::new(Semaphore::new(MAX_CALLS)),
            telemetry_permits: Arc::new(Semaphore::new(MAX_TELEMETRY_STREAMS)),
            started: Instant::now(),
        }))
    }

    /// Accepts TCP connections until shutdown.
    pub async fn serve_public(self, socket: TcpListener, tls: Option<ReloadableTls>) {
        while let Some((stream, permit)) = self.next_connection(|| socket.accept()).await {
            let Ok(address) = stream.peer_addr() else { continue };
            let needs_token = self.0.gate.needs_token();
            let sign_in_permit = needs_token.then(|| self.0.pending_sign_ins.try_acquire(address.ip()));
            if sign_in_permit.as_ref().is_some_and(Option::is_none) {
                telemetry::refused(SURFACE, "capacity");
                continue;
            }
            // A client certificate replaces the token, from any address.
            let asks_user = !needs_token && !tls.as_ref().is_some_and(|tls| tls.requires_client_certificate);
            // Runs before anything is read: once the peer has closed its socket, its user can no longer be determined.
            let rejection = asks_user.then(|| self.0.local_users.check(SURFACE, &stream).err()).flatten();
            let (bridge, tls) = (self.clone(), tls.clone());
            self.0.tracker.spawn(async move {
                bridge.serve_tcp(stream, (address.ip(), rejection), tls, sign_in_permit.flatten()).await;
                drop(permit);
            });
        }
    }

    /// Accepts processes of the server's own user until shutdown.
    pub async fn serve_unix(self, socket: UnixSocket) {
        let own_user = local_users::own_user();
        while let Some((stream, permit)) = self.next_connection(|| socket.listener.accept()).await {
            if !unix::is_owned_by(&stream, own_user) {
                telemetry::refused(SURFACE, "address");
                tracing::warn!(surface = SURFACE, "a process of another user tried the Unix socket");
                continue;
            }
            let peer = PeerConnection::new(self.clone(), ConnectionKind::Unix, None);
            let stop = self.0.draining.clone();
            self.0.tracker.spawn(async move {
                connection::serve(TransportStream::Unix(AuthorityRewriteStream::new(stream)), peer, stop).await;
                drop(permit);
            });
        }
    }

    /// Accepts the next connection for which there is a permit; returns `None` on shutdown.
    async fn next_connection<S, A, F>(&self, accept: impl Fn() -> F) -> Option<(S, OwnedSemaphorePermit)>
    where
        F: Future<Output = io::Result<(S, A)>>,
    {
        loop {
            let stream = tokio::select! {
                stream = accept_next(&accept) => stream,
                () = self.0.draining.cancelled() => return None,
            };
            match self.0.connection_permits.clone().try_acquire_owned() {
                Ok(permit) => return Some((stream, permit)),
                Err(_full) => telemetry::refused(SURFACE, "capacity"),
            }
        }
    }

    async fn serve_tcp(
        self,
        stream: TcpStream,
        (address, rejection): (IpAddr, Option<UserRejection>),
        tls: Option<ReloadableTls>,
        sign_in_permit: Option<SignInPermit>,
    ) {
        connection::set_nodelay(&stream);
        let (io, is_certified) = match tls {
            None => (TransportStream::Tcp(stream), false),
            Some(tls) => match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.acceptor().accept(stream)).await {
                Ok(Ok(stream)) => (TransportStream::Tls(Box::new(stream)), tls.requires_client_certificate),
                Ok(Err(error)) => return tracing::debug!(surface = SURFACE, %error, "no secure connection"),
                Err(_) => return,
            },
        };
        let stop = self.0.draining.clone();
        let kind = ConnectionKind::Public { address, is_certified, user_rejection: rejection };
        connection::serve(io, PeerConnection::new(self, kind, sign_in_permit), stop).await;
    }

    /// Waits a bounded time for workers that are still starting.
    async fn wait_for_workers(&self) {
        if self.0.workers_ready.peek().is_none() {
            // The tools of later workers are listed once they register.
            drop(tokio::time::timeout_at(self.0.started + WORKER_START_TIMEOUT, self.0.workers_ready.clone()).await);
        }
    }

    /// A permit for one more call.
    fn acquire_call_permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        let permit = self.0.call_permits.clone().try_acquire_owned();
        permit.map_err(|_| Status::resource_exhausted("too many calls are under way; try again in a few seconds"))
    }

    fn server_time(&self) -> patchboard_proto::Timestamp {
        map::timestamp(self.0.clock.now())
    }
}

/// Accepts the next connection; retries after errors.
async fn accept_next<S, A, F>(accept: impl Fn() -> F) -> S
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

/// gRPC server reflection, for clients that ask for it: protocol v1 and v1alpha.
fn reflection_services() -> Option<[ReflectionService; 2]> {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(patchboard_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let (current, former) = (builder().build_v1().ok()?, builder().build_v1alpha().ok()?);
    Some([BoxCloneSyncService::new(current), BoxCloneSyncService::new(former)])
}

#[cfg(test)]
mod tests;
