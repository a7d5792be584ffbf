//! The runs surface: agent runs as step-by-step events, over WebSocket JSON at `/`.

use std::fmt;
use std::sync::Arc;

use axum::extract::{State, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use patchboard_core::Board;
use patchboard_core::caller::Surface;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{AuthGate, ClientIdentity, ShownToken};
use crate::dialect::Dialect;
use crate::guard::{self, OriginGuard};
use crate::limit::LiveLimits;
use crate::listen::Peer;
use crate::pump::{ClientAuth, PumpContext, PumpLimits};
use crate::upgrade::{self, SocketPlan};

mod dialect;
mod error;
mod map;
mod projection;
mod wire;
mod yaml;

pub struct RunsOptions {
    pub gate: AuthGate,
    pub guard: OriginGuard,
    /// `limits.stall` is how long a client may not read before it is disconnected and its run detached.
    pub limits: PumpLimits,
    /// Only the message size applies here.
    pub clients: LiveLimits,
    /// Sends newer event types as `custom`, because old clients abort on unknown types.
    pub strict_clients: bool,
    /// Closes the connection after reporting a failed run.
    pub close_on_error: bool,
    /// Cancelled at shutdown.
    pub draining: CancellationToken,
    /// Tracks the connection tasks.
    pub tracker: TaskTracker,
}

/// The inputs of a connection's dialect.
#[derive(Debug, Clone, Default)]
pub struct ConnectionOptions {
    pub strict_clients: bool,
    pub close_on_error: bool,
    pub draining: CancellationToken,
}

impl fmt::Debug for RunsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunsOptions").field("guard", &self.guard).field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Runs {
    context: PumpContext,
    clients: LiveLimits,
    dialect_options: ConnectionOptions,
    tracker: TaskTracker,
}

/// Creates the dialect of a runs connection, for the pump and for transcript tests.
pub fn dialect(options: ConnectionOptions) -> impl Dialect {
    dialect::RunsDialect::new(options)
}

pub fn router(board: Board, options: RunsOptions) -> Router {
    let guard = Arc::new(options.guard);
    let needs_token = options.gate.needs_token();
    let RunsOptions { strict_clients, close_on_error, draining, .. } = options;
    let runs = Runs {
        context: PumpContext {
            board,
            gate: Arc::new(options.gate),
            surface: Surface::Runs,
            limits: options.limits,
            draining: draining.clone(),
        },
        clients: options.clients,
        dialect_options: ConnectionOptions { strict_clients, close_on_error, draining },
        tracker: options.tracker,
    };
    guard::require_local_user_or_token(Router::new().route("/", get(upgrade)), needs_token)
        .layer(middleware::from_fn_with_state(guard, guard::check))
        .layer(middleware::from_fn(guard::security_headers))
        .with_state(runs)
}

async fn upgrade(
    State(runs): State<Runs>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let header = ShownToken::in_header(&headers);
    // The header stands before what the subprotocols say.
    let protocol = match header {
        ShownToken::Missing => upgrade::bearer_protocol(&headers),
        ShownToken::Malformed | ShownToken::Token(_) => None,
    };
    let token = protocol.map_or(header, |protocol| ShownToken::Token(protocol.token));
    let identity = match runs.identify(&peer, token).await {
        Ok(identity) => identity,
        Err(refused) => return refused,
    };
    let plan = SocketPlan {
        context: runs.context,
        dialect: dialect(runs.dialect_options),
        auth: ClientAuth::SignedIn(identity),
        max_message: runs.clients.get().max_message,
        protocol: protocol.map(|protocol| protocol.name.to_owned()),
        permit: None,
    };
    plan.open(upgrade, peer, &headers, &runs.tracker)
}

impl Runs {
    async fn identify(&self, peer: &Peer, token: ShownToken<'_>) -> Result<ClientIdentity, Response> {
        let gate = &self.context.gate;
        let identified = gate.identify(peer.address, token, Surface::Runs).await;
        let identity = identified.map_err(|refusal| refusal.into_response(unauthorised))?;
        identity.or_else(|| gate.anonymous()).ok_or_else(unauthorised)
    }
}

fn unauthorised() -> Response {
    let text = "missing or wrong token: send `Authorization: Bearer <token>` or the subprotocol `bearer.<token>`\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
}
