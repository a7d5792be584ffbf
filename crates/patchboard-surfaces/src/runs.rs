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

use crate::auth::{self, AuthGate, ClientIdentity, TokenVerdict};
use crate::dialect::Dialect;
use crate::guard::{self, OriginGuard};
use crate::limit::LiveLimits;
use crate::listen::{self, Peer};
use crate::pump::{self, ClientAuth, ClientConnection, PumpContext, PumpLimits};
use crate::trace::traceparent;

mod dialect;
mod error;
mod map;
mod projection;
mod wire;
mod yaml;

/// Small, because most connections are idle; both buffers grow on demand.
const SOCKET_BUFFER: usize = 4 * 1024;
/// Prefix of a WebSocket subprotocol that carries the token, for clients that cannot set headers.
const BEARER_PROTOCOL: &str = "bearer.";

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
pub struct RunsDialectOptions {
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
    dialect_options: RunsDialectOptions,
    tracker: TaskTracker,
}

/// Creates the dialect of a runs connection, for the pump and for transcript tests.
pub fn dialect(options: RunsDialectOptions) -> impl Dialect {
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
        dialect_options: RunsDialectOptions { strict_clients, close_on_error, draining },
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
    let shown = ShownToken::read(&headers);
    let identity = match runs.identify(&peer, &shown).await {
        Ok(identity) => identity,
        Err(refused) => return refused,
    };
    let admission = ClientAuth::SignedIn(identity);
    let trace = traceparent(&headers).map(Into::into);
    let client = ClientConnection { peer, connection: pump::next_connection(), auth: admission, trace };
    let dialect = dialect(runs.dialect_options);
    let token = runs.tracker.token();
    let max_message = runs.clients.get().max_message;
    // RFC 6455: a client that offers subprotocols expects the server to select one.
    let upgrade = match shown {
        ShownToken::Protocol(token) => upgrade.protocols([format!("{BEARER_PROTOCOL}{token}")]),
        ShownToken::Missing | ShownToken::Header(_) | ShownToken::Malformed => upgrade,
    };
    upgrade
        .max_message_size(max_message)
        .max_frame_size(max_message)
        .read_buffer_size(SOCKET_BUFFER)
        .write_buffer_size(SOCKET_BUFFER)
        .on_upgrade(move |socket| async move {
            // Boxed to keep the upgrade future of an idle connection small.
            Box::pin(pump::run(runs.context, socket, dialect, client)).await;
            drop(token);
        })
}

/// The token of an upgrade request, by its source.
enum ShownToken {
    Missing,
    Header(String),
    Protocol(String),
    /// An `Authorization` header without a bearer token.
    Malformed,
}

impl ShownToken {
    fn read(headers: &HeaderMap) -> Self {
        if let Some(given) = headers.get(header::AUTHORIZATION) {
            let token = auth::bearer(given);
            return token.map_or(Self::Malformed, |token| Self::Header(token.to_owned()));
        }
        let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let mut protocols = offered.filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(','));
        let token = protocols.find_map(|protocol| protocol.trim().strip_prefix(BEARER_PROTOCOL));
        token.map_or(Self::Missing, |token| Self::Protocol(token.to_owned()))
    }
}

impl Runs {
    async fn identify(&self, peer: &Peer, shown: &ShownToken) -> Result<ClientIdentity, Response> {
        let token = match shown {
            ShownToken::Missing => return self.context.gate.anonymous().ok_or_else(unauthorised),
            ShownToken::Header(token) | ShownToken::Protocol(token) => token,
            ShownToken::Malformed => return Err(unauthorised()),
        };
        match self.context.gate.check(peer.address, token).await {
            TokenVerdict::Accepted(identity) => Ok(identity),
            TokenVerdict::Wrong => Err(unauthorised()),
            TokenVerdict::CloseUnanswered => Err(listen::close_without_response()),
        }
    }
}

fn unauthorised() -> Response {
    let text = "missing or wrong token: send `Authorization: Bearer <token>` or the subprotocol `bearer.<token>`\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
}
