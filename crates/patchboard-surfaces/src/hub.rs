//! The hub surface: apps register over WebSocket JSON on any path and take what a user says; HTTP under `/v1` submits
//! utterances and shows what became of them. Both on one loopback listener.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State, WebSocketUpgrade};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use patchboard_core::Board;
use patchboard_core::access::{GrantSet, Surface};
use patchboard_core::loopback::is_loopback_address;
use patchboard_core::port::Clock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{self, AuthGate, ClientIdentity, FailedAttempts};
use crate::dialect::Dialect;
use crate::guard::{self, OriginGuard};
use crate::listen::Peer;
use crate::pump::{self, ClientAuth, ClientConnection, PumpContext, PumpLimits};
use crate::telemetry;
use crate::trace::traceparent;

mod dialect;
mod error;
mod http;
mod map;
mod wire;

/// Largest message in bytes, as the protocol sets it; a larger one closes the connection with 1009.
const MAX_MESSAGE: usize = 1024 * 1024;
/// Requests with `wait` at once; the next one is refused.
const MAX_WAITS: usize = 64;
/// Small, because most connections are idle most of the time; both grow while they are needed.
const SOCKET_BUFFER: usize = 4 * 1024;
/// A subprotocol with this prefix carries the token, for clients that cannot set headers.
const BEARER_PROTOCOL: &str = "bearer.";

pub struct HubOptions {
    /// For HTTP. Without a token everybody on this machine is its local user; the operator's own token makes the
    /// operator. The tokens of apps are the board's.
    pub gate: AuthGate,
    /// Set where apps need tokens: then HTTP is for whoever shows one the gate knows.
    pub http_needs_token: bool,
    pub guard: OriginGuard,
    pub timeouts: HubTimeouts,
    pub clock: Arc<dyn Clock>,
    /// WebSockets at once, registered or not; the next one is told that there is no place. HTTP is not counted, so that
    /// the user is not locked out by apps.
    pub max_sockets: usize,
    /// A client that takes nothing for this long is disconnected.
    pub stall: Duration,
    /// Cancelled when the server goes down.
    pub draining: CancellationToken,
    /// Connections are its tasks.
    pub tracker: TaskTracker,
}

impl fmt::Debug for HubOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubOptions").field("guard", &self.guard).field("times", &self.timeouts).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct HubTimeouts {
    pub ping_interval: Duration,
    /// A ping that is not answered by then ends the connection.
    pub pong_timeout: Duration,
    /// A connection that is no app by then is dropped.
    pub register_timeout: Duration,
    /// How long apps have to answer a message. For as long after it was sent, whoever waits waits for what they say.
    pub answer_window: Duration,
}

impl Default for HubTimeouts {
    fn default() -> Self {
        Self {
            ping_interval: Duration::from_secs(30),
            pong_timeout: Duration::from_secs(10),
            register_timeout: Duration::from_secs(30),
            answer_window: Duration::from_secs(30),
        }
    }
}

/// What the pure half of a connection depends on.
#[derive(Debug, Clone, Default)]
pub struct HubDialectOptions {
    pub timeouts: HubTimeouts,
    /// Shown when the connection was opened.
    pub token: Option<Arc<str>>,
    /// The web origin the connection came from.
    pub origin: Option<Arc<str>>,
    /// Says when wrong tokens of apps are answered, those of all connections together.
    pub failed_attempts: Arc<FailedAttempts>,
    /// When the connection was opened, in the time of `wrong_tokens`.
    pub opened_at: Duration,
}

const SURFACE: &str = "hub";

#[derive(Clone)]
struct Hub(Arc<HubShared>);

struct HubShared {
    context: PumpContext,
    http_needs_token: bool,
    timeouts: HubTimeouts,
    clock: Arc<dyn Clock>,
    /// Places for WebSockets.
    socket_permits: Arc<Semaphore>,
    /// Requests that may wait for something at once.
    wait_permits: Semaphore,
    tracker: TaskTracker,
}

/// The pure half of a hub connection, as the pump and the transcript tests drive it.
pub fn dialect(options: HubDialectOptions) -> Box<dyn Dialect> {
    Box::new(dialect::HubDialect::new(options))
}

/// May be served on several listeners: to the apps it is one hub.
pub fn router(board: Board, options: HubOptions) -> Router {
    let guard = Arc::new(options.guard);
    let needs_token = options.http_needs_token;
    let inner = HubShared {
        context: PumpContext {
            board,
            gate: Arc::new(options.gate),
            surface: Surface::Hub,
            // The protocol has a heartbeat of its own.
            limits: PumpLimits { stall: options.stall, ping: None, ..PumpLimits::default() },
            draining: options.draining,
        },
        http_needs_token: options.http_needs_token,
        timeouts: options.timeouts,
        clock: options.clock,
        socket_permits: Arc::new(Semaphore::new(options.max_sockets)),
        wait_permits: Semaphore::new(MAX_WAITS),
        tracker: options.tracker,
    };
    guard::require_local_user_or_token(Router::new().fallback(handle), needs_token)
        .layer(middleware::from_fn_with_state(guard, guard::check))
        .layer(middleware::from_fn(require_loopback))
        .layer(middleware::from_fn(guard::security_headers))
        .with_state(Hub(Arc::new(inner)))
}

/// Nobody else has any business here, wherever the listener is bound.
async fn require_loopback(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>();
    if peer.is_some_and(|peer| is_loopback_address(peer.address)) {
        return next.run(request).await;
    }
    telemetry::refused(SURFACE, "address");
    (StatusCode::FORBIDDEN, "the hub only talks to this machine\n").into_response()
}

/// An upgrade is a WebSocket whatever the path; the rest is HTTP.
async fn handle(State(hub): State<Hub>, request: Request) -> Response {
    let Some(peer) = request.extensions().get::<Peer>().cloned() else {
        return StatusCode::FORBIDDEN.into_response();
    };
    if !wants_websocket(&request) {
        return http::handle(&hub, &peer, request).await;
    }
    let (mut head, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut head, &()).await {
        Ok(upgrade) => hub.upgrade(peer, &head.headers, upgrade),
        Err(refused) => refused.into_response(),
    }
}

fn wants_websocket(request: &Request) -> bool {
    let upgrade = request.headers().get(header::UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    request.method() == Method::GET && upgrade.split(',').any(|name| name.trim().eq_ignore_ascii_case("websocket"))
}

impl Hub {
    fn upgrade(self, peer: Peer, headers: &HeaderMap, upgrade: WebSocketUpgrade) -> Response {
        let Ok(place) = self.0.socket_permits.clone().try_acquire_owned() else {
            telemetry::refused(SURFACE, "capacity");
            let text = "too many connections; try again in a few seconds\n";
            return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], text).into_response();
        };
        let offered = UpgradeOffer::read(headers);
        let wrong_tokens = self.0.context.gate.failed_attempts().clone();
        let options = HubDialectOptions {
            timeouts: self.0.timeouts,
            token: offered.token.map(Into::into),
            origin: headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()).map(Into::into),
            opened_at: wrong_tokens.now(),
            failed_attempts: wrong_tokens,
        };
        // Whoever connects is a local user; which app it is, its registration has to show.
        let identity = ClientIdentity { principal: "local".into(), grants: GrantSet::CLIENT };
        let admission = ClientAuth::SignedIn(identity);
        let trace = traceparent(headers).map(Into::into);
        let client = ClientConnection { peer, connection: pump::next_connection(), auth: admission, trace };
        let token = self.0.tracker.token();
        // Whoever offers subprotocols expects one to be chosen.
        let upgrade = match offered.protocol {
            Some(protocol) => upgrade.protocols([protocol]),
            None => upgrade,
        };
        upgrade
            .max_message_size(MAX_MESSAGE)
            .max_frame_size(MAX_MESSAGE)
            .read_buffer_size(SOCKET_BUFFER)
            .write_buffer_size(SOCKET_BUFFER)
            .on_upgrade(move |socket| async move {
                let plug = self.0.context.clone();
                // Boxed: the future behind an idle connection stays small until it has something to do.
                Box::pin(pump::run(plug, socket, dialect(options), client)).await;
                drop((token, place));
            })
    }
}

/// What a client brought along to the upgrade.
#[derive(Debug, Default, PartialEq, Eq)]
struct UpgradeOffer {
    token: Option<String>,
    /// The one that is chosen: the one that carries the token, else the first.
    protocol: Option<String>,
}

impl UpgradeOffer {
    fn read(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let lists = values.filter_map(|value| value.to_str().ok());
        let protocols: Vec<&str> = lists.flat_map(|list| list.split(',')).map(str::trim).collect();
        let bearer = protocols.iter().find_map(|name| name.strip_prefix(BEARER_PROTOCOL).map(|token| (*name, token)));
        let protocol = bearer.map(|(name, _)| name).or_else(|| protocols.first().copied());
        let header = headers.get(header::AUTHORIZATION).and_then(auth::bearer);
        let token = header.or_else(|| bearer.map(|(_, token)| token));
        Self {
            token: token.filter(|token| !token.is_empty()).map(str::to_owned),
            protocol: protocol.filter(|name| !name.is_empty()).map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests;
