//! Error kinds → JSON-RPC codes. The kind travels in `data.kind`, for the codes tell little apart.

use patchboard_core::{BoardError, ErrorKind, Retry};
use serde_json::json;

use super::wire::Problem;

pub(super) fn problem(error: &BoardError) -> Problem {
    let (code, kind) = match error.kind {
        ErrorKind::Invalid => (Problem::INVALID_PARAMS, "invalid"),
        ErrorKind::NotFound => (Problem::INVALID_PARAMS, "not_found"),
        ErrorKind::Unauthenticated => (Problem::SERVER, "unauthenticated"),
        ErrorKind::Forbidden => (Problem::SERVER, "forbidden"),
        ErrorKind::Conflict => (Problem::SERVER, "conflict"),
        ErrorKind::Exhausted => (Problem::SERVER, "exhausted"),
        ErrorKind::Timeout => (Problem::SERVER, "timeout"),
        ErrorKind::Cancelled => (Problem::SERVER, "cancelled"),
        ErrorKind::Unavailable => (Problem::SERVER, "unavailable"),
        ErrorKind::Upstream => (Problem::SERVER, "upstream"),
        ErrorKind::Internal => {
            let cause = error.causes();
            tracing::error!(error = %error.message, cause, "request failed inside");
            // What went wrong inside is in the log; a client can do nothing with it.
            return Problem::new(Problem::INTERNAL, "internal error: see the server's log");
        }
    };
    let mut data = json!({ "kind": kind });
    if let (Retry::After(pause), Some(fields)) = (error.retry, data.as_object_mut()) {
        fields.insert("retryAfterSeconds".to_owned(), pause.as_secs().max(1).into());
    }
    Problem { code, message: error.message.clone().into(), data: Some(data) }
}
