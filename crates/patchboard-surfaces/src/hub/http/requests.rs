//! What is asked over HTTP: method, path, query and body → a command and how long to wait for what becomes of it.

use std::time::Duration;

use axum::extract::Query;
use axum::http::{Method, StatusCode, Uri};
use patchboard_core::app::InputMethod;
use patchboard_core::app::hub::MAX_TEXT;
use patchboard_core::app::matcher::NO_APP;
use patchboard_core::app::message::MessageState;
use patchboard_core::command::{Command, PageRequest, SubmitMessage};
use patchboard_core::id::{MessageId, Seq};
use patchboard_core::port::PageCursor;
use serde::Deserialize;
use uuid::Uuid;

use crate::hub::error::ApiError;
use crate::hub::map;
use crate::hub::wire::object::{JsonField, JsonKind, parse_object};
use crate::hub::wire::{is_blank, is_name};

const MAX_WAIT: Duration = Duration::from_secs(120);

/// What a method means at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApiRoute {
    Submit,
    List,
    Read(MessageId),
    Resend(MessageId),
    /// To an app that is named.
    SendTo(MessageId),
    Cancel(MessageId),
    Clients,
    Approve(String),
    Pair(String),
    Forget(String),
    Explain,
}

/// What is to be asked, and when it is answered.
#[derive(Debug)]
pub(super) struct ParsedRequest {
    pub(super) command: Command,
    pub(super) status: StatusCode,
    pub(super) wait: ReplyWait,
    /// A token that was made for it, to be shown once when the board is done.
    pub(super) token: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyWait {
    No,
    /// Until every app that has the message has told something or has had its time to, and none is to be asked.
    Settled(Duration),
    /// Until there is something newer than that record.
    Newer(Seq, Duration),
}

impl ApiRoute {
    pub(super) fn find(method: &Method, path: &str) -> Result<Self, ApiError> {
        let unknown = || ApiError::not_found("there is nothing at this path");
        let mut segments = path.strip_prefix("/v1/").ok_or_else(unknown)?.split('/');
        let parts = (segments.next(), segments.next(), segments.next(), segments.next());
        let (route, allowed) = match parts {
            (Some("messages"), None, ..) if method == Method::POST => (Self::Submit, Method::POST),
            (Some("messages"), None, ..) if method == Method::GET => (Self::List, Method::GET),
            (Some("messages"), None, ..) => return Err(ApiError::method_not_allowed("GET, POST")),
            (Some("messages"), Some(id), None, _) => (Self::Read(message(id)?), Method::GET),
            (Some("messages"), Some(id), Some(action), None) => {
                let message = message(id)?;
                let route = match action {
                    "resend" => Self::Resend(message),
                    "route" => Self::SendTo(message),
                    "cancel" => Self::Cancel(message),
                    _ => return Err(unknown()),
                };
                (route, Method::POST)
            }
            (Some("clients"), None, ..) => (Self::Clients, Method::GET),
            (Some("clients"), Some(name), Some(action), None) => {
                // Clients may write it either way; names of apps need no encoding.
                let is_no_app = action == "forget" && (name == NO_APP || name == "%2A");
                let name = if is_no_app { NO_APP.to_owned() } else { app(name)? };
                let route = match action {
                    "approve" => Self::Approve(name),
                    "pair" => Self::Pair(name),
                    "forget" => Self::Forget(name),
                    _ => return Err(unknown()),
                };
                (route, Method::POST)
            }
            (Some("route"), None, ..) => (Self::Explain, Method::POST),
            _ => return Err(unknown()),
        };
        if *method == allowed {
            return Ok(route);
        }
        Err(ApiError::method_not_allowed(if allowed == Method::GET { "GET" } else { "POST" }))
    }

    pub(super) fn parse(self, uri: &Uri, body: &str) -> Result<ParsedRequest, ApiError> {
        let query = QueryParams::read(uri)?;
        let mut status = StatusCode::OK;
        let mut wait = ReplyWait::No;
        let mut token = None;
        let command = match self {
            Self::Submit => {
                status = StatusCode::ACCEPTED;
                wait = query.wait()?.map_or(ReplyWait::No, ReplyWait::Settled);
                submit(body)?
            }
            Self::List => Command::ListMessages { state: query.state()?, page: query.page()? },
            Self::Read(message) => {
                wait = match (query.newer_than()?, query.wait()?) {
                    (_, None) => ReplyWait::No,
                    (None, Some(patience)) => ReplyWait::Settled(patience),
                    (Some(seq), Some(patience)) => ReplyWait::Newer(seq, patience),
                };
                Command::ReadMessage { message, newer_than: None }
            }
            Self::Resend(message) => {
                status = StatusCode::ACCEPTED;
                Command::ResendMessage { message, app: None }
            }
            Self::SendTo(message) => {
                status = StatusCode::ACCEPTED;
                let [client] = fields(body, ["client"])?;
                let name = client.and_then(JsonField::text);
                let name = name.ok_or_else(|| ApiError::invalid("`client` must be the name of an app"))?;
                Command::ResendMessage { message, app: Some(app(&name)?.into()) }
            }
            Self::Cancel(message) => {
                status = StatusCode::ACCEPTED;
                Command::CancelMessage(message)
            }
            Self::Clients => Command::ListApps,
            Self::Approve(app) => Command::ApproveApp { app: app.into() },
            Self::Pair(app) => {
                let made = token.insert(fresh_token());
                Command::PairApp { app: app.into(), token: map::hash_token(made) }
            }
            Self::Forget(app) => Command::ForgetApp { app: app.into(), unpair: unpair(body)? },
            Self::Explain => {
                let [text] = fields(body, ["text"])?;
                Command::ExplainRouting { text: utterance(text)?.into() }
            }
        };
        Ok(ParsedRequest { command, status, wait, token })
    }
}

/// Of 244 random bits.
fn fresh_token() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

fn message(id: &str) -> Result<MessageId, ApiError> {
    id.parse().map_err(|_| ApiError::not_found("no message has this id"))
}

fn app(name: &str) -> Result<String, ApiError> {
    if is_name(name) { Ok(name.to_owned()) } else { Err(ApiError::invalid("no app can have this name")) }
}

fn fields<'a, const N: usize>(body: &'a str, names: [&'static str; N]) -> Result<[Option<JsonField<'a>>; N], ApiError> {
    parse_object(body, names).map_err(|problem| ApiError::invalid(format!("the body must be a JSON object: {problem}")))
}

fn submit(body: &str) -> Result<Command, ApiError> {
    let [text, input, confidence] = fields(body, ["text", "inputMethod", "confidence"])?;
    let text = utterance(text)?.into();
    let input = match input.map(JsonField::text) {
        None => InputMethod::Text,
        Some(Some(name)) if name == "text" => InputMethod::Text,
        Some(Some(name)) if name == "voice" => InputMethod::Voice,
        Some(_) => return Err(ApiError::invalid("`inputMethod` must be `text` or `voice`")),
    };
    let confidence = match confidence.map(JsonField::number) {
        None => None,
        Some(Some(number)) if (0.0..=1.0).contains(&number) => Some(number),
        Some(_) => return Err(ApiError::invalid("`confidence` must be a number from 0 to 1")),
    };
    if confidence.is_some() && input != InputMethod::Voice {
        return Err(ApiError::invalid("`confidence` is about speech: it goes with the `inputMethod` `voice`"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "a number from 0 to 1 loses digits nobody needs")]
    let confidence = confidence.map(|number| number as f32);
    Ok(Command::SubmitMessage(SubmitMessage { text, input, confidence, only_app: None }))
}

fn utterance(text: Option<JsonField<'_>>) -> Result<String, ApiError> {
    let text = text.and_then(JsonField::text).filter(|text| !is_blank(text));
    let text = text.ok_or_else(|| ApiError::invalid("`text` must be a string that is not blank"))?;
    if text.len() > MAX_TEXT {
        return Err(ApiError::invalid(format!("`text` must have {MAX_TEXT} bytes at most")));
    }
    Ok(text)
}

/// The body may be left out.
fn unpair(body: &str) -> Result<bool, ApiError> {
    if body.trim().is_empty() {
        return Ok(false);
    }
    let [unpair] = fields(body, ["unpair"])?;
    match unpair.filter(|unpair| unpair.kind() != JsonKind::Null) {
        None => Ok(false),
        Some(unpair) => unpair.boolean().ok_or_else(|| ApiError::invalid("`unpair` must be `true` or `false`")),
    }
}

/// What may stand after the `?`; anything else is ignored.
#[derive(Deserialize)]
struct QueryParams {
    state: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
    newer_than: Option<String>,
    wait: Option<String>,
}

impl QueryParams {
    fn read(uri: &Uri) -> Result<Self, ApiError> {
        let Query(query) = Query::try_from_uri(uri).map_err(|problem| ApiError::invalid(problem.body_text()))?;
        Ok(query)
    }

    fn state(&self) -> Result<Option<MessageState>, ApiError> {
        let names = || MessageState::ALL.map(MessageState::name).join("`, `");
        let unknown = || ApiError::invalid(format!("`state` must be one of `{}`", names()));
        self.state.as_deref().map(|name| MessageState::parse(name).ok_or_else(unknown)).transpose()
    }

    fn page(&self) -> Result<PageRequest, ApiError> {
        let invalid = |_| ApiError::invalid("`limit` must be a whole number");
        let limit = self.limit.as_deref().map(str::parse).transpose().map_err(invalid)?;
        Ok(PageRequest::new(limit, self.cursor.clone().map(PageCursor)))
    }

    fn newer_than(&self) -> Result<Option<Seq>, ApiError> {
        let invalid = |_| ApiError::invalid("`newer_than` must be the `version` of a message");
        Ok(self.newer_than.as_deref().map(str::parse).transpose().map_err(invalid)?.map(Seq))
    }

    /// `None` for not at all.
    fn wait(&self) -> Result<Option<Duration>, ApiError> {
        let Some(text) = self.wait.as_deref() else { return Ok(None) };
        let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        match seconds {
            Some(patience) if patience <= MAX_WAIT => Ok(Some(patience).filter(|patience| !patience.is_zero())),
            Some(_) | None => Err(ApiError::invalid("`wait` must be a number of seconds from 0 to 120")),
        }
    }
}

#[cfg(test)]
mod tests;
