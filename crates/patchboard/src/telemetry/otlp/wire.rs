//! OTLP's JSON: ids in hexadecimal, 64-bit integers as strings.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;

use super::{AttributeValue, FinishedSpan};
use crate::telemetry::Redactor;

/// The resource attributes of this process.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) service: String,
    pub(super) version: &'static str,
    /// Differs with every start.
    pub(super) instance: String,
}

/// The body of one request. Secrets are redacted in every text.
pub(super) fn encode(resource: &Resource, spans: &[FinishedSpan], redactor: &Redactor) -> Vec<u8> {
    let text = |key, text: &'static str| KeyValue { key, value: AnyValue::String(text.into()) };
    let about = vec![
        KeyValue { key: "service.name", value: AnyValue::String(resource.service.as_str().into()) },
        text("service.version", resource.version),
        KeyValue { key: "service.instance.id", value: AnyValue::String(resource.instance.as_str().into()) },
        text("telemetry.sdk.name", "patchboard"),
        text("telemetry.sdk.language", "rust"),
        text("telemetry.sdk.version", resource.version),
    ];
    let body = ExportBody {
        resource_spans: [ResourceSpans {
            resource: ResourceAttributes { attributes: about },
            scope_spans: [ScopeSpans {
                scope: InstrumentationScope { name: "patchboard", version: resource.version },
                spans: spans.iter().map(|span| SpanBody::of(span, redactor)).collect(),
            }],
        }],
    };
    // Serialisation cannot fail: all keys are strings.
    serde_json::to_vec(&body).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportBody<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: ResourceAttributes<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct ResourceAttributes<'a> {
    attributes: Vec<KeyValue<'a>>,
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: InstrumentationScope,
    spans: Vec<SpanBody<'a>>,
}

#[derive(Serialize)]
struct InstrumentationScope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpanBody<'a> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    flags: u32,
    name: Cow<'a, str>,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<KeyValue<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<SpanStatus<'a>>,
}

/// Only sampled spans are sent.
const SAMPLED: u32 = 1;

impl<'a> SpanBody<'a> {
    fn of(span: &'a FinishedSpan, redactor: &Redactor) -> Self {
        let attributes = span.attributes.iter().map(|(key, value)| KeyValue {
            key,
            value: match value {
                AttributeValue::Text(text) => AnyValue::String(redactor.redact_text(text)),
                AttributeValue::Int(number) => AnyValue::Int(number.to_string()),
                AttributeValue::Float(number) => AnyValue::Double(*number),
                AttributeValue::Bool(flag) => AnyValue::Bool(*flag),
            },
        });
        Self {
            trace_id: hex::encode(span.trace),
            span_id: hex::encode(span.span),
            parent_span_id: span.parent.map(hex::encode),
            flags: SAMPLED,
            name: redactor.redact_text(&span.name),
            kind: span.kind as u8,
            start_time_unix_nano: unix_nanos(span.start),
            end_time_unix_nano: unix_nanos(span.end),
            attributes: attributes.collect(),
            status: span
                .error
                .as_deref()
                .map(|error| SpanStatus { code: SpanStatus::ERROR, message: redactor.redact_text(error) }),
        }
    }
}

#[derive(Serialize)]
struct SpanStatus<'a> {
    code: u8,
    message: Cow<'a, str>,
}

impl SpanStatus<'_> {
    const ERROR: u8 = 2;
}

#[derive(Serialize)]
struct KeyValue<'a> {
    key: &'a str,
    value: AnyValue<'a>,
}

#[derive(Serialize)]
enum AnyValue<'a> {
    #[serde(rename = "stringValue")]
    String(Cow<'a, str>),
    #[serde(rename = "intValue")]
    Int(String),
    #[serde(rename = "doubleValue")]
    Double(f64),
    #[serde(rename = "boolValue")]
    Bool(bool),
}

/// Times before 1970 are none.
fn unix_nanos(at: Timestamp) -> String {
    at.as_nanosecond().max(0).to_string()
}

#[cfg(test)]
mod tests;
