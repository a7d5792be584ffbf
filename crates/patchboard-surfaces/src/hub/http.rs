//! HTTP on the hub's listener: utterances go in, and what became of them comes out.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use patchboard_core::access::{Caller, Grant, Surface};
use patchboard_core::app::message::MessageReport;
use patchboard_core::command::Command;
use patchboard_core::id::{MessageId, Seq};
use patchboard_core::reply::BoardReply;
use patchboard_core::{BoardError, ErrorKind, trace};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::answer_watch::AnswerWatch;
use super::error::ApiError;
use super::wire::{self, report};
use super::{Hub, map};
use crate::auth::{ClientIdentity, ShownToken};
use crate::listen::Peer;
use crate::pump;
use crate::trace::traceparent;

mod answer_watch;
mod requests;

use requests::{ApiRoute, ParsedRequest, ReplyWait};

/// Largest body in bytes; a larger one is refused.
const MAX_BODY: usize = 1024 * 1024;
/// As much more of it is read and thrown away, so that its sender is still there to hear the refusal.
const MAX_DISCARDED_BODY: usize = 16 * 1024 * 1024;
/// A body that is not whole by then is given up.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn handle(hub: &Hub, peer: &Peer, request: Request) -> Response {
    let (head, body) = request.into_parts();
    if !head.uri.path().starts_with("/v1/") {
        return outside_api(&head.method);
    }
    // Nobody's body is read before it is known whose it is.
    let identity = match hub.identify(peer, &head.headers).await {
        Ok(identity) => identity,
        Err(refused) => return refused,
    };
    serve(hub, identity, &head, body).await.unwrap_or_else(IntoResponse::into_response)
}

/// Everywhere else there is nothing but the WebSocket.
fn outside_api(method: &Method) -> Response {
    if method != Method::GET {
        return ApiError::method_not_allowed("GET").into_response();
    }
    let text = "apps connect here with a WebSocket; utterances go to POST /v1/messages\n";
    // Closed, because its client meant to open a WebSocket: there is no other request to wait for.
    (StatusCode::UPGRADE_REQUIRED, [(header::UPGRADE, "websocket"), (header::CONNECTION, "close")], text)
        .into_response()
}

async fn serve(hub: &Hub, identity: ClientIdentity, head: &request::Parts, body: Body) -> Result<Response, ApiError> {
    let route = ApiRoute::find(&head.method, head.uri.path())?;
    let body = if head.method == Method::POST { read_body(body).await? } else { String::new() };
    let ParsedRequest { command, status, wait, token } = route.parse(&head.uri, &body)?;
    let asker = Client::new(hub, identity, traceparent(&head.headers));
    let about = command_message(&command);
    let mut reply = asker.ask(command).await?;
    // What was done to a message is shown by the message.
    if let (BoardReply::Done, Some(message)) = (&reply, about) {
        reply = BoardReply::Message(asker.read_message(message).await?);
    }
    if let BoardReply::Message(report) = &reply {
        reply = BoardReply::Message(asker.wait_for(report.clone(), wait).await?);
    }
    let text = match (&reply, token) {
        (BoardReply::Done, Some(token)) => wire::encode(&report::PairingToken { token: &token }),
        (reply, _) => encode_reply(reply)?,
    };
    Ok(json(status, text))
}

async fn read_body(body: Body) -> Result<String, ApiError> {
    let reading = async {
        let mut pieces = body.into_data_stream();
        let mut whole = Vec::new();
        let mut ignored = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| ApiError::invalid("the body broke off"))?;
            if ignored == 0 && whole.len() + piece.len() <= MAX_BODY {
                whole.extend_from_slice(&piece);
                continue;
            }
            ignored += piece.len();
            if ignored > MAX_DISCARDED_BODY {
                break;
            }
        }
        if ignored > 0 {
            let text = format!("the body must have {MAX_BODY} bytes at most");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text));
        }
        String::from_utf8(whole).map_err(|_| ApiError::invalid("the body must be UTF-8"))
    };
    let late = || ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time");
    tokio::time::timeout(BODY_TIMEOUT, reading).await.map_err(|_| late())?
}

/// The message a command is about.
fn command_message(command: &Command) -> Option<MessageId> {
    if let Command::ResendMessage { message, .. } | Command::CancelMessage(message) = command {
        return Some(*message);
    }
    None
}

fn encode_reply(reply: &BoardReply) -> Result<String, ApiError> {
    Ok(match reply {
        BoardReply::Done => wire::encode(&report::DoneBody { ok: true }),
        BoardReply::Message(report) => map::message(report),
        BoardReply::MessageList(page) => map::messages(page),
        BoardReply::RoutingExplained(decision) => map::decision(decision),
        BoardReply::Apps(apps) => map::clients(apps),
        // Answers to what nobody asks here.
        BoardReply::RunStarted(_)
        | BoardReply::Run(_)
        | BoardReply::Approvals(_)
        | BoardReply::Sessions(_)
        | BoardReply::History { .. }
        | BoardReply::Messages { .. }
        | BoardReply::Facts(_)
        | BoardReply::Budget(_)
        | BoardReply::Usage(_)
        | BoardReply::Tools(_)
        | BoardReply::ToolCalled(_)
        | BoardReply::ToolsApproved(_)
        | BoardReply::Agents(_)
        | BoardReply::Plugins(_)
        | BoardReply::Plugin(_)
        | BoardReply::Webhook(_)
        | BoardReply::Node(_)
        | BoardReply::Server(_)
        | BoardReply::Reloaded(_)
        | BoardReply::AppRegistered { .. }
        | BoardReply::AppNotRegistered(_)
        | BoardReply::InboxEvent(_)
        | BoardReply::SessionOpened(_)
        | BoardReply::SessionClosed { .. }
        | BoardReply::BridgeSession(_)
        | BoardReply::SessionTouched { .. }
        | BoardReply::ToolsRegistered(_)
        | BoardReply::Tool(_)
        | BoardReply::HostTools(_)
        | BoardReply::Models(_)
        | BoardReply::ModelSet(_)
        | BoardReply::Workspaces(_)
        | BoardReply::Workspace(_)
        | BoardReply::WorkspaceThreads(_)
        | BoardReply::Workers(_) => return Err(ApiError::unexpected_reply()),
    })
}

impl Hub {
    async fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<ClientIdentity, Response> {
        let unauthenticated = || ApiError::unauthenticated().into_response();
        let gate = &self.0.context.gate;
        let shown = gate.identify(peer.address, ShownToken::in_header(headers)).await;
        let identity = shown.map_err(|refusal| refusal.into_response(unauthenticated))?;
        let anonymous = || gate.anonymous().filter(|_| !self.0.http_needs_token);
        identity.or_else(anonymous).ok_or_else(unauthenticated)
    }
}

/// Whoever sent a request, before the board.
struct Client<'a> {
    hub: &'a Hub,
    caller: Caller,
    traceparent: Option<&'a str>,
}

impl<'a> Client<'a> {
    fn new(hub: &'a Hub, identity: ClientIdentity, traceparent: Option<&'a str>) -> Self {
        let caller = Caller {
            // The operator's own client is as good as the operator's command line.
            surface: if identity.grants.has(Grant::Operate) { Surface::Cli } else { Surface::Hub },
            principal: identity.principal,
            connection: pump::next_connection(),
            grants: identity.grants,
        };
        Self { hub, caller, traceparent }
    }

    /// In a task of its own: what was asked is done, whether or not its sender is still there.
    async fn ask(&self, command: Command) -> Result<BoardReply, ApiError> {
        let board = &self.hub.0.context.board;
        let asking = trace::ask(board, &self.caller, command, CancellationToken::new(), self.traceparent);
        let answer = self.hub.0.tracker.spawn(asking).await;
        answer.unwrap_or_else(|_| Err(BoardError::shutting_down())).map_err(ApiError::from)
    }

    async fn read_message(&self, message: MessageId) -> Result<Arc<MessageReport>, ApiError> {
        let reply = self.ask(Command::ReadMessage { message, newer_than: None }).await?;
        if let BoardReply::Message(report) = reply { Ok(report) } else { Err(ApiError::unexpected_reply()) }
    }

    async fn wait_for(&self, mut report: Arc<MessageReport>, wait: ReplyWait) -> Result<Arc<MessageReport>, ApiError> {
        let _place = match wait {
            ReplyWait::No => None,
            ReplyWait::Newer(..) | ReplyWait::Settled(_) => {
                Some(self.hub.0.wait_permits.try_acquire().map_err(|_| too_many_waiting())?)
            }
        };
        match wait {
            ReplyWait::No => Ok(report),
            ReplyWait::Newer(seen, patience) => {
                if report.version > seen {
                    return Ok(report);
                }
                self.wait_for_newer(report.id, seen, Instant::now() + patience).await
            }
            ReplyWait::Settled(patience) => {
                let until = Instant::now() + patience;
                let watch = AnswerWatch::new(&report, self.hub.0.timeouts.answer_window);
                while let Some(open) = watch.time_left(&report, self.hub.0.clock.now())
                    && Instant::now() < until
                    && !self.hub.0.context.draining.is_cancelled()
                {
                    let until = until.min(Instant::now() + open);
                    report = self.wait_for_newer(report.id, report.version, until).await?;
                }
                Ok(report)
            }
        }
    }

    /// The message as soon as there is something newer than `seen`, or as it is when time is up.
    async fn wait_for_newer(
        &self,
        message: MessageId,
        seen: Seq,
        until: Instant,
    ) -> Result<Arc<MessageReport>, ApiError> {
        let stop = CancellationToken::new();
        let _gone = stop.clone().drop_guard();
        let command = Command::ReadMessage { message, newer_than: Some(seen) };
        let mut answer = pin!(self.hub.0.context.board.ask(&self.caller, command, stop.clone()));
        let early = tokio::select! {
            answer = answer.as_mut() => Some(answer),
            () = tokio::time::sleep_until(until) => None,
            () = self.hub.0.context.draining.cancelled() => None,
        };
        let answer = match early {
            Some(answer) => answer,
            None => {
                stop.cancel();
                answer.await
            }
        };
        match answer {
            Ok(BoardReply::Message(report)) => Ok(report),
            Ok(_) => Err(ApiError::unexpected_reply()),
            Err(error) if error.kind == ErrorKind::Cancelled => self.read_message(message).await,
            Err(error) => Err(error.into()),
        }
    }
}

/// Waiting takes a place; those who only ask must find one.
fn too_many_waiting() -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "too many requests wait already: ask without `wait`")
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let fault = report::ErrorDetail { code: self.code, message: &self.message };
        let mut response = json(self.status, wire::encode(&report::ErrorBody { error: fault }));
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(methods) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(methods));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

fn json(status: StatusCode, text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, text).into_response()
}
