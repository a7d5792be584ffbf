//! Conversion of a worker's response to an output for programs and models.

use std::collections::BTreeMap;

use bytes::Bytes;
use patchboard_core::tool::{StructuredOutput, ToolFault, ToolOutput};
use patchboard_proto::pb::ExecuteToolResponse;
use patchboard_proto::value::{self, ParameterKind};
use serde_json::Value;
use tonic::{Code, Status};

use super::connection::{ConnectionLoss, connection_loss};
use super::dispatch::CallRejection;

/// Callers truncate further; this only keeps an oversized response from being copied around.
pub(super) const MAX_TEXT: usize = 1024 * 1024;
/// Length of the error text shown to a model.
const MAX_ERROR: usize = 4096;
/// Metadata key for the media type of a binary result.
const CONTENT_TYPE: &str = "content_type";
const OCTET_STREAM: &str = "application/octet-stream";
/// The response of a worker to a unary call of a streaming tool.
const WRONG_ENDPOINT: &str = "Streaming tool called on non-streaming endpoint.";
/// Longer than the message encoded as JSON, so that larger results are not parsed.
const MAX_WRONG_ENDPOINT: usize = 200;

/// The consumer of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerKind {
    Program,
    Model,
}

/// Measurements of the call.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExecutionInfo<'a> {
    pub(super) worker: &'a str,
    pub(super) milliseconds: u128,
}

/// Returns true if a streaming tool was called on the unary endpoint.
pub(super) fn is_wrong_endpoint(response: &ExecuteToolResponse) -> bool {
    let Some(result) = response.result.as_ref().filter(|_| response.success) else { return false };
    result.value.len() <= MAX_WRONG_ENDPOINT
        && serde_json::from_slice::<Value>(&result.value)
            .is_ok_and(|value| value.get("error").and_then(Value::as_str) == Some(WRONG_ENDPOINT))
}

pub(super) fn tool_output(response: ExecuteToolResponse, caller: CallerKind, info: ExecutionInfo<'_>) -> ToolOutput {
    let ExecuteToolResponse { success, result, error_message, metadata, binary_result, .. } = response;
    if !success {
        return failure_output(error_message, metadata, caller, info);
    }
    let has_type = metadata.contains_key(CONTENT_TYPE);
    let binary = (!binary_result.is_empty() || (has_type && result.is_none())).then_some(binary_result);
    let json = match (result, &binary) {
        (Some(any), _) => match value::into_json(any, ParameterKind::Other) {
            Ok(json) => Some(json),
            Err(error) => {
                let message = format!("the worker's answer cannot be understood: {error}");
                return ToolOutput::fault(ToolFault::Internal, message);
            }
        },
        (None, Some(_)) => None,
        (None, None) => Some(Bytes::from_static(b"null")),
    };
    let content = match caller {
        CallerKind::Program => String::new(),
        CallerKind::Model => model_text(json.as_ref(), binary.as_ref(), &metadata),
    };
    ToolOutput::ok(content).with_structured(StructuredOutput {
        json,
        binary,
        metadata: with_execution_info(metadata, info),
        fault: None,
    })
}

/// Output for a failure of the tool itself.
fn failure_output(
    message: String,
    metadata: BTreeMap<String, String>,
    caller: CallerKind,
    info: ExecutionInfo<'_>,
) -> ToolOutput {
    let message = if message.is_empty() { "the tool failed and did not say why".to_owned() } else { message };
    let content = match caller {
        CallerKind::Program => message,
        CallerKind::Model => short_error(&message),
    };
    ToolOutput::error(content).with_structured(StructuredOutput {
        metadata: with_execution_info(metadata, info),
        ..StructuredOutput::default()
    })
}

/// Adds the measurements of the call, which the worker does not know.
pub(super) fn with_execution_info(
    mut metadata: BTreeMap<String, String>,
    info: ExecutionInfo<'_>,
) -> BTreeMap<String, String> {
    metadata.insert("execution_time".to_owned(), info.milliseconds.to_string());
    metadata.insert("tool_type".to_owned(), "remote".to_owned());
    metadata.insert("worker_id".to_owned(), info.worker.to_owned());
    metadata
}

/// Used if the worker's status names no tool.
pub(super) const UNKNOWN_TO_WORKER: &str = "the worker does not know the tool";

/// Output for a call that ended with a gRPC status instead of a tool response.
pub(super) fn status_output(status: &Status, caller: CallerKind) -> ToolOutput {
    let (fault, message) = match (connection_loss(status), status.code()) {
        (ConnectionLoss::BeforeSend | ConnectionLoss::AfterSend, _) => {
            return ToolOutput::fault(ToolFault::Unavailable, "the worker went away during the call");
        }
        (ConnectionLoss::None, Code::DeadlineExceeded) => (ToolFault::TimedOut, "the call took too long"),
        (ConnectionLoss::None, Code::InvalidArgument) => (ToolFault::Invalid, "the worker refused the arguments"),
        (ConnectionLoss::None, Code::NotFound | Code::Unimplemented) => (ToolFault::NotFound, UNKNOWN_TO_WORKER),
        // The caller did not cancel: the worker is shutting down.
        (ConnectionLoss::None, Code::Unavailable | Code::Cancelled) => {
            (ToolFault::Unavailable, "the worker is going away")
        }
        (
            ConnectionLoss::None,
            Code::Ok
            | Code::Unknown
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Internal
            | Code::DataLoss
            | Code::Unauthenticated,
        ) => (ToolFault::Internal, "the worker broke while it was answering"),
    };
    let detail = status.message();
    let content = match caller {
        _ if detail.is_empty() => message.to_owned(),
        CallerKind::Program => detail.to_owned(),
        CallerKind::Model => short_error(detail),
    };
    ToolOutput::fault(fault, content)
}

/// Output for a call that never ran.
pub(super) fn rejection_output(
    rejection: CallRejection,
    pool: &str,
    last_error: impl FnOnce() -> String,
) -> ToolOutput {
    let (fault, message) = match rejection {
        CallRejection::Saturated => {
            (ToolFault::Saturated, format!("pool_saturated: too many calls wait for workers of `{pool}`; it never ran"))
        }
        CallRejection::TimedOut => (
            ToolFault::QueueTimeout,
            format!("queue_timeout: no worker of `{pool}` was free in time; the call never ran"),
        ),
        CallRejection::WorkerBusy => (
            ToolFault::WorkerBusy,
            format!("worker_busy: the session's worker of `{pool}` is busy; the call never ran"),
        ),
        CallRejection::SessionWorkerUnavailable => (
            ToolFault::Unavailable,
            format!("session_worker_unavailable: the session's worker of `{pool}` is gone; the call never ran"),
        ),
        CallRejection::NoWorkers => (
            ToolFault::Unavailable,
            format!("no_workers_available: `{pool}` has no worker, the call never ran: {}", last_error()),
        ),
    };
    ToolOutput::fault(fault, message)
}

/// JSON is passed through, a JSON string is unquoted, binary data is described by type and length.
fn model_text(json: Option<&Bytes>, binary: Option<&Bytes>, metadata: &BTreeMap<String, String>) -> String {
    let mut text = json.map(|json| json_text(json)).unwrap_or_default();
    if let Some(binary) = binary {
        if !text.is_empty() {
            text.push('\n');
        }
        let kind = metadata.get(CONTENT_TYPE).map_or(OCTET_STREAM, String::as_str);
        let kind = crate::text::clipped(&kind.escape_debug(), 100);
        text.push_str(&format!("[{kind}, {} bytes]", binary.len()));
    }
    truncate_text(text)
}

pub(super) fn json_text(json: &[u8]) -> String {
    match serde_json::from_slice::<String>(json) {
        Ok(text) => text,
        Err(_) => String::from_utf8_lossy(json).into_owned(),
    }
}

pub(super) fn truncate_text(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push_str("\n[cut: the answer was longer]");
    }
    text
}

/// Workers report an error as an object with its type, its message and its traceback. A model needs only the first two.
fn short_error(message: &str) -> String {
    let short = match serde_json::from_str::<Value>(message) {
        Ok(Value::Object(error)) => {
            let field = |name: &str| error.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            match (field("type"), field("message")) {
                (Some(kind), Some(detail)) => format!("{kind}: {detail}"),
                (Some(one), None) | (None, Some(one)) => one.to_owned(),
                (None, None) => message.to_owned(),
            }
        }
        Ok(_) | Err(_) => message.to_owned(),
    };
    crate::text::clipped(&short, MAX_ERROR)
}

#[cfg(test)]
mod tests;
