//! Error kinds and faults → what a gRPC client is told: a status, or, where its protocol has it so, an answer that says
//! what went wrong.

use patchboard_core::tool::ToolFault;
use patchboard_core::{BoardError, ErrorKind};
use tonic::{Code, Status};

/// How a call of a tool went wrong.
#[derive(Debug)]
pub(super) enum ToolCallFailure {
    /// The call is answered, with `success` false and these words.
    Response(String),
    Status(Status),
}

/// A board that answers a question nobody asked.
pub(super) fn unexpected_reply() -> Status {
    debug_assert!(false, "the board answered something else");
    Status::internal("internal error: unexpected answer")
}

pub(super) fn status(error: &BoardError) -> Status {
    Status::new(code(error.kind), text(error))
}

/// What is wrong with the request, and what the tool itself is to blame for, is an answer.
pub(super) fn unary_failure(error: &BoardError) -> ToolCallFailure {
    match error.kind {
        ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Upstream => {
            ToolCallFailure::Response(text(error))
        }
        ErrorKind::Unauthenticated
        | ErrorKind::Forbidden
        | ErrorKind::Exhausted
        | ErrorKind::Timeout
        | ErrorKind::Cancelled
        | ErrorKind::Unavailable
        | ErrorKind::Internal => ToolCallFailure::Status(status(error)),
    }
}

/// Whatever is wrong with what was to be registered is an answer, limits included.
pub(super) fn registration_failure(error: &BoardError) -> ToolCallFailure {
    match error.kind {
        ErrorKind::Exhausted => ToolCallFailure::Response(text(error)),
        ErrorKind::Invalid
        | ErrorKind::Unauthenticated
        | ErrorKind::Forbidden
        | ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Timeout
        | ErrorKind::Cancelled
        | ErrorKind::Unavailable
        | ErrorKind::Upstream
        | ErrorKind::Internal => unary_failure(error),
    }
}

/// A tool that cannot do it piece by piece is one that does not do it.
pub(super) fn stream_status(error: &BoardError) -> Status {
    match error.kind {
        ErrorKind::Conflict => Status::unimplemented(text(error)),
        ErrorKind::Invalid
        | ErrorKind::Unauthenticated
        | ErrorKind::Forbidden
        | ErrorKind::NotFound
        | ErrorKind::Exhausted
        | ErrorKind::Timeout
        | ErrorKind::Cancelled
        | ErrorKind::Unavailable
        | ErrorKind::Upstream
        | ErrorKind::Internal => status(error),
    }
}

/// A call that got no answer from its tool. Clients look for the words of the protocol, so they are there whatever
/// else is said.
pub(super) fn fault_status(fault: ToolFault, said: &str) -> Status {
    let (code, word) = match fault {
        ToolFault::Unavailable => (Code::Unavailable, ""),
        ToolFault::QueueTimeout => (Code::DeadlineExceeded, "queue_timeout"),
        ToolFault::Saturated => (Code::ResourceExhausted, "pool_saturated"),
        ToolFault::WorkerBusy => (Code::ResourceExhausted, "worker_busy"),
        ToolFault::TimedOut => (Code::DeadlineExceeded, ""),
        ToolFault::Cancelled => (Code::Cancelled, ""),
        ToolFault::Invalid | ToolFault::Argument => (Code::InvalidArgument, ""),
        ToolFault::NotFound => (Code::NotFound, ""),
        ToolFault::Internal => (Code::Internal, ""),
    };
    let said = if said.contains(word) { said.to_owned() } else { format!("{word}: {said}") };
    Status::new(code, said)
}

fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::Unauthenticated => Code::Unauthenticated,
        ErrorKind::Forbidden => Code::PermissionDenied,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Conflict => Code::FailedPrecondition,
        ErrorKind::Exhausted => Code::ResourceExhausted,
        ErrorKind::Timeout => Code::DeadlineExceeded,
        ErrorKind::Cancelled => Code::Cancelled,
        ErrorKind::Unavailable | ErrorKind::Upstream => Code::Unavailable,
        ErrorKind::Internal => Code::Internal,
    }
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
        // What went wrong inside is in the log; a client can do nothing with it.
        ErrorKind::Internal => {
            let cause = error.source_chain();
            tracing::error!(error = %error.message, cause, "request failed inside");
            "internal error: see the server's log".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
