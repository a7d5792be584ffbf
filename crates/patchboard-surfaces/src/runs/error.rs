//! Maps error kinds to error texts. The protocol has no error codes: the text is the interface.

use patchboard_core::{BoardError, ErrorKind, RetryHint};

/// The error text of a run that was cancelled on request.
pub(super) const CANCELLED: &str = "run cancelled";

pub(super) fn text(error: &BoardError) -> String {
    let message = &error.message;
    let text = match error.kind {
        ErrorKind::Invalid
        | ErrorKind::Forbidden
        | ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Exhausted
        | ErrorKind::Timeout
        | ErrorKind::Unavailable
        | ErrorKind::Upstream => message.clone(),
        ErrorKind::Cancelled => CANCELLED.to_owned(),
        ErrorKind::Unauthenticated => "not signed in".to_owned(),
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
