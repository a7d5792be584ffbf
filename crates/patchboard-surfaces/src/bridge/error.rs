//! Maps error kinds and tool faults to what a gRPC client receives: a status or, where the protocol defines it, a
//! response that contains the error.

use patchboard_core::tool::ToolFault;
use patchboard_core::{BoardError, ErrorKind};
use tonic::{Code, Status};

/// How a failed tool call is reported.
#[derive(Debug)]
pub(super) enum ToolCallFailure {
    /// A response with `success` false and this text.
    Response(String),
    Status(Status),
}

pub(super) fn status(error: &BoardError) -> Status {
    Status::new(code(error.kind), text(error))
}

/// Invalid requests and failures of the tool itself are responses; everything else is a status.
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

/// Every reason to refuse a registration is a response, limits included.
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

/// `Conflict` means that the tool cannot stream.
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

/// The status of a call that the tool did not answer. Clients search the text for the protocol's keywords, so these are
/// always included.
pub(super) fn fault_status(fault: ToolFault, text: &str) -> Status {
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
    let text = if text.contains(word) { text.to_owned() } else { format!("{word}: {text}") };
    Status::new(code, text)
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
        // Internal details go to the log only; a client cannot act on them.
        ErrorKind::Internal => {
            let cause = error.source_chain();
            tracing::error!(error = %error.message, cause, "request failed: internal error");
            "internal error: see the server's log".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
