//! `[telemetry]`: metrics and traces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Metrics and traces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// Serve Prometheus metrics at `/metrics` on the gateway.
    pub metrics: bool,
    /// OTLP endpoint that traces are sent to over HTTP. Left out, none are sent.
    #[schemars(example = &"http://127.0.0.1:4318", extend("x-kind" = "url"))]
    pub otlp_endpoint: Option<String>,
    /// Name of this server in traces.
    pub service_name: String,
    /// Share of traces that are sent.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub sample_ratio: f64,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { metrics: true, otlp_endpoint: None, service_name: "patchboard".to_owned(), sample_ratio: 1.0 }
    }
}
