//! The runs surface: agent runs, watched step by step, over WebSocket JSON at `/`.

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

/// Small, because most connections are idle most of the time; both grow while they are needed.
const SOCKET_BUFFER: usize = 4 * 1024;
/// A subprotocol with this prefix carries the token, for clients that cannot set headers.
const BEARER_PROTOCOL: &str = "bearer.";

pub struct RunsOptions {
    pub gate: AuthGate,
    pub guard: OriginGuard,
    /// `limits.stall` is how long a client may take nothing before it is let go and its run kept.
    pub limits: PumpLimits,
    /// Of these, only the size of messages counts here.
    pub clients: LiveLimits,
    /// Clients give up on event types they do not know: newer types travel as `custom`.
    pub strict_clients: bool,
    /// A failed run closes its connection once it has been told.
    pub close_on_error: bool,
    /// Cancelled when the server goes down.
    pub draining: CancellationToken,
    /// Connections are its tasks.
    pub tracker: TaskTracker,
}

/// What the pure half of a connection depends on.
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

/// The pure half of a runs connection, as the pump and the transcript tests drive it.
pub fn dialect(options: RunsDialectOptions) -> Box<dyn Dialect> {
    Box::new(dialect::RunsDialect::new(options))
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
    // Whoever offers a subprotocol expects one to be chosen.
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
            // Boxed: the future behind an idle connection stays small until it has something to do.
            Box::pin(pump::run(runs.context, socket, dialect, client)).await;
            drop(token);
        })
}

/// Where a client showed its token.
enum ShownToken {
    Missing,
    Header(String),
    Protocol(String),
    /// A header that holds no token.
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
