//! Error kinds → the gateway's error texts. The protocol has no codes: the text is the interface.

use patchboard_core::{BoardError, ErrorKind, Retry};

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
            tracing::error!(error = %message, cause = error.causes(), "request failed inside");
            "internal error: see the server's log".to_owned()
        }
    };
    match error.retry {
        Retry::Never | Retry::Now => text,
        Retry::After(pause) => format!("{text}; try again in {} s", pause.as_secs().max(1)),
    }
}
