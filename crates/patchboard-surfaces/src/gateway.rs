//! Chat over WebSocket JSON-RPC at `/ws`, and the operator's HTTP routes.

use std::fmt;
use std::sync::Arc;

use axum::extract::{State, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{self, get};
use axum::{Extension, Router};
use patchboard_core::Board;
use patchboard_core::caller::Surface;
use patchboard_core::port::Clock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{AuthGate, ClientIdentity, PendingSignIns, ShownToken};
use crate::dialect::Dialect;
use crate::guard::{self, OriginGuard};
use crate::limit::{LiveLimits, RateLimit};
use crate::listen::Peer;
use crate::pump::{ClientAuth, PumpContext, PumpLimits};
use crate::upgrade::SocketPlan;

mod dialect;
mod error;
mod keepalive;
mod map;
mod webhook;
mod wire;

pub use webhook::{SIGNATURE_HEADER, TOKEN_HEADER, VerifyMethod, WebhookChannel};

pub struct GatewayOptions {
    /// Shared with the other surfaces on the same listener, so that wrong tokens are counted together.
    pub gate: Arc<AuthGate>,
    pub guard: OriginGuard,
    pub limits: PumpLimits,
    pub clients: LiveLimits,
    pub version: &'static str,
    /// Renders the Prometheus text; `None` serves no metrics.
    pub metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    /// The channels that accept webhooks, and how senders authenticate.
    pub channels: Vec<WebhookChannel>,
    /// Checks the age of webhook signatures.
    pub clock: Arc<dyn Clock>,
    /// Cancelled at shutdown.
    pub draining: CancellationToken,
    /// Tracks the connection tasks.
    pub tracker: TaskTracker,
}

impl fmt::Debug for GatewayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayOptions")
            .field("guard", &self.guard)
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Gateway {
    context: PumpContext,
    clients: LiveLimits,
    version: &'static str,
    metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    tracker: TaskTracker,
    pending_sign_ins: PendingSignIns,
    channels: Arc<webhook::Channels>,
}

/// Creates the dialect of a gateway connection, for the pump and for transcript tests.
pub fn dialect(version: &'static str, rate: RateLimit) -> impl Dialect {
    dialect::GatewayDialect::new(version, rate)
}

pub fn router(board: Board, options: GatewayOptions) -> Router {
    let guard = Arc::new(options.guard);
    let needs_token = options.gate.needs_token();
    let gateway = Gateway {
        context: PumpContext {
            board,
            gate: options.gate,
            surface: Surface::Gateway,
            limits: options.limits,
            draining: options.draining,
        },
        clients: options.clients,
        version: options.version,
        metrics: options.metrics,
        tracker: options.tracker,
        pending_sign_ins: PendingSignIns::default(),
        channels: Arc::new(webhook::Channels::new(options.channels, options.clock)),
    };
    let routes = Router::new()
        .route("/", get(status_page))
        .route("/ws", get(upgrade))
        .route("/health", get(async || "ok"))
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics));
    guard::require_local_user_or_token(routes, needs_token)
        // Outside the layer above, because it checks the local user itself: a valid signature proves more than the user
        // of the process that forwards the webhook.
        .route("/webhook/{channel}", routing::any(webhook::receive))
        .layer(middleware::from_fn_with_state(guard, guard::check))
        .layer(middleware::from_fn(guard::security_headers))
        .with_state(gateway)
}

async fn upgrade(
    State(gateway): State<Gateway>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let auth = match gateway.identify(&peer, &headers).await {
        Ok(Some(identity)) => ClientAuth::SignedIn(identity),
        Ok(None) => match gateway.pending_sign_ins.try_acquire(peer.address) {
            Some(permit) => ClientAuth::AwaitingToken(permit),
            None => return too_many_pending(),
        },
        Err(refused) => return refused,
    };
    let limits = gateway.clients.get();
    let mut context = gateway.context;
    context.limits.sign_in = limits.sign_in;
    let plan = SocketPlan {
        context,
        dialect: dialect(gateway.version, limits.rate),
        auth,
        max_message: limits.max_message,
        protocol: None,
        permit: None,
    };
    plan.open(upgrade, peer, &headers, &gateway.tracker)
}

impl Gateway {
    /// A bearer token in the request head authenticates at once; without one the first frame must, if a token is
    /// needed.
    async fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<Option<ClientIdentity>, Response> {
        let gate = &self.context.gate;
        let identified = gate.identify(peer.address, ShownToken::in_header(headers), Surface::Gateway).await;
        let identity = identified.map_err(|refusal| refusal.into_response(unauthorised))?;
        Ok(identity.or_else(|| gate.anonymous()))
    }
}

fn too_many_pending() -> Response {
    crate::telemetry::refused("gateway", "capacity");
    let text = "too many connections are waiting to sign in; try again in a few seconds\n";
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], text).into_response()
}

fn unauthorised() -> Response {
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "wrong token\n").into_response()
}

async fn ready(State(gateway): State<Gateway>) -> Response {
    match gateway.context.board.is_ready().await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {error}\n")).into_response(),
    }
}

/// Metrics reveal usage, so they require a token wherever one is configured.
async fn metrics(State(gateway): State<Gateway>, Extension(peer): Extension<Peer>, headers: HeaderMap) -> Response {
    let Some(render) = &gateway.metrics else { return StatusCode::NOT_FOUND.into_response() };
    match gateway.identify(&peer, &headers).await {
        Ok(Some(_)) => {
            let content_type = HeaderValue::from_static("text/plain; version=0.0.4");
            ([(header::CONTENT_TYPE, content_type)], render()).into_response()
        }
        Ok(None) => unauthorised(),
        Err(refused) => refused,
    }
}

async fn status_page(State(gateway): State<Gateway>) -> Response {
    let ready = if gateway.context.board.is_ready().await.is_ok() { "ready" } else { "not ready" };
    let page = include_str!("gateway/status.html").replace("{version}", gateway.version).replace("{ready}", ready);
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

#[cfg(test)]
mod tests;
