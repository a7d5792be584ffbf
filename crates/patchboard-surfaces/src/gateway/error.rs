//! Error kinds → the gateway's error texts, and the status of webhooks. The protocol of the WebSocket has no codes: the
//! text is the interface.

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
        // What went wrong inside is in the log; a client can do nothing with it.
        ErrorKind::Internal => {
            tracing::error!(error = %message, cause = error.source_chain(), "request failed inside");
            "internal error: see the server's log".to_owned()
        }
    };
    match error.retry {
        RetryHint::Never | RetryHint::Now => text,
        RetryHint::After(pause) => format!("{text}; try again in {} s", pause.as_secs().max(1)),
    }
}

/// The status a webhook is answered with. Whoever posted it may come again after a 503, and should not after a 429: what
/// is used up then is not a matter of seconds.
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
