//! Maps error kinds to frame errors for apps and to HTTP statuses with codes.

use std::borrow::Cow;

use axum::http::StatusCode;
use patchboard_core::{BoardError, ErrorKind, RetryHint};

use super::wire::{FrameError, FrameErrorCode};

/// An error response over HTTP.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: Cow<'static, str>,
    /// In whole seconds.
    pub(super) retry_after: Option<u64>,
    /// The `Allow` header of a 405 response.
    pub(super) allow: Option<&'static str>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, message: message.into(), retry_after: None, allow: None }
    }

    pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    pub(super) fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(super) fn method_not_allowed(allow: &'static str) -> Self {
        let message = format!("this path takes {allow} only");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message) }
    }

    pub(super) fn unauthenticated() -> Self {
        let message = "missing or wrong token: send `Authorization: Bearer <token>`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
    }

    /// Requests that wait hold a permit; the same request without `wait` needs none.
    pub(super) fn too_many_waiting() -> Self {
        let message = "too many requests wait already: ask without `wait`";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }
}

impl From<BoardError> for ApiError {
    fn from(error: BoardError) -> Self {
        let (status, code) = match error.kind {
            ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid"),
            ErrorKind::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            ErrorKind::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            ErrorKind::Conflict => (StatusCode::CONFLICT, "conflict"),
            ErrorKind::Exhausted => (StatusCode::TOO_MANY_REQUESTS, "exhausted"),
            ErrorKind::Timeout => (StatusCode::SERVICE_UNAVAILABLE, "timeout"),
            ErrorKind::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, "cancelled"),
            ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            ErrorKind::Upstream => (StatusCode::SERVICE_UNAVAILABLE, "upstream"),
            ErrorKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        let retry_after = match error.retry {
            RetryHint::Never | RetryHint::Now => None,
            RetryHint::After(pause) => Some(pause.as_secs().max(1)),
        };
        Self { status, code, message: text(&error).into(), retry_after, allow: None }
    }
}

/// The refusal of a registration that the board rejected as invalid.
pub(super) fn registration_error(error: &BoardError) -> FrameError {
    FrameError::new(FrameErrorCode::ValidationError, text(error))
}

fn text(error: &BoardError) -> String {
    match error.kind {
        ErrorKind::Invalid
        | ErrorKind::Unauthenticated
        | ErrorKind::Forbidden
        | ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Exhausted
        | ErrorKind::Timeout
        | ErrorKind::Cancelled
        | ErrorKind::Unavailable
        | ErrorKind::Upstream => error.message.clone(),
        // Internal details go to the log only; a client cannot act on them.
        ErrorKind::Internal => {
            let cause = error.source_chain();
            tracing::error!(error = %error.message, cause, "request failed: internal error");
            "internal error: see the server's log".to_owned()
        }
    }
}
