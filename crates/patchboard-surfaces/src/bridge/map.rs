//! Maps bridge messages to commands, and replies to messages.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use bytes::Bytes;
use jiff::Timestamp;
use patchboard_core::bridge::{EventFilter, MeasuredValue, TelemetryEvent};
use patchboard_core::command::{CallInSession, OpenSession, RegisterTools, ToolFilter};
use patchboard_core::text::cut;
use patchboard_core::tool::{
    CallMetadata, Glob, StructuredOutput, ToolChunk, ToolEffect, ToolFault, ToolKind, ToolOutput, ToolSpec,
};
use patchboard_core::worker::{SessionConfig, SessionReport, WorkerId, WorkerTool};
use patchboard_proto::limits::{MAX_TOOL_PARAMETERS, is_correlation_id};
use patchboard_proto::value::{self, ParameterKind};
use patchboard_proto::{Any, Message, parameters, pb};
use serde_json::Value;

use super::error::{self, ToolCallFailure};
use crate::trace::traceparent;

/// Correlates the log entries and events of a call on both sides.
pub(super) const CORRELATION_HEADER: &str = "x-snakepit-correlation-id";
/// The largest reply in bytes that a worker accepts, if above the default.
const MAX_REPLY_HEADER: &str = "x-patchboard-max-reply";
/// What a worker's gRPC channel accepts by default.
const DEFAULT_WORKER_REPLY_BYTES: usize = 4 * 1024 * 1024 - 1;

const MAX_TOOLS: usize = 1000;
const MAX_NAME: usize = 64;
const MAX_TOOL_METADATA: usize = 32;
const MAX_TOOL_METADATA_BYTES: usize = 4096;
/// Longer descriptions are truncated.
const MAX_DESCRIPTION: usize = 16 * 1024;
const MAX_SCHEMA: usize = 256 * 1024;
/// Longest pattern of a telemetry subscription.
const MAX_PATTERN: usize = 256;

pub(super) fn timestamp(at: Timestamp) -> patchboard_proto::Timestamp {
    // `jiff` has both parts negative before 1970; protobuf requires `nanos` never to be negative.
    let nanoseconds = at.as_nanosecond();
    let seconds = nanoseconds.div_euclid(1_000_000_000);
    patchboard_proto::Timestamp {
        seconds: i64::try_from(seconds).unwrap_or_default(),
        nanos: i32::try_from(nanoseconds.rem_euclid(1_000_000_000)).unwrap_or_default(),
    }
}

pub(super) fn open_session(request: pb::InitializeSessionRequest, worker: Option<WorkerId>) -> OpenSession {
    let config = request.config.map(|config| SessionConfig {
        caching: config.enable_caching,
        cache_ttl: Duration::from_secs(u64::try_from(config.cache_ttl_seconds).unwrap_or(0)),
        telemetry: config.enable_telemetry,
    });
    OpenSession { id: request.session_id.into(), metadata: request.metadata, config, worker }
}

pub(super) fn session_opened(tools: &[ToolSpec], limit: usize) -> pb::InitializeSessionResponse {
    let available_tools = fit_to_limit(tools, limit).into_iter().map(|tool| (tool.name.clone(), tool)).collect();
    pb::InitializeSessionResponse { success: true, error_message: String::new(), available_tools }
}

pub(super) fn host_tools(tools: &[ToolSpec], limit: usize) -> pb::GetExposedElixirToolsResponse {
    pb::GetExposedElixirToolsResponse { tools: fit_to_limit(tools, limit) }
}

pub(super) fn session(report: SessionReport) -> pb::GetSessionResponse {
    pb::GetSessionResponse {
        session_id: report.id.to_string(),
        metadata: report.metadata,
        created_at: Some(timestamp(report.created_at)),
        tool_count: i32::try_from(report.tools).unwrap_or(i32::MAX),
    }
}

/// Fits the list into `limit`: first drops descriptions, then tools from the end.
fn fit_to_limit(tools: &[ToolSpec], limit: usize) -> Vec<pb::ToolSpec> {
    // In a map a name is encoded twice, and each entry has a few bytes of overhead.
    let size = |tool: &pb::ToolSpec| tool.encoded_len() + tool.name.len() + 32;
    let mut tools: Vec<pb::ToolSpec> = tools.iter().map(tool).collect();
    let mut all: usize = tools.iter().map(size).sum();
    if all <= limit {
        return tools;
    }
    for tool in &mut tools {
        tool.description.clear();
        for parameter in &mut tool.parameters {
            parameter.description.clear();
        }
    }
    all = tools.iter().map(size).sum();
    while all > limit {
        let Some(last) = tools.pop() else { break };
        all -= size(&last);
    }
    tools
}

fn tool(spec: &ToolSpec) -> pb::ToolSpec {
    let mut metadata = spec.traits.as_ref().map(|traits| traits.metadata.clone()).unwrap_or_default();
    if spec.kind != ToolKind::Worker {
        metadata.insert("kind".to_owned(), spec.kind.name().to_owned());
        if spec.effect == ToolEffect::ReadOnly {
            metadata.insert("read_only".to_owned(), "true".to_owned());
        }
    }
    pb::ToolSpec {
        name: spec.name.to_string(),
        description: spec.description.to_string(),
        parameters: in_declared_order(parameters::parameters_of(&spec.input_schema), spec),
        metadata,
        supports_streaming: spec.streams(),
    }
}

/// Sorts parameters in the order in which the tool declared them.
fn in_declared_order(mut parameters: Vec<pb::ParameterSpec>, spec: &ToolSpec) -> Vec<pb::ParameterSpec> {
    if let Some(traits) = &spec.traits {
        let position = |name: &str| traits.parameters.iter().position(|known| &**known == name).unwrap_or(usize::MAX);
        parameters.sort_by_key(|parameter| position(&parameter.name));
    }
    parameters
}

/// Converts all tools, or returns an error text about the first invalid one.
pub(super) fn register(request: pb::RegisterToolsRequest, worker: Option<WorkerId>) -> Result<RegisterTools, String> {
    if request.tools.len() > MAX_TOOLS {
        return Err(format!("too many tools: at most {MAX_TOOLS} are taken"));
    }
    let tools: Vec<WorkerTool> = request.tools.into_iter().map(registration).collect::<Result<_, _>>()?;
    let mut named = HashSet::new();
    if let Some(twice) = tools.iter().find(|tool| !named.insert(tool.name.clone())) {
        return Err(format!("duplicate_tool: {} is named twice", twice.name));
    }
    Ok(RegisterTools { session: request.session_id.into(), tools, client_name: request.worker_id.into(), worker })
}

fn registration(tool: pb::ToolRegistration) -> Result<WorkerTool, String> {
    let name = tool.name.trim();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-');
    if name.is_empty()
        || name.len() > MAX_NAME
        || !name.starts_with(|first: char| first.is_ascii_alphanumeric())
        || !name.chars().all(is_plain)
    {
        let shown: String = name.chars().take(MAX_NAME).collect();
        return Err(format!(
            "invalid_tool_name: `{shown}` is not 1 to {MAX_NAME} letters, digits, `_`, `.` and `-` after a letter or digit"
        ));
    }
    let bytes: usize = tool.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if tool.metadata.len() > MAX_TOOL_METADATA || bytes > MAX_TOOL_METADATA_BYTES {
        return Err(format!(
            "invalid_metadata: {name} has more than {MAX_TOOL_METADATA} entries or {MAX_TOOL_METADATA_BYTES} bytes of it"
        ));
    }
    let schema = parameters::schema_of(&tool.parameters);
    if tool.parameters.len() > MAX_TOOL_PARAMETERS || !is_at_most(&schema, MAX_SCHEMA) {
        return Err(format!(
            "invalid_parameters: {name} has more than {MAX_TOOL_PARAMETERS} of them or {MAX_SCHEMA} bytes of rules about them"
        ));
    }
    Ok(WorkerTool {
        name: name.into(),
        description: cut(&tool.description, MAX_DESCRIPTION).into(),
        input_schema: schema.into(),
        parameters: tool.parameters.iter().map(|parameter| parameter.name.as_str().into()).collect(),
        streams: tool.supports_streaming,
        metadata: tool.metadata,
    })
}

fn is_at_most(schema: &Value, bytes: usize) -> bool {
    schema.to_string().len() <= bytes
}

/// A call of a tool as it came in, whatever it came in as.
#[derive(Debug)]
pub(super) struct ToolCallRequest {
    pub(super) session: Arc<str>,
    pub(super) name: Arc<str>,
    parameters: BTreeMap<String, Any>,
    metadata: BTreeMap<String, String>,
    binary: BTreeMap<String, Bytes>,
}

impl From<pb::ExecuteToolRequest> for ToolCallRequest {
    /// `stream` is ignored: the RPC itself decides whether the result is streamed.
    fn from(request: pb::ExecuteToolRequest) -> Self {
        Self {
            session: request.session_id.into(),
            name: request.tool_name.into(),
            parameters: request.parameters,
            metadata: request.metadata,
            binary: request.binary_parameters,
        }
    }
}

impl From<pb::ExecuteElixirToolRequest> for ToolCallRequest {
    fn from(request: pb::ExecuteElixirToolRequest) -> Self {
        Self {
            session: request.session_id.into(),
            name: request.tool_name.into(),
            parameters: request.parameters,
            metadata: request.metadata,
            binary: BTreeMap::new(),
        }
    }
}

impl ToolCallRequest {
    /// Whether it contains pickled values, which a worker could only read by executing code.
    pub(super) fn is_pickled(&self) -> bool {
        self.metadata
            .iter()
            .any(|(key, value)| key.starts_with("binary_format:") && value.trim().eq_ignore_ascii_case("pickle"))
    }

    /// Total size of the parameters in bytes.
    pub(super) fn size(&self) -> usize {
        self.parameters.values().map(|any| any.value.len()).sum()
    }

    /// The caller's timeout; `None` if it sets none.
    pub(super) fn requested_timeout(&self, headers: &HeaderMap) -> Option<Duration> {
        let requested = self.metadata.get("timeout_ms").and_then(|text| text.trim().parse().ok());
        let requested = requested.filter(|&milliseconds| milliseconds > 0).map(Duration::from_millis);
        requested.into_iter().chain(deadline(headers)).min()
    }

    /// The call's correlation id; the header takes precedence over the metadata.
    pub(super) fn correlation(&self, headers: &HeaderMap) -> Option<Arc<str>> {
        let header = headers.get(CORRELATION_HEADER).and_then(|value| value.to_str().ok());
        let named = header.or_else(|| self.metadata.get("correlation_id").map(String::as_str))?;
        is_correlation_id(named).then(|| named.into())
    }

    /// Returns `Err` with the name of a parameter that cannot be decoded.
    pub(super) fn into_command(
        mut self,
        spec: &ToolSpec,
        filter: ToolFilter,
        options: CallOptions,
    ) -> Result<CallInSession, value::InvalidParameter> {
        self.parameters.retain(|name, _| !self.binary.contains_key(name));
        let properties = spec.input_schema.get("properties");
        let kind_of = |name: &str| {
            let declared_type = properties.and_then(|properties| properties.get(name)?.get("type"));
            match declared_type {
                Some(Value::String(kind)) if kind == "string" => ParameterKind::Text,
                Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "string") => ParameterKind::Text,
                _ => ParameterKind::Other,
            }
        };
        let arguments = value::decode_parameters(&self.parameters, kind_of)?;
        let CallOptions { correlation, trace, timeout, chunks } = options;
        let call_metadata = CallMetadata {
            session: self.session,
            metadata: self.metadata,
            binary: self.binary,
            correlation,
            trace,
            timeout: Some(timeout),
            chunks,
            for_model: false,
        };
        Ok(CallInSession {
            name: self.name,
            arguments: Arc::new(Value::Object(arguments)),
            filter,
            metadata: call_metadata,
        })
    }
}

/// Options of a call besides its message.
#[derive(Debug)]
pub(super) struct CallOptions {
    pub(super) correlation: Option<Arc<str>>,
    pub(super) trace: Option<Arc<str>>,
    pub(super) timeout: Duration,
    pub(super) chunks: Option<tokio::sync::mpsc::Sender<ToolChunk>>,
}

pub(super) fn trace_parent(headers: &HeaderMap) -> Option<Arc<str>> {
    traceparent(headers).map(Into::into)
}

/// The deadline of a gRPC client, parsed from `grpc-timeout`.
pub(super) fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

/// The largest reply that the client accepts. A worker's limit is low unless its header raises it.
pub(super) fn reply_limit(headers: &HeaderMap, worker: Option<&WorkerId>, largest: usize) -> usize {
    if worker.is_none() {
        return largest;
    }
    let requested =
        headers.get(MAX_REPLY_HEADER).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    requested.unwrap_or(DEFAULT_WORKER_REPLY_BYTES).min(largest)
}

/// The outcome of a call, common to both response messages.
#[derive(Debug, Default)]
pub(super) struct ToolCallOutcome {
    success: bool,
    result: Option<Any>,
    error_message: String,
    metadata: BTreeMap<String, String>,
    execution_time_ms: i64,
    binary_result: Bytes,
}

impl ToolCallOutcome {
    /// Converts the tool's output, or returns why the call failed.
    pub(super) fn from_output(output: ToolOutput, spec: &ToolSpec, took: Duration) -> Result<Self, ToolCallFailure> {
        let is_remote = spec.kind == ToolKind::Worker;
        let data = output.data.map(Arc::unwrap_or_clone).unwrap_or_default();
        let StructuredOutput { json, binary, mut metadata, fault } = data;
        match fault {
            // The worker lost its registration: to the client the tool does not exist.
            Some(ToolFault::NotFound) | None => {}
            // Reported like a parameter that cannot be decoded.
            Some(ToolFault::Argument) => return Err(ToolCallFailure::Response(output.content.to_string())),
            Some(fault) => return Err(ToolCallFailure::Status(error::fault_status(fault, &output.content))),
        }
        let milliseconds = took.as_millis();
        metadata.entry("execution_time".to_owned()).or_insert_with(|| milliseconds.to_string());
        let tool_type = if is_remote { "remote" } else { "local" };
        metadata.entry("tool_type".to_owned()).or_insert_with(|| tool_type.to_owned());
        let outcome =
            Self { metadata, execution_time_ms: i64::try_from(milliseconds).unwrap_or(i64::MAX), ..Self::default() };
        if output.is_error {
            let error_message = match is_remote {
                true => output.content.to_string(),
                false => format!("Tool execution failed: {}", output.content),
            };
            return Ok(Self { error_message, ..outcome });
        }
        let result = match (json, &binary) {
            (Some(json), _) => Some(value::encode_json(json)),
            // A binary result has no JSON result beside it.
            (None, Some(_)) => None,
            (None, None) => Some(value::encode(&Value::String(output.content.to_string()))),
        };
        Ok(Self { success: true, result, binary_result: binary.unwrap_or_default(), ..outcome })
    }

    pub(super) fn failed(error_message: String) -> Self {
        Self { error_message, ..Self::default() }
    }

    /// Approximate encoded size.
    pub(super) fn size(&self) -> usize {
        let metadata: usize = self.metadata.iter().map(|(key, value)| key.len() + value.len() + 16).sum();
        let result = self.result.as_ref().map_or(0, |any| any.value.len() + any.type_url.len());
        metadata + result + self.binary_result.len() + self.error_message.len() + 64
    }

    /// Replaces the outcome with an error if it exceeds the client's limit.
    pub(super) fn limited_to(self, limit: usize) -> Self {
        let size = self.size();
        if size <= limit {
            return self;
        }
        let error_message = format!(
            "Tool execution failed: the result of {size} bytes is too large for this connection, which takes {limit}"
        );
        Self { execution_time_ms: self.execution_time_ms, ..Self::failed(error_message) }
    }
}

impl From<ToolCallOutcome> for pb::ExecuteToolResponse {
    fn from(outcome: ToolCallOutcome) -> Self {
        let ToolCallOutcome { success, result, error_message, metadata, execution_time_ms, binary_result } = outcome;
        Self { success, result, error_message, metadata, execution_time_ms, binary_result }
    }
}

impl From<ToolCallOutcome> for pb::ExecuteElixirToolResponse {
    fn from(outcome: ToolCallOutcome) -> Self {
        let ToolCallOutcome { success, result, error_message, metadata, execution_time_ms, binary_result } = outcome;
        Self { success, result, error_message, metadata, execution_time_ms, binary_result }
    }
}

pub(super) fn chunk(chunk: ToolChunk) -> pb::ToolChunk {
    let ToolChunk { id, data, is_final, metadata } = chunk;
    pb::ToolChunk { chunk_id: id.to_string(), data, is_final, metadata }
}

/// Terminates a stream whose tool marked no chunk as final.
pub(super) fn last_chunk(sent: u64) -> pb::ToolChunk {
    let metadata = [("synthetic_final", "true".to_owned()), ("chunks_sent", sent.to_string())];
    pb::ToolChunk {
        chunk_id: format!("sp-final-{}", sent + 1),
        data: Bytes::new(),
        is_final: true,
        metadata: metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    }
}

/// Applies a control message to a subscription's filter. Returns whether it was switched on or off; `Err` is an error
/// text.
pub(super) fn apply_control(message: pb::TelemetryControl, filter: &mut EventFilter) -> Result<Option<bool>, String> {
    let done = match message.control {
        None => return Ok(None),
        Some(pb::telemetry_control::Control::Toggle(pb::TelemetryToggle { enabled })) => {
            filter.set_enabled(enabled);
            return Ok(Some(enabled));
        }
        Some(pb::telemetry_control::Control::Sampling(update)) => {
            filter.set_sampling(update.sampling_rate, globs(update.event_patterns)?)
        }
        Some(pb::telemetry_control::Control::Filter(patterns)) => {
            filter.set_patterns(globs(patterns.allow)?, globs(patterns.deny)?)
        }
    };
    done.map(|()| None).map_err(|error| error.to_string())
}

fn globs(patterns: Vec<String>) -> Result<Vec<Glob>, String> {
    let glob = |pattern: String| match pattern.len() {
        1..=MAX_PATTERN => Ok(Glob::new(pattern)),
        _ => Err(format!("a pattern has 1 to {MAX_PATTERN} bytes")),
    };
    patterns.into_iter().map(glob).collect()
}

pub(super) fn telemetry_event(event: &TelemetryEvent, node: &str) -> pb::TelemetryEvent {
    let measure = |measure: &MeasuredValue| pb::TelemetryValue {
        value: Some(match measure {
            MeasuredValue::Int(number) => pb::telemetry_value::Value::IntValue(*number),
            MeasuredValue::Float(number) => pb::telemetry_value::Value::FloatValue(*number),
            MeasuredValue::Text(text) => pb::telemetry_value::Value::StringValue(text.to_string()),
        }),
    };
    let mut metadata: BTreeMap<String, String> =
        event.metadata.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    metadata.entry("node".to_owned()).or_insert_with(|| node.to_owned());
    pb::TelemetryEvent {
        event_parts: event.name.split('.').map(str::to_owned).collect(),
        measurements: event.measures.iter().map(|(key, value)| (key.to_string(), measure(value))).collect(),
        metadata,
        timestamp_ns: i64::try_from(event.at.as_nanosecond()).unwrap_or(i64::MAX),
        correlation_id: event.correlation.as_deref().unwrap_or_default().to_owned(),
    }
}

/// Reports to a slow subscriber how many events it missed.
pub(super) fn dropped_events(count: u64, at: Timestamp) -> TelemetryEvent {
    TelemetryEvent::new("telemetry.dropped", at)
        .with_measure("count", MeasuredValue::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests;
