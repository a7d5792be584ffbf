//! Counts calls by method and status. Each counter is looked up once and cached.

use std::sync::OnceLock;

use axum::http::HeaderMap;
use metrics::Counter;
use tonic::Code;

use crate::telemetry;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RpcMethod {
    Ping,
    InitializeSession,
    CleanupSession,
    GetSession,
    Heartbeat,
    ExecuteTool,
    ExecuteStreamingTool,
    RegisterTools,
    GetExposedElixirTools,
    ExecuteElixirTool,
    StreamTelemetry,
    Unknown,
}

/// As in the service definition, in the order of `RpcMethod`.
const METHOD_NAMES: [&str; 12] = [
    "Ping",
    "InitializeSession",
    "CleanupSession",
    "GetSession",
    "Heartbeat",
    "ExecuteTool",
    "ExecuteStreamingTool",
    "RegisterTools",
    "GetExposedElixirTools",
    "ExecuteElixirTool",
    "StreamTelemetry",
    "other",
];

/// In the order of the numeric codes.
const CODE_NAMES: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

impl RpcMethod {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "Ping" => Self::Ping,
            "InitializeSession" => Self::InitializeSession,
            "CleanupSession" => Self::CleanupSession,
            "GetSession" => Self::GetSession,
            "Heartbeat" => Self::Heartbeat,
            "ExecuteTool" => Self::ExecuteTool,
            "ExecuteStreamingTool" => Self::ExecuteStreamingTool,
            "RegisterTools" => Self::RegisterTools,
            "GetExposedElixirTools" => Self::GetExposedElixirTools,
            "ExecuteElixirTool" => Self::ExecuteElixirTool,
            "StreamTelemetry" => Self::StreamTelemetry,
            _ => Self::Unknown,
        }
    }
}

/// How a call ended, or that it is still streaming, when its response begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RpcOutcome {
    Ended(Code),
    /// Counted at the end of the stream.
    Streaming,
}

impl RpcOutcome {
    /// A failed call has its status in the response headers.
    pub(super) fn of(headers: &HeaderMap, method: RpcMethod) -> Self {
        match headers.get("grpc-status") {
            Some(code) => Self::Ended(Code::from_bytes(code.as_bytes())),
            None if matches!(method, RpcMethod::ExecuteStreamingTool | RpcMethod::StreamTelemetry) => Self::Streaming,
            None => Self::Ended(Code::Ok),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct RpcCounters {
    counters: [[OnceLock<Counter>; CODE_NAMES.len()]; METHOD_NAMES.len()],
}

impl RpcCounters {
    pub(super) fn count(&self, method: RpcMethod, outcome: RpcOutcome) {
        let RpcOutcome::Ended(code) = outcome else { return };
        let (row, column) = (method as usize, code as usize);
        let counter = self.counters.get(row).and_then(|codes| codes.get(column));
        let names = METHOD_NAMES.get(row).zip(CODE_NAMES.get(column));
        if let (Some(counter), Some((method, code))) = (counter, names) {
            counter.get_or_init(|| telemetry::rpcs(method, code)).increment(1);
        }
    }
}

#[cfg(test)]
mod tests;
