//! HTTP responses to webhooks.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use patchboard_core::webhook::{WebhookOutcome, WebhookResponse};
use patchboard_core::{BoardError, RetryHint};

use super::VerifyError;
use crate::gateway::{error, map, wire};
use crate::listen;

/// An unknown channel's name is echoed up to this length.
const MAX_NAME_CHARS: usize = 64;
/// `Retry-After` where the error gives no hint.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);
/// Upper bound of `Retry-After`; some services give up on longer pauses.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// Prefix of error messages that contain a provider's own text.
const PROVIDER_PREFIX: &str = "provider error: ";

pub(super) fn webhook_response(outcome: WebhookOutcome) -> Response {
    match outcome {
        WebhookOutcome::Accepted(id) => json(StatusCode::ACCEPTED, &wire::WebhookReceipt::Delivery(id.0.to_string())),
        WebhookOutcome::Duplicate => json(StatusCode::OK, &wire::WebhookReceipt::Duplicate(true)),
        WebhookOutcome::Ignored => json(StatusCode::OK, &wire::WebhookReceipt::Ignored(true)),
        WebhookOutcome::Respond(answer) => adapter_response(answer),
    }
}

fn json(status: StatusCode, receipt: &wire::WebhookReceipt) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], map::encode(receipt)).into_response()
}

/// The adapter decides status, content type and body, but no headers of the connection.
fn adapter_response(answer: WebhookResponse) -> Response {
    let status = StatusCode::from_u16(answer.status.clamp(200, 599)).unwrap_or(StatusCode::OK);
    let kind = HeaderValue::from_str(&answer.content_type).ok().filter(|kind| !kind.is_empty());
    let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    (status, [(header::CONTENT_TYPE, kind)], answer.body).into_response()
}

/// A webhook that was refused or could not be answered.
#[derive(Debug)]
pub(super) struct WebhookRejection {
    status: StatusCode,
    text: String,
    retry_after: Option<Duration>,
    /// Closes the connection without a response.
    closes_unanswered: bool,
}

impl WebhookRejection {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), retry_after: None, closes_unanswered: false }
    }

    /// The connection is closed without a response.
    pub(super) fn close_unanswered() -> Self {
        Self { closes_unanswered: true, ..Self::new(StatusCode::UNAUTHORIZED, "") }
    }

    pub(super) fn unknown_channel(channel: &str) -> Self {
        let short_name: String = channel.chars().take(MAX_NAME_CHARS).collect();
        Self::new(StatusCode::NOT_FOUND, format!("no channel adapter for '{short_name}'"))
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "webhooks are posted")
    }

    pub(super) fn unverified(error: VerifyError) -> Self {
        let text = match error {
            VerifyError::Signature => "signature missing or wrong",
            VerifyError::Stale => "signature too old or from the future: check the clocks",
            VerifyError::NotLocal => "signature missing: without one, only programs on this machine may post here",
        };
        Self::new(StatusCode::UNAUTHORIZED, text)
    }

    pub(super) fn too_large() -> Self {
        let text = format!("the body must have {} bytes at most", super::MAX_BODY);
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }

    pub(super) fn rate_limited(pause: Duration) -> Self {
        let text = "rate limit exceeded: this channel takes no more webhooks at the moment";
        Self { retry_after: Some(pause), ..Self::new(StatusCode::TOO_MANY_REQUESTS, text) }
    }
}

impl From<BoardError> for WebhookRejection {
    fn from(error: BoardError) -> Self {
        // The sender is untrusted; a provider's error text may mention its keys and is for the operator only.
        if error.message.starts_with(PROVIDER_PREFIX) {
            tracing::warn!(surface = super::SURFACE, error = %error.message, "webhook could not be answered");
            let text = format!("{PROVIDER_PREFIX}the model could not be asked; see the server's log");
            return Self::new(StatusCode::BAD_GATEWAY, text);
        }
        let status = error::status(&error);
        let retry_after = match error.retry {
            RetryHint::After(pause) => Some(pause),
            RetryHint::Never | RetryHint::Now => {
                (status == StatusCode::SERVICE_UNAVAILABLE).then_some(DEFAULT_RETRY_AFTER)
            }
        };
        // The retry hint is sent as a header.
        let text = error::text(&BoardError { retry: RetryHint::Never, ..error });
        Self { retry_after, ..Self::new(status, text) }
    }
}

impl IntoResponse for WebhookRejection {
    fn into_response(self) -> Response {
        if self.closes_unanswered {
            return listen::close_without_response();
        }
        let mut response = (self.status, self.text).into_response();
        let headers = response.headers_mut();
        if let Some(pause) = self.retry_after {
            let pause = pause.min(MAX_RETRY_AFTER);
            let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }
}
