//! What whoever posted a webhook is told.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use patchboard_core::channel::{ChannelAnswer, WebhookOutcome};
use patchboard_core::reply::Reply;
use patchboard_core::{BoardError, ErrorKind, Retry};

use super::Doubt;
use crate::gateway::{error, map, wire};
use crate::listen;

/// Of an unknown channel's name, no more is said back.
const MAX_NAME_CHARS: usize = 64;
/// When to come again, where nobody said it better.
const LATER: Duration = Duration::from_secs(5);
/// No longer pause is asked for; services forget what they were told to do tomorrow.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// What goes before the words of a model's provider.
const PROVIDER: &str = "provider error: ";

pub(super) fn of(reply: Reply) -> Response {
    if let Reply::Webhook(outcome) = reply {
        return match outcome {
            WebhookOutcome::Accepted(id) => json(StatusCode::ACCEPTED, &wire::Hooked::Delivery(id.0.to_string())),
            WebhookOutcome::Duplicate => json(StatusCode::OK, &wire::Hooked::Duplicate(true)),
            WebhookOutcome::Ignored => json(StatusCode::OK, &wire::Hooked::Ignored(true)),
            WebhookOutcome::Answer(answer) => adapters_own(answer),
        };
    }
    Refusal::from(BoardError::new(ErrorKind::Internal, "unexpected answer to a webhook")).into_response()
}

fn json(status: StatusCode, told: &wire::Hooked) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], map::encode(told)).into_response()
}

/// An adapter says what it answers, and nothing about the connection.
fn adapters_own(answer: ChannelAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status.clamp(200, 599)).unwrap_or(StatusCode::OK);
    let kind = HeaderValue::from_str(&answer.content_type).ok().filter(|kind| !kind.is_empty());
    let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    (status, [(header::CONTENT_TYPE, kind)], answer.body).into_response()
}

/// A webhook that was not taken, or not answered.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    text: String,
    retry_after: Option<Duration>,
    /// Nothing of it is said.
    is_cut: bool,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), retry_after: None, is_cut: false }
    }

    /// The connection is closed without an answer.
    pub(super) fn cut() -> Self {
        Self { is_cut: true, ..Self::new(StatusCode::UNAUTHORIZED, "") }
    }

    pub(super) fn unknown(channel: &str) -> Self {
        let shown: String = channel.chars().take(MAX_NAME_CHARS).collect();
        Self::new(StatusCode::NOT_FOUND, format!("no channel adapter for '{shown}'"))
    }

    pub(super) fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "webhooks are posted")
    }

    pub(super) fn doubt(doubt: Doubt) -> Self {
        let text = match doubt {
            Doubt::Signature => "signature missing or wrong",
            Doubt::Stale => "signature too old or from the future: check the clocks",
            Doubt::Elsewhere => "signature missing: without one, only programs on this machine may post here",
        };
        Self::new(StatusCode::UNAUTHORIZED, text)
    }

    pub(super) fn too_large() -> Self {
        let text = format!("the body must have {} bytes at most", super::MAX_BODY);
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }

    pub(super) fn too_fast(pause: Duration) -> Self {
        let text = "rate limit exceeded: this channel takes no more webhooks at the moment";
        Self { retry_after: Some(pause), ..Self::new(StatusCode::TOO_MANY_REQUESTS, text) }
    }
}

impl From<BoardError> for Refusal {
    fn from(error: BoardError) -> Self {
        // Whoever posts a webhook may be anybody; what a provider says of itself and its keys is for the operator.
        if error.message.starts_with(PROVIDER) {
            tracing::warn!(surface = super::NAME, error = %error.message, "webhook could not be answered");
            let text = format!("{PROVIDER}the model could not be asked; see the server's log");
            return Self::new(StatusCode::BAD_GATEWAY, text);
        }
        let status = error::status(&error);
        let retry_after = match error.retry {
            Retry::After(pause) => Some(pause),
            Retry::Never | Retry::Now => (status == StatusCode::SERVICE_UNAVAILABLE).then_some(LATER),
        };
        // When to come again is said in a header.
        let text = error::text(&BoardError { retry: Retry::Never, ..error });
        Self { retry_after, ..Self::new(status, text) }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        if self.is_cut {
            return listen::cut();
        }
        let mut response = (self.status, self.text).into_response();
        let headers = response.headers_mut();
        if let Some(pause) = self.retry_after {
            let pause = pause.min(LONGEST_PAUSE);
            let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }
}
