//! MCP at `/mcp`: the tool registry for any MCP client, over streamable HTTP.
//!
//! `POST` carries one JSON-RPC message. A request is answered with JSON, a tool call with an event stream that is kept
//! alive while the tool works. The server never opens a stream of its own, so `GET` is not allowed. A session begins
//! with `initialize`, ends with `DELETE` or after its idle timeout, and is usable only by the principal that began it.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use patchboard_core::caller::{Caller, Grant, Surface};
use patchboard_core::{Board, BoardError};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::auth::{AuthGate, ClientIdentity, ShownToken};
use crate::dialect::BoardRequest;
use crate::guard::{self, OriginGuard};
use crate::limit::LiveLimits;
use crate::listen::Peer;
use crate::trace::traceparent;
use crate::{pump, telemetry};

mod error;
mod map;
mod sessions;
mod wire;

use map::MethodResult;
use sessions::{ActiveRequest, McpSession, McpSessions, SessionRefusal};
use wire::{RpcError, RpcMessage};

const SESSION_HEADER: &str = "mcp-session-id";
const VERSION_HEADER: &str = "mcp-protocol-version";
const JSON_CONTENT_TYPE: &str = "application/json";
const EVENT_STREAM_CONTENT_TYPE: &str = "text/event-stream";
/// Deadline for receiving the whole body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of comment lines that keep proxies and clients from closing a silent stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const SURFACE: &str = "mcp";

pub struct McpOptions {
    /// Shared with the other surfaces on the same listener, so that wrong tokens are counted together.
    pub gate: Arc<AuthGate>,
    pub guard: OriginGuard,
    pub clients: LiveLimits,
    pub version: &'static str,
    /// Tracks the tool call tasks.
    pub tracker: TaskTracker,
}

impl fmt::Debug for McpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpOptions").field("guard", &self.guard).field("clients", &self.clients).finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct McpService(Arc<McpShared>);

struct McpShared {
    board: Board,
    gate: Arc<AuthGate>,
    sessions: McpSessions,
    clients: LiveLimits,
    version: &'static str,
    tracker: TaskTracker,
    started: Instant,
}

/// Routes to be merged into a listener's router; they include their own checks.
pub fn router(board: Board, options: McpOptions) -> Router {
    let guard = Arc::new(options.guard);
    let needs_token = options.gate.needs_token();
    let inner = McpShared {
        board,
        gate: options.gate,
        sessions: McpSessions::default(),
        clients: options.clients,
        version: options.version,
        tracker: options.tracker,
        started: Instant::now(),
    };
    guard::require_local_user_or_token(Router::new().route("/mcp", post(message).delete(handle_delete)), needs_token)
        .layer(middleware::from_fn_with_state(guard, guard::check))
        .layer(middleware::from_fn(guard::security_headers))
        .with_state(McpService(Arc::new(inner)))
}

async fn message(State(mcp): State<McpService>, Extension(peer): Extension<Peer>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    // The body is not read before the client is authenticated.
    let identity = match mcp.identify(&peer, &head.headers).await {
        Ok(identity) => identity,
        Err(refused) => return refused,
    };
    let answered = tokio::select! {
        biased;
        () = identity.revoked() => return unauthorised(),
        answered = answer(&mcp, identity.clone(), &head, body) => answered,
    };
    match identity.key {
        Some(key) if is_event_stream(&answered) => answered.map(|body| {
            // Dropping the stream cancels the call.
            Body::from_stream(body.into_data_stream().take_until(key.revoked.cancelled_owned()))
        }),
        Some(_) | None => answered,
    }
}

fn is_event_stream(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|value| value == EVENT_STREAM_CONTENT_TYPE)
}

async fn answer(mcp: &McpService, identity: ClientIdentity, head: &Parts, body: Body) -> Response {
    let format = match ResponseFormat::of(&head.headers) {
        Ok(format) => format,
        Err(refused) => return refused.into_response(),
    };
    let reading = axum::body::to_bytes(body, mcp.0.clients.get().max_message);
    let body = match tokio::time::timeout(BODY_TIMEOUT, reading).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return plain(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large, or broke off\n"),
        Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the message did not arrive in time\n"),
    };
    match wire::parse_message(&body) {
        Ok(RpcMessage::Request { id, method, params }) if method == "initialize" => {
            mcp.begin_session(identity, &id, &params)
        }
        Ok(message) => match mcp.session(&identity, &head.headers) {
            Ok(session) => mcp.handle_message(session, message, format, traceparent(&head.headers)).await,
            Err(refused) => refused.into_response(),
        },
        Err(problem) => (StatusCode::BAD_REQUEST, json(&wire::error(&Value::Null, &problem))).into_response(),
    }
}

async fn handle_delete(
    State(mcp): State<McpService>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    let identity = match mcp.identify(&peer, &headers).await {
        Ok(identity) => identity,
        Err(refused) => return refused,
    };
    match mcp.session(&identity, &headers) {
        Ok(session) => {
            mcp.0.sessions.end(&session);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(refused) => refused.into_response(),
    }
}

/// The response formats that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseFormat {
    Json,
    /// An event stream for tool calls, JSON for everything else.
    Either,
    Events,
}

type HttpRefusal = (StatusCode, &'static str);

impl ResponseFormat {
    fn of(headers: &HeaderMap) -> Result<Self, HttpRefusal> {
        let content = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if media_type(content) != JSON_CONTENT_TYPE {
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json\n"));
        }
        if let Some(version) = headers.get(VERSION_HEADER)
            && !version.to_str().is_ok_and(|version| map::VERSIONS.contains(&version))
        {
            return Err((StatusCode::BAD_REQUEST, "this MCP-Protocol-Version is not spoken here\n"));
        }
        let mut accepts = (false, false);
        let mut is_silent = true;
        for value in headers.get_all(header::ACCEPT) {
            is_silent = false;
            for range in value.to_str().unwrap_or_default().split(',') {
                let range = media_type(range);
                accepts.0 |= matches!(range.as_str(), JSON_CONTENT_TYPE | "application/*" | "*/*");
                accepts.1 |= matches!(range.as_str(), EVENT_STREAM_CONTENT_TYPE | "text/*" | "*/*");
            }
        }
        match accepts {
            _ if is_silent => Ok(Self::Json),
            (true, true) => Ok(Self::Either),
            (true, false) => Ok(Self::Json),
            (false, true) => Ok(Self::Events),
            (false, false) => Err((StatusCode::NOT_ACCEPTABLE, "accept application/json and text/event-stream\n")),
        }
    }
}

/// A media type without its parameters, in lower case.
fn media_type(text: &str) -> String {
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl McpService {
    async fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<ClientIdentity, Response> {
        let gate = &self.0.gate;
        let identified = gate.identify(peer.address, ShownToken::in_header(headers), Surface::Mcp).await;
        let identity = identified.map_err(|refusal| refusal.into_response(unauthorised))?;
        identity.or_else(|| gate.anonymous()).ok_or_else(unauthorised)
    }

    fn begin_session(&self, identity: ClientIdentity, id: &Value, params: &Value) -> Response {
        let result = match map::initialize(params, self.0.version) {
            Ok(result) => result,
            Err(problem) => return json(&wire::error(id, &problem)).into_response(),
        };
        let caller = Caller {
            // The operator's client has the same rights as the command line.
            surface: if identity.grants.has(Grant::Operate) { Surface::Cli } else { Surface::Mcp },
            principal: identity.principal,
            connection: pump::next_connection(),
            grants: identity.grants,
        };
        match self.0.sessions.begin(caller, self.0.clients.get().rate, self.0.started.elapsed()) {
            Ok(session) => {
                ([(SESSION_HEADER, session.id.to_string())], json(&wire::result(id, &result))).into_response()
            }
            Err(refusal) => {
                let (status, text) = match refusal {
                    SessionRefusal::RateExceeded => {
                        (StatusCode::TOO_MANY_REQUESTS, "too many sessions begin at once\n")
                    }
                    SessionRefusal::Full => (StatusCode::SERVICE_UNAVAILABLE, "too many sessions are open\n"),
                };
                telemetry::refused(SURFACE, "capacity");
                (status, [(header::RETRY_AFTER, "5")], text).into_response()
            }
        }
    }

    fn session(&self, identity: &ClientIdentity, headers: &HeaderMap) -> Result<Arc<McpSession>, HttpRefusal> {
        let Some(id) = headers.get(SESSION_HEADER) else {
            return Err((StatusCode::BAD_REQUEST, "Mcp-Session-Id is missing; begin with `initialize`\n"));
        };
        let session = id.to_str().ok().and_then(|id| self.0.sessions.find(id, self.0.started.elapsed()));
        // The same error for both cases, so that the existence of another principal's session does not leak.
        // A key that gained or lost rights since begins anew.
        let is_own = |caller: &Caller| caller.principal == identity.principal && caller.grants == identity.grants;
        let own = session.filter(|session| is_own(&session.caller));
        own.ok_or((StatusCode::NOT_FOUND, "no such session; begin again with `initialize`\n"))
    }

    async fn handle_message(
        &self,
        session: Arc<McpSession>,
        message: RpcMessage,
        format: ResponseFormat,
        traceparent: Option<&str>,
    ) -> Response {
        let (id, method, params) = match message {
            RpcMessage::Request { id, method, params } => (id, method, params),
            RpcMessage::Notification { method, params } => {
                if method == "notifications/cancelled"
                    && let Some(id) = params.get("requestId")
                {
                    session.cancel(id);
                }
                return StatusCode::ACCEPTED.into_response();
            }
            // The server sends no requests, so a response has no counterpart.
            RpcMessage::Response => return StatusCode::ACCEPTED.into_response(),
        };
        if method == "ping" {
            return self.single_response(format, &wire::result(&id, &Value::Object(serde_json::Map::new())));
        }
        if !session.take_rate_token(self.0.started.elapsed()) {
            telemetry::refused(SURFACE, "rate");
            let problem = RpcError::server("too many requests; slow down");
            let body = json(&wire::error(&id, &problem));
            return (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")], body).into_response();
        }
        let request = match method.as_str() {
            "tools/list" => map::list(&params),
            "tools/call" => map::call(&params, &session.caller),
            _ => Err(RpcError::unknown_method(&method)),
        };
        let call = request.and_then(|request| Ok((session.begin_request(&id)?, request)));
        match call {
            Err(problem) => self.single_response(format, &wire::error(&id, &problem)),
            Ok((call, request)) => {
                // A stream's keep-alive comments prevent timeouts during tool calls; lists are answered at once.
                let is_slow = method == "tools/call";
                let answer = self.ask(&session, request, &call, traceparent);
                let pending = PendingCall { id, call, answer, is_done: false };
                if format == ResponseFormat::Events || (is_slow && format == ResponseFormat::Either) {
                    event_stream(pending)
                } else {
                    json(&pending.wait().await).into_response()
                }
            }
        }
    }

    /// Runs in its own task: if the client disconnects the call is cancelled, but its outcome is still recorded.
    fn ask(
        &self,
        session: &McpSession,
        request: BoardRequest<MethodResult>,
        call: &ActiveRequest,
        traceparent: Option<&str>,
    ) -> oneshot::Receiver<MethodResult> {
        let reply = request.ask(&self.0.board, &session.caller, call.cancel_token(), traceparent);
        let (sender, receiver) = oneshot::channel();
        self.0.tracker.spawn(async move {
            // The receiver may be dropped already.
            drop(sender.send(reply.await));
        });
        receiver
    }

    fn single_response(&self, format: ResponseFormat, message: &Value) -> Response {
        match format {
            ResponseFormat::Json | ResponseFormat::Either => json(message).into_response(),
            ResponseFormat::Events => event_stream_response(Body::from(encode_event(message))),
        }
    }
}

/// A request that the board is working on; cancelled on drop.
struct PendingCall {
    id: Value,
    call: ActiveRequest,
    answer: oneshot::Receiver<MethodResult>,
    is_done: bool,
}

impl PendingCall {
    async fn wait(mut self) -> Value {
        self.response_message().await
    }

    async fn response_message(&mut self) -> Value {
        let answer = (&mut self.answer).await;
        self.is_done = true;
        let answer = answer.unwrap_or_else(|_| Err(BoardError::shutting_down()));
        match answer {
            Ok(result) => wire::result(&self.id, &result),
            Err(error) => wire::error(&self.id, &error::rpc_error(&error)),
        }
    }

    /// The next chunk of the stream; `None` at its end.
    async fn next_chunk(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if self.is_done {
            return None;
        }
        let stop = self.call.cancel_token();
        tokio::select! {
            biased;
            // Cancelled requests get no response.
            () = stop.cancelled() => None,
            message = self.response_message() => {
                let chunk = encode_event(&message);
                Some((Ok(chunk), self))
            }
            () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => Some((Ok(Bytes::from_static(b":\n\n")), self)),
        }
    }
}

fn event_stream(pending: PendingCall) -> Response {
    event_stream_response(Body::from_stream(stream::unfold(pending, PendingCall::next_chunk)))
}

fn event_stream_response(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM_CONTENT_TYPE)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
    ];
    (headers, body).into_response()
}

fn encode_event(message: &Value) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}

fn json(message: &Value) -> impl IntoResponse + use<> {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(JSON_CONTENT_TYPE))], message.to_string())
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    (status, text).into_response()
}

fn unauthorised() -> Response {
    let text = "missing or wrong token: send `Authorization: Bearer <token>`\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
}

#[cfg(test)]
mod tests;
