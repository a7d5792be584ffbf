use patchboard_core::tool::{ToolFault, ToolTraits, UnknownOutcomePolicy};
use serde_json::json;

use super::*;

fn spec(name: &str, kind: ToolKind, schema: Value) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("it {name}").into(),
        input_schema: schema.into(),
        effect: ToolEffect::ReadOnly,
        unknown_outcome: UnknownOutcomePolicy::Retry,
        timeout: None,
        kind,
        traits: None,
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn call_request(metadata: &[(&str, &str)]) -> ToolCallRequest {
    ToolCallRequest::from(pb::ExecuteToolRequest {
        metadata: metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..pb::ExecuteToolRequest::default()
    })
}

#[test]
fn the_time_a_client_leaves() {
    let cases = [
        ("1S", Some(Duration::from_secs(1))),
        ("250m", Some(Duration::from_millis(250))),
        ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
        ("2M", Some(Duration::from_secs(120))),
        ("7u", Some(Duration::from_micros(7))),
        ("0n", Some(Duration::ZERO)),
        ("123456789S", None),
        ("S", None),
        ("", None),
        ("+1S", None),
        ("1x", None),
        ("1", None),
    ];
    for (text, expected) in cases {
        assert_eq!(deadline(&headers(&[("grpc-timeout", text)])), expected, "{text}");
    }
    assert_eq!(deadline(&HeaderMap::new()), None);
}

#[test]
fn the_smallest_patience_counts() {
    let one_second = headers(&[("grpc-timeout", "1S")]);
    let cases = [
        (call_request(&[]), &HeaderMap::new(), None),
        (call_request(&[("timeout_ms", "1500")]), &HeaderMap::new(), Some(1500)),
        (call_request(&[("timeout_ms", "1500")]), &one_second, Some(1000)),
        (call_request(&[("timeout_ms", "500")]), &one_second, Some(500)),
        (call_request(&[("timeout_ms", "0")]), &one_second, Some(1000)),
        (call_request(&[("timeout_ms", "soon")]), &HeaderMap::new(), None),
        (call_request(&[("timeout_ms", "-5")]), &HeaderMap::new(), None),
    ];
    for (call_request, headers, expected) in cases {
        assert_eq!(call_request.requested_timeout(headers), expected.map(Duration::from_millis), "{call_request:?}");
    }
}

#[test]
fn a_correlation_id_is_the_header_s_or_the_metadata_s() {
    let header = headers(&[(CORRELATION_HEADER, "sp-1")]);
    let metadata = call_request(&[("correlation_id", "from-metadata")]);
    assert_eq!(metadata.correlation(&header).as_deref(), Some("sp-1"));
    assert_eq!(metadata.correlation(&HeaderMap::new()).as_deref(), Some("from-metadata"));
    assert_eq!(call_request(&[]).correlation(&HeaderMap::new()), None);
    for odd in ["", "a\nb", "ü", &"x".repeat(257)] {
        assert_eq!(call_request(&[("correlation_id", odd)]).correlation(&HeaderMap::new()), None, "{odd}");
    }
    let long = "x".repeat(230);
    assert_eq!(
        call_request(&[("correlation_id", &long)]).correlation(&HeaderMap::new()).as_deref(),
        Some(long.as_str())
    );
}

#[test]
fn pickle_is_noticed_however_it_is_written() {
    for (metadata, expected) in [
        (vec![("binary_format:data", "pickle")], true),
        (vec![("binary_format:data", " PICKLE ")], true),
        (vec![("binary_format:data", "npy"), ("binary_format:other", "Pickle")], true),
        (vec![("binary_format:data", "npy")], false),
        (vec![("format", "pickle")], false),
    ] {
        assert_eq!(call_request(&metadata).is_pickled(), expected, "{metadata:?}");
    }
}

#[test]
fn parameters_become_arguments_and_bytes_stand_before_them() {
    let packed = |text: &str| {
        let mut value = vec![0x0a, u8::try_from(text.len()).unwrap()];
        value.extend(text.as_bytes());
        Any { type_url: "type.googleapis.com/google.protobuf.StringValue".to_owned(), value }
    };
    let request = pb::ExecuteToolRequest {
        session_id: "s".to_owned(),
        tool_name: "t".to_owned(),
        parameters: [
            ("text", packed("[1]")),
            ("maybe", packed("{}")),
            ("list", packed("[1]")),
            ("raw", value::encode_json("12345678901234567890".as_bytes())),
            ("data", value::encode_json("{not json".as_bytes())),
        ]
        .map(|(name, any)| (name.to_owned(), any))
        .into(),
        binary_parameters: [("data".to_owned(), Bytes::from_static(b"\x00\xff"))].into(),
        ..pb::ExecuteToolRequest::default()
    };
    let schema = json!({"properties": {
        "text": {"type": "string"}, "maybe": {"type": ["string", "null"]}, "list": {"type": "array"},
    }});
    let options = CallOptions { correlation: None, trace: None, timeout: Duration::from_secs(1), chunks: None };
    let call = ToolCallRequest::from(request)
        .into_command(&spec("t", ToolKind::Worker, schema), ToolFilter::All, options)
        .unwrap();
    let arguments = json!({"text": "[1]", "maybe": "{}", "list": [1], "raw": 12_345_678_901_234_567_890_u64});
    assert_eq!(*call.arguments, arguments);
    assert_eq!(call.metadata.binary["data"], Bytes::from_static(b"\x00\xff"));
    assert_eq!((&*call.metadata.session, &*call.name), ("s", "t"));
    assert_eq!(call.metadata.timeout, Some(Duration::from_secs(1)));
}

#[test]
fn what_a_tool_answered_and_how_it_is_told() {
    let took = Duration::from_millis(12);
    let remote = spec("t", ToolKind::Worker, json!({}));
    let local = spec("t", ToolKind::BuiltIn, json!({}));
    let data = |data: StructuredOutput| ToolOutput::ok("").with_structured(data);
    let outcome_of = |output: ToolOutput, spec: &ToolSpec| {
        pb::ExecuteToolResponse::from(ToolCallOutcome::from_output(output, spec, took).unwrap())
    };

    let json = outcome_of(
        data(StructuredOutput { json: Some(Bytes::from_static(b"9007199254740993")), ..StructuredOutput::default() }),
        &remote,
    );
    assert_eq!(
        json.result.unwrap(),
        Any { type_url: "type.snakepit.bridge/json".to_owned(), value: b"9007199254740993".to_vec() }
    );
    assert_eq!(json.metadata["tool_type"], "remote");
    assert_eq!((json.success, json.execution_time_ms, json.metadata["execution_time"].as_str()), (true, 12, "12"));

    let text = outcome_of(ToolOutput::ok("say \"hi\""), &local);
    assert_eq!(text.result.unwrap().value, br#""say \"hi\"""#);
    assert_eq!(text.metadata["tool_type"], "local");

    let metadata = BTreeMap::from([("content_type".to_owned(), "application/x-npy".to_owned())]);
    let binary = outcome_of(
        data(StructuredOutput {
            binary: Some(Bytes::from_static(b"\x93NUMPY")),
            metadata,
            ..StructuredOutput::default()
        }),
        &remote,
    );
    assert_eq!((binary.result, &binary.binary_result[..]), (None, &b"\x93NUMPY"[..]));
    assert_eq!(binary.metadata["content_type"], "application/x-npy");

    let failed = outcome_of(ToolOutput::error(r#"{"type":"ValueError"}"#), &remote);
    assert_eq!(
        (failed.success, failed.result, failed.error_message.as_str()),
        (false, None, r#"{"type":"ValueError"}"#)
    );
    assert_eq!(outcome_of(ToolOutput::error("no luck"), &local).error_message, "Tool execution failed: no luck");
    assert_eq!(
        outcome_of(ToolOutput::fault(ToolFault::NotFound, "no such tool"), &remote).error_message,
        "no such tool"
    );

    // In the bridge's type names, whichever program provides the tool.
    for spec in [&remote, &local] {
        let unfit =
            ToolCallOutcome::from_output(ToolOutput::fault(ToolFault::Argument, "Invalid parameter a: no"), spec, took);
        let Err(ToolCallFailure::Response(words)) = unfit else { panic!("an argument that does not fit went through") };
        assert_eq!(words, "Invalid parameter a: no");
    }

    let Err(ToolCallFailure::Status(status)) =
        ToolCallOutcome::from_output(ToolOutput::fault(ToolFault::Unavailable, "gone"), &remote, took)
    else {
        panic!("a worker that is gone answered");
    };
    assert_eq!((status.code(), status.message()), (tonic::Code::Unavailable, "gone"));
}

#[test]
fn an_answer_that_is_too_large_says_so() {
    let output = ToolOutput::json(&json!("x".repeat(5000)));
    let outcome =
        ToolCallOutcome::from_output(output, &spec("t", ToolKind::Worker, json!({})), Duration::ZERO).unwrap();
    let small = pb::ExecuteToolResponse::from(outcome.limited_to(4000));
    assert!(!small.success && small.result.is_none());
    assert!(
        small.error_message.contains("too large") && small.error_message.contains("4000"),
        "{}",
        small.error_message
    );
}

#[test]
fn lists_fit_whoever_asked() {
    let tools: Vec<ToolSpec> = (0..100)
        .map(|number| {
            let mut tool = spec(
                &format!("t{number}"),
                ToolKind::Worker,
                json!({"properties": {"a": {"description": "y".repeat(50)}}}),
            );
            tool.description = "x".repeat(100).into();
            tool
        })
        .collect();
    let all = host_tools(&tools, usize::MAX);
    assert_eq!((all.tools.len(), all.tools[0].description.len()), (100, 100));
    let limit = all.encoded_len() * 2 / 3;
    let bare = host_tools(&tools, limit);
    assert_eq!((bare.tools.len(), bare.tools[0].description.as_str()), (100, ""));
    assert_eq!(bare.tools[0].parameters[0].description, "");
    assert!(bare.encoded_len() <= limit);
    let cut = session_opened(&tools, 2000);
    assert!((1..100).contains(&cut.available_tools.len()) && cut.encoded_len() <= 2000, "{}", cut.encoded_len());
}

#[test]
fn workers_get_little_unless_they_ask() {
    let worker = WorkerId("w".into());
    let ask = |text: &str| headers(&[(MAX_REPLY_HEADER, text)]);
    let cases = [
        (HeaderMap::new(), None, 1 << 20, 1 << 20),
        (HeaderMap::new(), Some(&worker), 100 << 20, (4 << 20) - 1),
        (HeaderMap::new(), Some(&worker), 1 << 20, 1 << 20),
        (ask("50000000"), Some(&worker), 100 << 20, 50_000_000),
        (ask("5000000000"), Some(&worker), 100 << 20, 100 << 20),
        (ask("lots"), Some(&worker), 100 << 20, (4 << 20) - 1),
        (ask("10"), None, 1 << 20, 1 << 20),
    ];
    for (headers, worker, largest, expected) in cases {
        assert_eq!(reply_limit(&headers, worker, largest), expected);
    }
}

#[test]
fn tools_that_cannot_be_registered() {
    let named = |name: &str| pb::ToolRegistration { name: name.to_owned(), ..pb::ToolRegistration::default() };
    let refused = |tools: Vec<pb::ToolRegistration>| {
        let request = pb::RegisterToolsRequest { session_id: "s".to_owned(), tools, worker_id: "w".to_owned() };
        register(request, None).map(|call_request| call_request.tools.len())
    };
    for good in ["a", "9", "a.b-c_d", " padded ", &"x".repeat(64)] {
        assert_eq!(refused(vec![named(good)]), Ok(1), "{good}");
    }
    for bad in ["", "  ", "_a", ".a", "a b", "ä", "a/b", &"x".repeat(65)] {
        assert!(refused(vec![named(bad)]).unwrap_err().starts_with("invalid_tool_name"), "{bad}");
    }
    assert!(refused(vec![named("a"), named(" a")]).unwrap_err().contains("duplicate_tool"));
    assert!(refused((0..1001).map(|number| named(&format!("t{number}"))).collect()).unwrap_err().contains("too many"));
    let with = |metadata: BTreeMap<String, String>| pb::ToolRegistration { metadata, ..named("a") };
    let entries = |count: usize, size: usize| (0..count).map(|key| (key.to_string(), "x".repeat(size))).collect();
    assert_eq!(refused(vec![with(entries(32, 100))]), Ok(1));
    assert!(refused(vec![with(entries(33, 1))]).unwrap_err().starts_with("invalid_metadata"));
    assert!(refused(vec![with(entries(1, 4096))]).unwrap_err().starts_with("invalid_metadata"));
    let wide = vec![pb::ParameterSpec::default(); 230];
    assert_eq!(refused(vec![pb::ToolRegistration { parameters: wide, ..named("a") }]), Ok(1));
    let parameters = vec![pb::ParameterSpec::default(); 257];
    assert!(
        refused(vec![pb::ToolRegistration { parameters, ..named("a") }]).unwrap_err().starts_with("invalid_parameters")
    );
}

#[test]
fn a_long_description_is_cut_between_characters() {
    let description = "ü".repeat(MAX_DESCRIPTION);
    let tool = pb::ToolRegistration { name: "a".to_owned(), description, ..pb::ToolRegistration::default() };
    assert_eq!(registration(tool).unwrap().description.len(), MAX_DESCRIPTION);
    assert_eq!(cut("aü", 2), "a");
}

#[test]
fn tools_are_told_with_what_is_known_about_them() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    let mut worker = spec("t", ToolKind::Worker, schema.clone());
    worker.traits = Some(Arc::new(ToolTraits {
        streams: true,
        parameters: Vec::new(),
        cacheable: false,
        metadata: BTreeMap::from([("version".to_owned(), "2".to_owned())]),
    }));
    let described = tool(&worker);
    assert_eq!((described.name.as_str(), described.supports_streaming), ("t", true));
    assert_eq!(described.metadata, BTreeMap::from([("version".to_owned(), "2".to_owned())]));
    assert_eq!((described.parameters[0].name.as_str(), described.parameters[0].r#type.as_str()), ("a", "integer"));
    let host = tool(&spec("t", ToolKind::Mcp, schema)).metadata;
    assert_eq!(
        host,
        BTreeMap::from([("kind", "mcp"), ("read_only", "true")].map(|(key, value)| (key.to_owned(), value.to_owned())))
    );
}

#[test]
fn signals_are_told_in_parts() {
    let at = Timestamp::from_nanosecond(1_794_744_000_000_000_123).unwrap();
    let signal = TelemetryEvent::new("tool.execution.stop", at)
        .with_measure("duration", MeasuredValue::Int(5))
        .with_measure("share", MeasuredValue::Float(0.5))
        .with_measure("word", MeasuredValue::Text("x".into()))
        .with_metadata("tool", "t")
        .with_correlation(Some("c".into()));
    let event = telemetry_event(&signal, "here");
    assert_eq!(event.event_parts, ["tool", "execution", "stop"]);
    assert_eq!((event.timestamp_ns, event.correlation_id.as_str()), (1_794_744_000_000_000_123, "c"));
    assert_eq!((event.metadata["tool"].as_str(), event.metadata["node"].as_str()), ("t", "here"));
    let int = pb::TelemetryValue { value: Some(pb::telemetry_value::Value::IntValue(5)) };
    assert_eq!((event.measurements.len(), &event.measurements["duration"]), (3, &int));
}

#[test]
fn times_before_1970_have_positive_nanoseconds() {
    let at = Timestamp::from_nanosecond(-1).unwrap();
    assert_eq!(timestamp(at), patchboard_proto::Timestamp { seconds: -1, nanos: 999_999_999 });
    let at = Timestamp::from_nanosecond(1_500_000_000).unwrap();
    assert_eq!(timestamp(at), patchboard_proto::Timestamp { seconds: 1, nanos: 500_000_000 });
}

#[test]
fn listeners_may_not_name_endless_patterns() {
    use pb::telemetry_control::Control;
    let mut filter = EventFilter::default();
    let mut ask = |control| super::apply_control(pb::TelemetryControl { control }, &mut filter);
    let many = |count: usize| (0..count).map(|number| format!("p{number}.*")).collect();
    assert_eq!(ask(None), Ok(None));
    assert_eq!(ask(Some(Control::Toggle(pb::TelemetryToggle { enabled: true }))), Ok(Some(true)));
    let filter = |allow: Vec<String>| Some(Control::Filter(pb::TelemetryEventFilter { allow, deny: Vec::new() }));
    assert_eq!(ask(filter(many(256))), Ok(None));
    assert!(ask(filter(many(257))).is_err());
    assert!(ask(filter(vec![String::new()])).is_err());
    assert!(ask(filter(vec!["x".repeat(257)])).is_err());
}
