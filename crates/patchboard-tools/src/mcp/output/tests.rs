use serde_json::json;

use super::*;

fn check(result: Value, expected: &str) {
    assert_eq!(tool_output(&result), ToolOutput::ok(expected), "{result}");
}

#[test]
fn text_is_joined_and_the_rest_is_named() {
    check(json!({"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}), "one\ntwo");
    check(
        json!({"content": [
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAAAAAA", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///c", "blob": "AAAA"}},
            {"type": "hologram"},
            5,
        ]}),
        "[image image/png, 3 bytes]\n[audio audio/wav, 6 bytes]\n[link to file:///a]\n[resource file:///b]\ninside\n\
         [resource file:///c]\n[content of type hologram]\n[content of type unknown]",
    );
}

#[test]
fn structured_content_stands_in_for_text() {
    check(json!({"content": [], "structuredContent": {"sum": 3}}), r#"{"sum":3}"#);
    check(json!({"structuredContent": [1, 2]}), "[1,2]");
    check(json!({"content": [{"type": "text", "text": "3"}], "structuredContent": {"sum": 3}}), "3");
    check(
        json!({"content": [{"type": "image", "data": "", "mimeType": "image/png"}], "structuredContent": {"sum": 3}}),
        "[image image/png, 0 bytes]\n{\"sum\":3}",
    );
    check(json!({}), "");
    check(json!({"structuredContent": null}), "");
}

#[test]
fn an_error_stays_an_error() {
    let result = json!({"content": [{"type": "text", "text": "no such city"}], "isError": true});
    assert_eq!(tool_output(&result), ToolOutput::error("no such city"));
}

#[test]
fn a_long_answer_is_cut() {
    let result =
        json!({"content": [{"type": "text", "text": "ä".repeat(MAX_OUTPUT)}, {"type": "text", "text": "more"}]});
    let output = tool_output(&result);
    assert!(output.content.len() < MAX_OUTPUT + 100, "{}", output.content.len());
    assert!(output.content.ends_with("[cut: the answer was longer]"));
    let label = tool_output(&json!({"content": [{"type": "resource_link", "uri": "u\n".repeat(5000)}]}));
    assert!(label.content.len() < 400 && !label.content.contains('\n'), "{}", label.content);
}
