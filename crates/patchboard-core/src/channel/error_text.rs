//! Texts for chat users when there is no answer. They cannot fix or inspect the cause, so the texts are short and
//! reveal no internals.

use crate::error::{BoardError, ErrorKind, RetryHint};

const PROVIDER_PREFIX: &str = "provider error: ";
const BUDGET_PREFIX: &str = "token budget exceeded";
const RUN_BUDGET_PREFIX: &str = "the run's token limit";

pub(super) const NO_ANSWER: &str = "There was no answer; please try again.";

/// Classifies a failed run by its recorded message.
pub(super) fn run_failure(message: &str) -> BoardError {
    let kind = if message.starts_with(PROVIDER_PREFIX) {
        ErrorKind::Upstream
    } else if message.starts_with(BUDGET_PREFIX) || message.starts_with(RUN_BUDGET_PREFIX) {
        ErrorKind::Exhausted
    } else if message.starts_with("stopped after") {
        ErrorKind::Timeout
    } else {
        ErrorKind::Internal
    };
    redact_budget_keys(BoardError::new(kind, message))
}

/// Any provider failure, a missing key included, is reported as upstream, not as a fault of this server.
pub(super) fn start_failure(mut error: BoardError) -> BoardError {
    if error.message.starts_with(PROVIDER_PREFIX) {
        error.kind = ErrorKind::Upstream;
    }
    redact_budget_keys(error)
}

/// Cuts off the budget details: the channel's users cannot change a budget and must not see configuration keys.
fn redact_budget_keys(mut error: BoardError) -> BoardError {
    let about_a_budget = error.message.starts_with(BUDGET_PREFIX) || error.message.starts_with(RUN_BUDGET_PREFIX);
    if let (true, Some(end)) = (about_a_budget, error.message.find("): ")) {
        error.message.truncate(end + 1);
    }
    error
}

/// The server stopped twice during the run.
pub(super) fn interrupted() -> BoardError {
    BoardError::new(ErrorKind::Unavailable, "interrupted: the server stopped while it worked on the answer")
}

pub(super) fn user_text(error: &BoardError) -> &'static str {
    match error.kind {
        ErrorKind::Exhausted if error.retry == RetryHint::Never => {
            "The token budget is used up; please try again later."
        }
        ErrorKind::Exhausted => "Too much is going on at the moment; please try again later.",
        ErrorKind::Upstream => "The language model cannot be reached at the moment; please try again later.",
        ErrorKind::Timeout => "It took too long to answer; please try again.",
        ErrorKind::Cancelled => "The answer was cancelled.",
        ErrorKind::NotFound => "Nobody is here to answer.",
        ErrorKind::Invalid => "This message cannot be answered.",
        ErrorKind::Unavailable => "The answer was interrupted; please ask again.",
        ErrorKind::Unauthenticated | ErrorKind::Forbidden | ErrorKind::Conflict | ErrorKind::Internal => {
            "Something went wrong; please try again later."
        }
    }
}

#[cfg(test)]
mod tests;
