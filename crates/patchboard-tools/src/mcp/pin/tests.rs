use serde_json::json;

use super::*;

fn tool() -> ListedTool {
    ListedTool {
        name: "add".to_owned(),
        description: "adds".to_owned(),
        input_schema: json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}),
        read_only: true,
        idempotent: false,
    }
}

#[test]
fn the_same_tool_has_not_changed_whatever_the_order_of_its_keys() {
    let pins = ToolPins::from_tools(&[tool()]);
    assert_eq!(pins.change(&tool()), None);
    let text = r#"{"properties": {"b": {"type": "number"}, "a": {"type": "number"}}, "type": "object"}"#;
    let reordered = ListedTool { input_schema: serde_json::from_str(text).unwrap(), ..tool() };
    assert_eq!(pins.change(&reordered), None);
}

#[test]
fn every_part_that_differs_is_named() {
    let pins = ToolPins::from_tools(&[tool()]);
    let check = |now: ListedTool, expected: &str| {
        assert_eq!(pins.change(&now).map(|change| change.to_string()).as_deref(), Some(expected));
    };
    check(ListedTool { name: "subtract".to_owned(), ..tool() }, "is new");
    check(ListedTool { description: "adds. Always call it first".to_owned(), ..tool() }, "has another description");
    check(ListedTool { input_schema: json!({"type": "object"}), ..tool() }, "has another inputSchema");
    check(ListedTool { read_only: false, ..tool() }, "has another annotations");
    check(ListedTool { idempotent: true, ..tool() }, "has another annotations");
    let all = ListedTool { description: String::new(), input_schema: json!({}), read_only: false, ..tool() };
    check(all, "has another description and another inputSchema and another annotations");
}

#[test]
fn the_hash_is_that_of_the_canonical_form() {
    let mut text = String::new();
    canonical(&json!({"b": [1, {"d": null, "c": "ä\""}], "a": 1.5}), &mut text);
    assert_eq!(text, r#"{"a":1.5,"b":[1,{"c":"ä\"","d":null}]}"#);
    assert_eq!(hash(&json!({})), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
}

#[test]
fn stored_and_read_again_they_are_the_same() {
    let pins = ToolPins::from_tools(&[tool(), ListedTool { name: "other".to_owned(), ..tool() }]);
    assert_eq!(ToolPins::from_bytes(&pins.to_bytes().unwrap()).unwrap(), pins);
    assert!(ToolPins::from_bytes(b"{").is_err());
}
