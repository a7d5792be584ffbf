//! Maps error kinds to the gateway's error texts and to webhook statuses. The WebSocket protocol has no error codes:
//! the text is the interface.

use axum::http::StatusCode;
use patchboard_core::{BoardError, ErrorKind, RetryHint};

pub(super) fn text(error: &BoardError) -> String {
    let message = &error.message;
    let text = match error.kind {
        ErrorKind::Invalid
        | ErrorKind::Forbidden
        | ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Exhausted
        | ErrorKind::Timeout
        | ErrorKind::Cancelled
        | ErrorKind::Unavailable
        | ErrorKind::Upstream => message.clone(),
        ErrorKind::Unauthenticated => "auth_failed".to_owned(),
        // Internal details go to the log only; a client cannot act on them.
        ErrorKind::Internal => {
            tracing::error!(error = %message, cause = error.source_chain(), "request failed: internal error");
            "internal error: see the server's log".to_owned()
        }
    };
    match error.retry {
        RetryHint::Never | RetryHint::Now => text,
        RetryHint::After(pause) => format!("{text}; try again in {} s", pause.as_secs().max(1)),
    }
}

/// The HTTP status of a failed webhook. The sender may retry after a 503 but should not after a 429, because exhausted
/// budgets take longer than seconds to recover.
pub(super) fn status(error: &BoardError) -> StatusCode {
    match (error.kind, error.retry) {
        (ErrorKind::Invalid, _) => StatusCode::BAD_REQUEST,
        (ErrorKind::Unauthenticated, _) => StatusCode::UNAUTHORIZED,
        (ErrorKind::Forbidden, _) => StatusCode::FORBIDDEN,
        (ErrorKind::NotFound, _) => StatusCode::NOT_FOUND,
        (ErrorKind::Conflict, _) => StatusCode::CONFLICT,
        (ErrorKind::Exhausted, RetryHint::Never) => StatusCode::TOO_MANY_REQUESTS,
        (ErrorKind::Exhausted, RetryHint::Now | RetryHint::After(_))
        | (ErrorKind::Unavailable | ErrorKind::Cancelled, _) => StatusCode::SERVICE_UNAVAILABLE,
        (ErrorKind::Upstream | ErrorKind::Timeout, _) => StatusCode::BAD_GATEWAY,
        (ErrorKind::Internal, _) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
