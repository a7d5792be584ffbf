//! Conversion of a call to its wire request.

use std::sync::Arc;
use std::time::Duration;

use patchboard_core::tool::{CallMetadata, ToolFault, ToolOutput};
use patchboard_proto::limits::is_correlation_id;
use patchboard_proto::pb::ExecuteToolRequest;
use patchboard_proto::value;
use serde_json::Value;
use tonic::Request;
use tonic::metadata::AsciiMetadataValue;

const CORRELATION_HEADER: &str = "x-snakepit-correlation-id";
const TRACE_HEADER: &str = "traceparent";
/// The same key in the call's metadata, for callers that cannot set headers.
const CORRELATION_KEY: &str = "correlation_id";
/// Prefix of metadata keys that give the format of a binary argument, followed by its name.
const FORMAT_PREFIX: &str = "binary_format:";
const PICKLE: &str = "pickle";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallMode {
    Unary,
    Streaming,
}

/// Unpickling runs code in the receiver, so calls with pickled values are rejected unless the operator allows them.
pub(super) fn reject_pickle(call_metadata: &CallMetadata) -> Option<ToolOutput> {
    let is_pickled = |(key, format): &(&String, &String)| {
        key.starts_with(FORMAT_PREFIX) && format.trim().eq_ignore_ascii_case(PICKLE)
    };
    let (key, _) = call_metadata.metadata.iter().find(is_pickled)?;
    let name = key.strip_prefix(FORMAT_PREFIX).unwrap_or_default();
    let message = format!("Invalid parameter {name}: pickled values are not passed on (`[bridge] allow_pickle`)");
    Some(ToolOutput::fault(ToolFault::Invalid, message))
}

/// The id that correlates all events of the call; `generate` is used if the caller gave none or an invalid one.
pub(super) fn correlation_id(call_metadata: &CallMetadata, generate: impl FnOnce() -> String) -> Arc<str> {
    let requested =
        call_metadata.correlation.as_deref().or(call_metadata.metadata.get(CORRELATION_KEY).map(String::as_str));
    requested.filter(|id| is_correlation_id(id)).map_or_else(|| generate().into(), Into::into)
}

/// `arguments` must be an object; `time_left` is the worker's time limit.
pub(super) fn build(
    tool: &str,
    call_metadata: &CallMetadata,
    arguments: &Value,
    correlation: &str,
    time_left: Duration,
    mode: CallMode,
) -> Request<ExecuteToolRequest> {
    let parameters = arguments.as_object().into_iter().flatten();
    let mut request = Request::new(ExecuteToolRequest {
        session_id: call_metadata.session.to_string(),
        tool_name: tool.to_owned(),
        parameters: parameters.map(|(name, argument)| (name.clone(), value::encode(argument))).collect(),
        metadata: call_metadata.metadata.clone(),
        stream: mode == CallMode::Streaming,
        binary_parameters: call_metadata.binary.clone(),
    });
    request.set_timeout(time_left);
    let headers = request.metadata_mut();
    if let Ok(correlation) = AsciiMetadataValue::try_from(correlation) {
        headers.insert(CORRELATION_HEADER, correlation);
    }
    if let Some(trace) = call_metadata.trace.as_deref().and_then(|trace| AsciiMetadataValue::try_from(trace).ok()) {
        headers.insert(TRACE_HEADER, trace);
    }
    request
}

#[cfg(test)]
mod tests;
