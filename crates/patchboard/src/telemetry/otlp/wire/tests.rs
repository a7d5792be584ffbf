use std::borrow::Cow;

use serde_json::json;

use super::*;
use crate::telemetry::otlp::TraceSpanKind;

fn resource() -> Resource {
    Resource { service: "patchboard".to_owned(), version: "1.2.3", instance: "one".to_owned() }
}

fn span() -> FinishedSpan {
    FinishedSpan {
        trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes(),
        span: 0xb7ad_6b71_6920_3331_u64.to_be_bytes(),
        parent: None,
        name: Cow::Borrowed("request"),
        kind: TraceSpanKind::Server,
        start: "2026-11-15T12:00:00.000000001Z".parse().unwrap(),
        end: "2026-11-15T12:00:01.5Z".parse().unwrap(),
        attributes: Vec::new(),
        error: None,
    }
}

fn encoded(spans: &[FinishedSpan], redactor: &Redactor) -> serde_json::Value {
    serde_json::from_slice(&encode(&resource(), spans, redactor)).unwrap()
}

#[test]
fn a_whole_request() {
    let failed = FinishedSpan {
        span: 2_u64.to_be_bytes(),
        parent: Some(span().span),
        name: Cow::Owned("worker add".to_owned()),
        kind: TraceSpanKind::Client,
        attributes: vec![
            ("tool.name", AttributeValue::text("add")),
            ("tokens.input", AttributeValue::Int(i64::MAX)),
            ("share", AttributeValue::Float(0.5)),
            ("cached", AttributeValue::Bool(true)),
        ],
        error: Some("timeout".to_owned()),
        ..span()
    };
    let expected = json!({
        "resourceSpans": [{
            "resource": {"attributes": [
                {"key": "service.name", "value": {"stringValue": "patchboard"}},
                {"key": "service.version", "value": {"stringValue": "1.2.3"}},
                {"key": "service.instance.id", "value": {"stringValue": "one"}},
                {"key": "telemetry.sdk.name", "value": {"stringValue": "patchboard"}},
                {"key": "telemetry.sdk.language", "value": {"stringValue": "rust"}},
                {"key": "telemetry.sdk.version", "value": {"stringValue": "1.2.3"}},
            ]},
            "scopeSpans": [{
                "scope": {"name": "patchboard", "version": "1.2.3"},
                "spans": [
                    {
                        "traceId": "0af7651916cd43dd8448eb211c80319c",
                        "spanId": "b7ad6b7169203331",
                        "flags": 1,
                        "name": "request",
                        "kind": 2,
                        "startTimeUnixNano": "1794744000000000001",
                        "endTimeUnixNano": "1794744001500000000",
                        "attributes": [],
                    },
                    {
                        "traceId": "0af7651916cd43dd8448eb211c80319c",
                        "spanId": "0000000000000002",
                        "parentSpanId": "b7ad6b7169203331",
                        "flags": 1,
                        "name": "worker add",
                        "kind": 3,
                        "startTimeUnixNano": "1794744000000000001",
                        "endTimeUnixNano": "1794744001500000000",
                        "attributes": [
                            {"key": "tool.name", "value": {"stringValue": "add"}},
                            {"key": "tokens.input", "value": {"intValue": "9223372036854775807"}},
                            {"key": "share", "value": {"doubleValue": 0.5}},
                            {"key": "cached", "value": {"boolValue": true}},
                        ],
                        "status": {"code": 2, "message": "timeout"},
                    },
                ],
            }],
        }],
    });
    assert_eq!(encoded(&[span(), failed], &Redactor::default()), expected);
}

#[test]
fn secrets_are_cut_out_of_every_text() {
    let redactor = Redactor::default();
    redactor.add_secrets([&"hush-\"1234\"".into()]);
    let secret = "x hush-\"1234\" sk-abcdefgh12345 y";
    let spans = [FinishedSpan {
        name: Cow::Owned(format!("worker {secret}")),
        attributes: vec![("tool.name", AttributeValue::text(secret))],
        error: Some(secret.to_owned()),
        ..span()
    }];
    let encoded = encoded(&spans, &redactor);
    let sent = encoded.pointer("/resourceSpans/0/scopeSpans/0/spans/0").unwrap();
    let clean = "x [redacted] sk-[redacted] y";
    assert_eq!(sent["name"], format!("worker {clean}"));
    assert_eq!(sent["attributes"][0]["value"]["stringValue"], clean);
    assert_eq!(sent["status"]["message"], clean);
}

#[test]
fn times_before_all_times() {
    assert_eq!(unix_nanos(Timestamp::MIN), "0");
    assert_eq!(unix_nanos(Timestamp::MAX).len(), 21);
}
