use patchboard_core::model::{MessageRole, ModelMessage, ToolCall, ToolResult};
use serde_json::json;

use super::*;

fn call(id: &str) -> ContentPart {
    let input = ToolInput::Json(Arc::new(json!({})));
    ContentPart::ToolCall(ToolCall { id: CallId(id.into()), name: "tool".into(), input })
}

fn result(id: &str) -> ContentPart {
    ContentPart::ToolResult(ToolResult {
        call: CallId(id.into()),
        name: "tool".into(),
        content: "".into(),
        is_error: false,
    })
}

#[test]
fn calls_are_numbered_in_order_and_results_find_them() {
    let request = ModelRequest {
        model: "".into(),
        system: "".into(),
        messages: vec![
            ModelMessage { role: MessageRole::Assistant, parts: vec![call("one"), call("two")] },
            ModelMessage { role: MessageRole::User, parts: vec![result("two"), result("one")] },
        ],
        tools: Arc::new([]),
        max_tokens: 1,
        temperature: None,
    };
    let numbers = CallNumbers::of(&request);
    assert_eq!(serde_json::to_value(numbers.wire_id(&CallId("one".into()))).unwrap(), json!("call00001"));
    assert_eq!(serde_json::to_value(numbers.wire_id(&CallId("two".into()))).unwrap(), json!("call00002"));
}

#[test]
fn arguments() {
    let json = |value: Value| ToolInput::Json(Arc::new(value));
    for (text, expected) in [
        ("", json(json!({}))),
        (" \n", json(json!({}))),
        ("null", json(json!({}))),
        ("{\"a\": [1, 2.5]}", json(json!({"a": [1, 2.5]}))),
        ("\"{\\\"a\\\":1}\"", json(json!({"a": 1}))),
        ("\"plain\"", json(json!("plain"))),
        ("[1]", json(json!([1]))),
        ("{\"a\": ", ToolInput::Malformed("{\"a\": ".into())),
        ("{} {}", ToolInput::Malformed("{} {}".into())),
    ] {
        assert_eq!(parse_arguments(text), expected, "{text:?}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(parse_arguments(&deep), ToolInput::Malformed(deep.as_str().into()));
}

#[test]
fn past_input_is_always_an_object() {
    for (input, expected) in [
        (ToolInput::Json(Arc::new(json!({"a": 1}))), json!({"a": 1})),
        (ToolInput::Json(Arc::new(json!([1]))), json!({"malformed_arguments": "[1]"})),
        (ToolInput::Malformed("{\"a\"".into()), json!({"malformed_arguments": "{\"a\""})),
    ] {
        assert_eq!(serde_json::to_value(PastInput(&input)).unwrap(), expected);
    }
}

#[test]
fn schemas_get_what_apis_insist_on() {
    for (schema, expected) in [
        (json!({"type": "object", "properties": {"a": {}}}), json!({"type": "object", "properties": {"a": {}}})),
        (json!({"type": "object"}), json!({"type": "object", "properties": {}})),
        (json!({"required": []}), json!({"type": "object", "required": [], "properties": {}})),
        (json!(null), json!({"type": "object", "properties": {}})),
        (json!(true), json!({"type": "object", "properties": {}})),
    ] {
        assert_eq!(serde_json::to_value(ObjectSchema(&schema)).unwrap(), expected);
    }
}

#[test]
fn an_answer_cannot_grow_without_end() {
    let mut limit = CallLimit::default();
    for _ in 0..MAX_CALLS {
        limit.add_call().unwrap();
    }
    assert!(limit.add_call().is_err());
    limit.add_arguments(MAX_ARGUMENT_BYTES).unwrap();
    assert!(limit.add_arguments(1).is_err());
}
