//! Extractors of the API: parse and validate the path, query and body. An error names the part that is wrong.

use std::time::Duration;

use axum::RequestPartsExt;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use futures_util::StreamExt;
use patchboard_core::app::InputMethod;
use patchboard_core::app::message::MessageState;
use patchboard_core::command::{PageRequest, SubmitMessage};
use patchboard_core::hub::MAX_TEXT;
use patchboard_core::hub::NO_APP;
use patchboard_core::id::{MessageId, Seq};
use patchboard_core::store::PageCursor;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::hub::Hub;
use crate::hub::error::ApiError;
use crate::hub::wire::object::{JsonField, JsonKind, parse_object};
use crate::hub::wire::{is_blank, is_name};

const MAX_WAIT: Duration = Duration::from_secs(120);
/// Largest body in bytes; a larger one is refused.
const MAX_BODY: usize = 1024 * 1024;
/// Further bytes that are read and discarded, so that a client that is still sending can read the refusal.
const MAX_DISCARDED_BODY: usize = 16 * 1024 * 1024;
/// An incomplete body is abandoned after this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The message in the path.
pub(super) struct MessagePath(pub(super) MessageId);

impl FromRequestParts<Hub> for MessagePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _hub: &Hub) -> Result<Self, ApiError> {
        let id = segment(parts).await.ok().and_then(|id| id.parse().ok());
        id.map(Self).ok_or_else(|| ApiError::not_found("no message has this id"))
    }
}

/// The app in the path.
pub(super) struct AppPath(pub(super) String);

impl FromRequestParts<Hub> for AppPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _hub: &Hub) -> Result<Self, ApiError> {
        app(segment(parts).await.unwrap_or_default()).map(Self)
    }
}

/// A label with training data: an app, or `*` for messages that are for no app.
pub(super) struct LabelPath(pub(super) String);

impl FromRequestParts<Hub> for LabelPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _hub: &Hub) -> Result<Self, ApiError> {
        let label = segment(parts).await.unwrap_or_default();
        if label == NO_APP { Ok(Self(label)) } else { app(label).map(Self) }
    }
}

/// The path's only variable segment, decoded.
async fn segment(parts: &mut Parts) -> Result<String, PathRejection> {
    parts.extract::<Path<String>>().await.map(|Path(segment)| segment)
}

fn app(name: String) -> Result<String, ApiError> {
    if is_name(&name) { Ok(name) } else { Err(ApiError::invalid("no app can have this name")) }
}

/// How long a request waits for the outcome of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageWait {
    No,
    /// Until every app that has the message has sent a notification, refused it or timed out, and no other app will
    /// receive it.
    Settled(Duration),
    /// Until there is a record newer than that one.
    Newer(Seq, Duration),
}

/// Query of a submission.
pub(super) struct SubmitQuery(pub(super) MessageWait);

/// Query of a read.
pub(super) struct ReadQuery(pub(super) MessageWait);

/// Query of a listing.
pub(super) struct ListQuery {
    pub(super) state: Option<MessageState>,
    pub(super) page: PageRequest,
}

/// The parsed query; unknown parameters are ignored.
pub(super) struct ApiQuery<T>(pub(super) T);

impl<T: ParseQuery> FromRequestParts<Hub> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _hub: &Hub) -> Result<Self, ApiError> {
        Self::read(&parts.uri)
    }
}

impl<T: ParseQuery> ApiQuery<T> {
    fn read(uri: &Uri) -> Result<Self, ApiError> {
        let Query(raw) = Query::try_from_uri(uri).map_err(|problem| ApiError::invalid(problem.body_text()))?;
        T::parse(raw).map(Self)
    }
}

pub(super) trait ParseQuery: Sized {
    type Raw: DeserializeOwned;

    fn parse(raw: Self::Raw) -> Result<Self, ApiError>;
}

#[derive(Deserialize)]
pub(super) struct RawWait {
    newer_than: Option<String>,
    wait: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct RawList {
    state: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

impl ParseQuery for SubmitQuery {
    type Raw = RawWait;

    fn parse(raw: RawWait) -> Result<Self, ApiError> {
        Ok(Self(patience(raw.wait.as_deref())?.map_or(MessageWait::No, MessageWait::Settled)))
    }
}

impl ParseQuery for ReadQuery {
    type Raw = RawWait;

    fn parse(raw: RawWait) -> Result<Self, ApiError> {
        let invalid = |_| ApiError::invalid("`newer_than` must be the `version` of a message");
        let newer_than = raw.newer_than.as_deref().map(str::parse).transpose().map_err(invalid)?.map(Seq);
        Ok(Self(match (newer_than, patience(raw.wait.as_deref())?) {
            (_, None) => MessageWait::No,
            (None, Some(patience)) => MessageWait::Settled(patience),
            (Some(seq), Some(patience)) => MessageWait::Newer(seq, patience),
        }))
    }
}

impl ParseQuery for ListQuery {
    type Raw = RawList;

    fn parse(raw: RawList) -> Result<Self, ApiError> {
        let names = || MessageState::ALL.map(MessageState::name).join("`, `");
        let unknown = || ApiError::invalid(format!("`state` must be one of `{}`", names()));
        let state = raw.state.as_deref().map(|name| MessageState::parse(name).ok_or_else(unknown)).transpose()?;
        let invalid = |_| ApiError::invalid("`limit` must be a whole number");
        let limit = raw.limit.as_deref().map(str::parse).transpose().map_err(invalid)?;
        Ok(Self { state, page: PageRequest::new(limit, raw.cursor.map(PageCursor)) })
    }
}

/// `None`: do not wait.
fn patience(wait: Option<&str>) -> Result<Option<Duration>, ApiError> {
    let Some(text) = wait else { return Ok(None) };
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match seconds {
        Some(patience) if patience <= MAX_WAIT => Ok(Some(patience).filter(|patience| !patience.is_zero())),
        Some(_) | None => Err(ApiError::invalid("`wait` must be a number of seconds from 0 to 120")),
    }
}

/// The parsed body, bounded in size and time.
pub(super) struct ApiBody<T>(pub(super) T);

impl<T: ParseBody> FromRequest<Hub> for ApiBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _hub: &Hub) -> Result<Self, ApiError> {
        T::parse(&read_body(request.into_body()).await?).map(Self)
    }
}

pub(super) trait ParseBody: Sized {
    fn parse(body: &str) -> Result<Self, ApiError>;
}

/// The body of requests whose parameters are all in the path.
pub(super) struct Ignored;

/// Body of a resend to a named app.
pub(super) struct SendToBody {
    pub(super) app: String,
}

pub(super) struct ForgetBody {
    /// Also deletes its token.
    pub(super) unpair: bool,
}

pub(super) struct ExplainBody {
    pub(super) text: String,
    pub(super) local_only: bool,
}

impl ParseBody for Ignored {
    fn parse(_body: &str) -> Result<Self, ApiError> {
        Ok(Self)
    }
}

impl ParseBody for SubmitMessage {
    fn parse(body: &str) -> Result<Self, ApiError> {
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
        #[expect(clippy::cast_possible_truncation, reason = "for a number from 0 to 1 single precision is enough")]
        let confidence = confidence.map(|number| number as f32);
        Ok(Self { text, input, confidence, only_app: None })
    }
}

impl ParseBody for SendToBody {
    fn parse(body: &str) -> Result<Self, ApiError> {
        let [client] = fields(body, ["client"])?;
        let name = client.and_then(JsonField::text);
        let name = name.ok_or_else(|| ApiError::invalid("`client` must be the name of an app"))?;
        Ok(Self { app: app(name)? })
    }
}

impl ParseBody for ForgetBody {
    /// The body is optional.
    fn parse(body: &str) -> Result<Self, ApiError> {
        if body.trim().is_empty() {
            return Ok(Self { unpair: false });
        }
        let [unpair] = fields(body, ["unpair"])?;
        Ok(Self { unpair: flag("unpair", unpair)? })
    }
}

impl ParseBody for ExplainBody {
    fn parse(body: &str) -> Result<Self, ApiError> {
        let [text, local_only] = fields(body, ["text", "local_only"])?;
        Ok(Self { text: utterance(text)?, local_only: flag("local_only", local_only)? })
    }
}

fn fields<'a, const N: usize>(body: &'a str, names: [&'static str; N]) -> Result<[Option<JsonField<'a>>; N], ApiError> {
    parse_object(body, names).map_err(|problem| ApiError::invalid(format!("the body must be a JSON object: {problem}")))
}

/// Absent and null are `false`.
fn flag(name: &str, value: Option<JsonField<'_>>) -> Result<bool, ApiError> {
    match value.filter(|value| value.kind() != JsonKind::Null) {
        None => Ok(false),
        Some(value) => value.boolean().ok_or_else(|| ApiError::invalid(format!("`{name}` must be `true` or `false`"))),
    }
}

fn utterance(text: Option<JsonField<'_>>) -> Result<String, ApiError> {
    let text = text.and_then(JsonField::text).filter(|text| !is_blank(text));
    let text = text.ok_or_else(|| ApiError::invalid("`text` must be a string that is not blank"))?;
    if text.len() > MAX_TEXT {
        return Err(ApiError::invalid(format!("`text` must have {MAX_TEXT} bytes at most")));
    }
    Ok(text)
}

async fn read_body(body: Body) -> Result<String, ApiError> {
    let reading = async {
        let mut pieces = body.into_data_stream();
        let mut whole = Vec::new();
        let mut discarded = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| ApiError::invalid("the body broke off"))?;
            if discarded == 0 && whole.len() + piece.len() <= MAX_BODY {
                whole.extend_from_slice(&piece);
                continue;
            }
            discarded += piece.len();
            if discarded > MAX_DISCARDED_BODY {
                break;
            }
        }
        if discarded > 0 {
            let text = format!("the body must have {MAX_BODY} bytes at most");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text));
        }
        String::from_utf8(whole).map_err(|_| ApiError::invalid("the body must be UTF-8"))
    };
    let late = || ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time");
    tokio::time::timeout(BODY_TIMEOUT, reading).await.map_err(|_| late())?
}

#[cfg(test)]
mod tests;
