//! The hub surface: apps register over WebSocket JSON on any path and receive utterances; HTTP under `/v1` submits
//! utterances and reports their state. Both share one loopback listener.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State, WebSocketUpgrade};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use patchboard_core::Board;
use patchboard_core::caller::{GrantSet, Principal, Surface};
use patchboard_core::loopback::is_loopback_address;
use patchboard_core::port::Clock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{AuthGate, ClientIdentity, FailedAttempts, ShownToken};
use crate::dialect::Dialect;
use crate::guard::{self, OriginGuard};
use crate::listen::Peer;
use crate::pump::{ClientAuth, PumpContext, PumpLimits};
use crate::telemetry;
use crate::upgrade::{self, SocketPlan};

mod dialect;
mod error;
mod http;
mod map;
mod wire;

/// Message limit in bytes, set by the protocol; a larger message closes the connection with 1009.
const MAX_MESSAGE: usize = 1024 * 1024;
/// Concurrent requests with `wait`; further ones are refused.
const MAX_WAITS: usize = 64;

pub struct HubOptions {
    /// Authenticates HTTP requests. Without a configured token every client on this machine is the local user; the
    /// operator's own token grants operator rights. App tokens are checked by the board.
    pub gate: AuthGate,
    /// Set if apps need tokens: HTTP then requires a token of the gate as well.
    pub http_needs_token: bool,
    pub guard: OriginGuard,
    pub timeouts: HubTimeouts,
    pub clock: Arc<dyn Clock>,
    /// Concurrent WebSockets, registered or not; further ones are refused with 503. HTTP does not count, so that apps
    /// cannot lock the user out.
    pub max_sockets: usize,
    /// A client that does not read for this long is disconnected.
    pub stall: Duration,
    /// Cancelled at shutdown.
    pub draining: CancellationToken,
    /// Tracks the connection tasks.
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
    /// A connection whose ping is not answered within this time is closed.
    pub pong_timeout: Duration,
    /// A connection that has not registered an app by then is closed.
    pub register_timeout: Duration,
    /// How long apps may take to answer a message, counted from its dispatch. Requests with `wait` wait at most as long
    /// for notifications.
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

/// The inputs of a connection's dialect.
#[derive(Debug, Clone, Default)]
pub struct HubDialectOptions {
    pub timeouts: HubTimeouts,
    /// The token from the upgrade request.
    pub token: Option<Arc<str>>,
    /// The web origin of the upgrade request.
    pub origin: Option<Arc<str>>,
    /// Delays the responses to wrong app tokens, of all connections together.
    pub failed_attempts: Arc<FailedAttempts>,
    /// When the connection was opened, on the time axis of `failed_attempts`.
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
    /// Bounds the WebSockets.
    socket_permits: Arc<Semaphore>,
    /// Bounds the requests with `wait`.
    wait_permits: Semaphore,
    tracker: TaskTracker,
}

/// Creates the dialect of a hub connection, for the pump and for transcript tests.
pub fn dialect(options: HubDialectOptions) -> impl Dialect {
    dialect::HubDialect::new(options)
}

/// May be served on several listeners, which then form one hub.
pub fn router(board: Board, options: HubOptions) -> Router {
    let guard = Arc::new(options.guard);
    let needs_token = options.http_needs_token;
    let inner = HubShared {
        context: PumpContext {
            board,
            gate: Arc::new(options.gate),
            surface: Surface::Hub,
            // The dialect has its own heartbeat.
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
    let hub = Hub(Arc::new(inner));
    let routes = http::routes().layer(middleware::from_fn_with_state(hub.clone(), open_websocket));
    guard::require_local_user_or_token(routes, needs_token)
        .layer(middleware::from_fn_with_state(guard, guard::check))
        .layer(middleware::from_fn(require_loopback))
        .layer(middleware::from_fn(guard::security_headers))
        .with_state(hub)
}

/// The hub serves loopback clients only, wherever its listener is bound.
async fn require_loopback(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>();
    if peer.is_some_and(|peer| is_loopback_address(peer.address)) {
        return next.run(request).await;
    }
    telemetry::refused(SURFACE, "address");
    (StatusCode::FORBIDDEN, "the hub only talks to this machine\n").into_response()
}

/// An upgrade is a WebSocket whatever the path; the rest goes to the routes.
async fn open_websocket(State(hub): State<Hub>, request: Request, next: Next) -> Response {
    if !wants_websocket(&request) {
        return next.run(request).await;
    }
    let (mut head, _) = request.into_parts();
    let Some(peer) = head.extensions.get::<Peer>().cloned() else {
        return StatusCode::FORBIDDEN.into_response();
    };
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
        let Ok(permit) = self.0.socket_permits.clone().try_acquire_owned() else {
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
        // Every connection is the local user's; the registration identifies the app.
        let identity = ClientIdentity::new(Principal::Local, GrantSet::CLIENT);
        let plan = SocketPlan {
            context: self.0.context.clone(),
            dialect: dialect(options),
            auth: ClientAuth::SignedIn(identity),
            max_message: MAX_MESSAGE,
            protocol: offered.protocol,
            permit: Some(permit),
        };
        plan.open(upgrade, peer, headers, &self.0.tracker)
    }
}

/// The token and subprotocol of an upgrade request.
#[derive(Debug, Default, PartialEq, Eq)]
struct UpgradeOffer {
    token: Option<String>,
    /// The selected subprotocol: the one that carries the token, otherwise the first.
    protocol: Option<String>,
}

impl UpgradeOffer {
    fn read(headers: &HeaderMap) -> Self {
        let bearer = upgrade::bearer_protocol(headers);
        let protocol = bearer.map(|bearer| bearer.name).or_else(|| upgrade::offered_protocols(headers).next());
        let token = match ShownToken::in_header(headers) {
            ShownToken::Token(token) => Some(token),
            ShownToken::Missing | ShownToken::Malformed => bearer.map(|bearer| bearer.token),
        };
        Self {
            token: token.filter(|token| !token.is_empty()).map(str::to_owned),
            protocol: protocol.filter(|name| !name.is_empty()).map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests;
