//! The JSON of OTLP: ids in hexadecimal, 64-bit numbers as text.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;

use super::{FinishedSpan, Value};
use crate::telemetry::Redactor;

/// Who says all this.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) service: String,
    pub(super) version: &'static str,
    /// Differs from start to start.
    pub(super) instance: String,
}

/// The body of one request. Secrets are cut out of every text.
pub(super) fn encode(resource: &Resource, spans: &[FinishedSpan], redactor: &Redactor) -> Vec<u8> {
    let text = |key, text: &'static str| Attribute { key, value: Any::String(text.into()) };
    let about = vec![
        Attribute { key: "service.name", value: Any::String(resource.service.as_str().into()) },
        text("service.version", resource.version),
        Attribute { key: "service.instance.id", value: Any::String(resource.instance.as_str().into()) },
        text("telemetry.sdk.name", "patchboard"),
        text("telemetry.sdk.language", "rust"),
        text("telemetry.sdk.version", resource.version),
    ];
    let body = Export {
        resource_spans: [ResourceSpans {
            resource: About { attributes: about },
            scope_spans: [ScopeSpans {
                scope: Scope { name: "patchboard", version: resource.version },
                spans: spans.iter().map(|span| Span::of(span, redactor)).collect(),
            }],
        }],
    };
    // Nothing here can fail to be written: all keys are text.
    serde_json::to_vec(&body).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Export<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: About<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct About<'a> {
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: Vec<Span<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    flags: u32,
    name: Cow<'a, str>,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
}

/// Only spans that are kept are sent.
const SAMPLED: u32 = 1;

impl<'a> Span<'a> {
    fn of(span: &'a FinishedSpan, redactor: &Redactor) -> Self {
        let attributes = span.attributes.iter().map(|(key, value)| Attribute {
            key,
            value: match value {
                Value::Text(text) => Any::String(redactor.redact_text(text)),
                Value::Int(number) => Any::Int(number.to_string()),
                Value::Float(number) => Any::Double(*number),
                Value::Bool(flag) => Any::Bool(*flag),
            },
        });
        Self {
            trace_id: hex(&span.trace),
            span_id: hex(&span.span),
            parent_span_id: span.parent.map(|parent| hex(&parent)),
            flags: SAMPLED,
            name: redactor.redact_text(&span.name),
            kind: span.kind as u8,
            start_time_unix_nano: nanoseconds(span.start),
            end_time_unix_nano: nanoseconds(span.end),
            attributes: attributes.collect(),
            status: span
                .error
                .as_deref()
                .map(|error| Status { code: Status::ERROR, message: redactor.redact_text(error) }),
        }
    }
}

#[derive(Serialize)]
struct Status<'a> {
    code: u8,
    message: Cow<'a, str>,
}

impl Status<'_> {
    const ERROR: u8 = 2;
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: Any<'a>,
}

#[derive(Serialize)]
enum Any<'a> {
    #[serde(rename = "stringValue")]
    String(Cow<'a, str>),
    #[serde(rename = "intValue")]
    Int(String),
    #[serde(rename = "doubleValue")]
    Double(f64),
    #[serde(rename = "boolValue")]
    Bool(bool),
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |half: u8| DIGITS.get(usize::from(half)).copied().unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Times before 1970 are none.
fn nanoseconds(at: Timestamp) -> String {
    at.as_nanosecond().max(0).to_string()
}

#[cfg(test)]
mod tests;
