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
use patchboard_core::reply::Reply;
use patchboard_core::{BoardError, ErrorKind, trace};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::waiting::AnswerWatch;
use super::error::Fault;
use super::wire::{self, report};
use super::{Hub, map};
use crate::auth::{self, Identity, Verdict};
use crate::listen::{self, Peer};
use crate::pump;
use crate::trace::traceparent;

mod waiting;
mod wish;

use wish::{Route, Wait, Wish};

/// Largest body in bytes; a larger one is refused.
const MAX_BODY: usize = 1024 * 1024;
/// As much more of it is read and thrown away, so that its sender is still there to hear the refusal.
const MAX_IGNORED: usize = 16 * 1024 * 1024;
/// A body that is not whole by then is given up.
const BODY_PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn answer(hub: &Hub, peer: &Peer, request: Request) -> Response {
    let (head, body) = request.into_parts();
    if !head.uri.path().starts_with("/v1/") {
        return elsewhere(&head.method);
    }
    // Nobody's body is read before it is known whose it is.
    let identity = match hub.identify(peer, &head.headers).await {
        Ok(identity) => identity,
        Err(refused) => return refused,
    };
    serve(hub, identity, &head, body).await.unwrap_or_else(IntoResponse::into_response)
}

/// Everywhere else there is nothing but the WebSocket.
fn elsewhere(method: &Method) -> Response {
    if method != Method::GET {
        return Fault::method("GET").into_response();
    }
    let text = "apps connect here with a WebSocket; utterances go to POST /v1/messages\n";
    (StatusCode::UPGRADE_REQUIRED, [(header::UPGRADE, "websocket")], text).into_response()
}

async fn serve(hub: &Hub, identity: Identity, head: &request::Parts, body: Body) -> Result<Response, Fault> {
    let route = Route::find(&head.method, head.uri.path())?;
    let body = if head.method == Method::POST { read(body).await? } else { String::new() };
    let Wish { command, status, wait, token } = route.wish(&head.uri, &body)?;
    let asker = Asker::new(hub, identity, traceparent(&head.headers));
    let about = subject(&command);
    let mut reply = asker.ask(command).await?;
    // What was done to a message is shown by the message.
    if let (Reply::Done, Some(message)) = (&reply, about) {
        reply = Reply::Message(asker.look(message).await?);
    }
    if let Reply::Message(report) = &reply {
        reply = Reply::Message(asker.wait(report.clone(), wait).await?);
    }
    let text = match (&reply, token) {
        (Reply::Done, Some(token)) => wire::encode(&report::Paired { token: &token }),
        (reply, _) => told(reply)?,
    };
    Ok(json(status, text))
}

async fn read(body: Body) -> Result<String, Fault> {
    let reading = async {
        let mut pieces = body.into_data_stream();
        let mut whole = Vec::new();
        let mut ignored = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| Fault::invalid("the body broke off"))?;
            if ignored == 0 && whole.len() + piece.len() <= MAX_BODY {
                whole.extend_from_slice(&piece);
                continue;
            }
            ignored += piece.len();
            if ignored > MAX_IGNORED {
                break;
            }
        }
        if ignored > 0 {
            let text = format!("the body must have {MAX_BODY} bytes at most");
            return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text));
        }
        String::from_utf8(whole).map_err(|_| Fault::invalid("the body must be UTF-8"))
    };
    let late = || Fault::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time");
    tokio::time::timeout(BODY_PATIENCE, reading).await.map_err(|_| late())?
}

/// The message a command is about.
fn subject(command: &Command) -> Option<MessageId> {
    if let Command::ResendMessage { message, .. } | Command::CancelMessage(message) = command {
        return Some(*message);
    }
    None
}

fn told(reply: &Reply) -> Result<String, Fault> {
    Ok(match reply {
        Reply::Done => wire::encode(&report::Done { ok: true }),
        Reply::Message(report) => map::message(report),
        Reply::MessageList(page) => map::messages(page),
        Reply::Explained(decision) => map::decision(decision),
        Reply::Apps(apps) => map::clients(apps),
        // Answers to what nobody asks here.
        Reply::RunStarted(_)
        | Reply::Run(_)
        | Reply::Approvals(_)
        | Reply::Sessions(_)
        | Reply::History { .. }
        | Reply::Messages { .. }
        | Reply::Facts(_)
        | Reply::Budget(_)
        | Reply::Usage(_)
        | Reply::Tools(_)
        | Reply::ToolCalled(_)
        | Reply::ToolsApproved(_)
        | Reply::Agents(_)
        | Reply::Plugins(_)
        | Reply::Plugin(_)
        | Reply::Webhook(_)
        | Reply::Node(_)
        | Reply::Server(_)
        | Reply::Reloaded(_)
        | Reply::Registered { .. }
        | Reply::NotRegistered(_)
        | Reply::Inbox(_)
        | Reply::SessionOpened(_)
        | Reply::SessionClosed { .. }
        | Reply::BridgeSession(_)
        | Reply::SessionTouched { .. }
        | Reply::ToolsRegistered(_)
        | Reply::Tool(_)
        | Reply::HostTools(_)
        | Reply::Models(_)
        | Reply::ModelSet(_)
        | Reply::Workspaces(_)
        | Reply::Workspace(_)
        | Reply::WorkspaceThreads(_)
        | Reply::Workers(_) => return Err(Fault::unexpected()),
    })
}

impl Hub {
    async fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<Identity, Response> {
        let unauthenticated = || Fault::unauthenticated().into_response();
        let gate = &self.0.plug.gate;
        let Some(given) = headers.get(header::AUTHORIZATION) else {
            return gate.anonymous().filter(|_| !self.0.http_needs_token).ok_or_else(unauthenticated);
        };
        let token = auth::bearer(given).ok_or_else(unauthenticated)?;
        match gate.check(peer.address, token).await {
            Verdict::Accepted(identity) => Ok(identity),
            Verdict::Wrong => Err(unauthenticated()),
            Verdict::Cut => Err(listen::cut()),
        }
    }
}

/// Whoever sent a request, before the board.
struct Asker<'a> {
    hub: &'a Hub,
    caller: Caller,
    traceparent: Option<&'a str>,
}

impl<'a> Asker<'a> {
    fn new(hub: &'a Hub, identity: Identity, traceparent: Option<&'a str>) -> Self {
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
    async fn ask(&self, command: Command) -> Result<Reply, Fault> {
        let board = &self.hub.0.plug.board;
        let asking = trace::ask(board, &self.caller, command, CancellationToken::new(), self.traceparent);
        let answer = self.hub.0.tracker.spawn(asking).await;
        answer.unwrap_or_else(|_| Err(BoardError::shutting_down())).map_err(Fault::from)
    }

    async fn look(&self, message: MessageId) -> Result<Arc<MessageReport>, Fault> {
        let reply = self.ask(Command::ReadMessage { message, newer_than: None }).await?;
        if let Reply::Message(report) = reply { Ok(report) } else { Err(Fault::unexpected()) }
    }

    async fn wait(&self, mut report: Arc<MessageReport>, wait: Wait) -> Result<Arc<MessageReport>, Fault> {
        let _place = match wait {
            Wait::No => None,
            Wait::News(..) | Wait::Settled(_) => Some(self.hub.0.waits.try_acquire().map_err(|_| too_many_wait())?),
        };
        match wait {
            Wait::No => Ok(report),
            Wait::News(seen, patience) => {
                if report.version > seen {
                    return Ok(report);
                }
                self.news(report.id, seen, Instant::now() + patience).await
            }
            Wait::Settled(patience) => {
                let until = Instant::now() + patience;
                let watch = AnswerWatch::new(&report, self.hub.0.times.answer_window);
                while let Some(open) = watch.open_for(&report, self.hub.0.clock.now())
                    && Instant::now() < until
                    && !self.hub.0.plug.draining.is_cancelled()
                {
                    let until = until.min(Instant::now() + open);
                    report = self.news(report.id, report.version, until).await?;
                }
                Ok(report)
            }
        }
    }

    /// The message as soon as there is something newer than `seen`, or as it is when time is up.
    async fn news(&self, message: MessageId, seen: Seq, until: Instant) -> Result<Arc<MessageReport>, Fault> {
        let stop = CancellationToken::new();
        let _gone = stop.clone().drop_guard();
        let command = Command::ReadMessage { message, newer_than: Some(seen) };
        let mut answer = pin!(self.hub.0.plug.board.ask(&self.caller, command, stop.clone()));
        let early = tokio::select! {
            answer = answer.as_mut() => Some(answer),
            () = tokio::time::sleep_until(until) => None,
            () = self.hub.0.plug.draining.cancelled() => None,
        };
        let answer = match early {
            Some(answer) => answer,
            None => {
                stop.cancel();
                answer.await
            }
        };
        match answer {
            Ok(Reply::Message(report)) => Ok(report),
            Ok(_) => Err(Fault::unexpected()),
            Err(error) if error.kind == ErrorKind::Cancelled => self.look(message).await,
            Err(error) => Err(error.into()),
        }
    }
}

/// Waiting takes a place; those who only ask must find one.
fn too_many_wait() -> Fault {
    Fault::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "too many requests wait already: ask without `wait`")
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let fault = report::Fault { code: self.code, message: &self.message };
        let mut response = json(self.status, wire::encode(&report::Failure { error: fault }));
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
