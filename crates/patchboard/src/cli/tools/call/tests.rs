use clap::Parser;
use serde_json::{Value, json};

use super::{CallArgs, CallerFolder, argument_hint, arguments, is_for_call, params};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    call: CallArgs,
}

fn parsed(words: &[&str]) -> CallArgs {
    Line::try_parse_from(["call"].iter().chain(words)).unwrap().call
}

#[test]
fn a_folder_goes_along_with_the_right_to_work_in_it() {
    let call = |folder| params("ls", &json!({}), &folder);
    let here = CallerFolder { path: Some("/here".to_owned()), is_granted: true, is_current: true };
    let expected = json!({ "name": "ls", "arguments": {}, "working_folder": "/here", "grant_folder": true });
    assert_eq!(call(here), expected);
    assert_eq!(call(CallerFolder::default()), json!({ "name": "ls", "arguments": {} }));
}

#[test]
fn arguments_are_an_object() {
    let read = |text: &str| arguments(&parsed(&["read", text])).map_err(|_| ());
    assert_eq!(read(r#"{"path": "a"}"#), Ok(json!({ "path": "a" })));
    for wrong in ["", "[]", "1", "{", "path=a"] {
        assert_eq!(read(wrong), Err(()), "{wrong}");
    }
}

#[test]
fn a_question_is_known_by_its_call() {
    let call = json!({ "name": "bash", "arguments": { "command": "ls" } });
    assert!(is_for_call(&json!({ "approval_id": "1", "name": "bash", "input": { "command": "ls" } }), &call));
    assert!(!is_for_call(&json!({ "name": "bash", "input": { "command": "rm" } }), &call));
    assert!(!is_for_call(&json!({ "name": "sh", "input": { "command": "ls" } }), &call));
}

#[test]
fn arguments_that_the_tool_does_not_have() {
    let schema = json!({
        "properties": { "path": {}, "offset": {} }, "required": ["path"], "additionalProperties": false,
    });
    let tools = [json!({ "name": "read", "input_schema": schema })];
    let hint = |given: Value| argument_hint(&tools, "read", &json!({ "arguments": given }));
    assert_eq!(hint(json!({ "pathh": "x" })).as_deref(), Some("hint: did you mean `path`?"));
    let all = "hint: `patchboard tools show read` shows its arguments";
    assert_eq!(hint(json!({ "frobnicate": 1, "path": "x" })).as_deref(), Some(all));
    assert_eq!(hint(json!({})).as_deref(), Some(all));
    assert_eq!(hint(json!({ "path": "x" })), None, "something else is wrong");
}
