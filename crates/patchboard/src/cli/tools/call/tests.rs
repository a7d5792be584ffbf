use std::path::Path;

use clap::Parser;
use serde_json::json;

use super::{CallArgs, is_of, params};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    call: CallArgs,
}

fn parsed(words: &[&str]) -> CallArgs {
    Line::try_parse_from(["call"].iter().chain(words)).unwrap().call
}

#[test]
fn folders_are_relative_to_where_the_command_is_typed() {
    let folder = |given: &str| {
        let args = parsed(&["ls", "--working-folder", given]);
        params(&args, Path::new("/here")).map_err(|_| ()).unwrap()
    };
    assert_eq!(folder("x"), json!({ "name": "ls", "arguments": {}, "working_folder": "/here/x" }));
    assert_eq!(folder("/there"), json!({ "name": "ls", "arguments": {}, "working_folder": "/there" }));
}

#[test]
fn arguments_are_an_object() {
    let read = |text: &str| params(&parsed(&["read", text]), Path::new("/")).map_err(|_| ());
    assert_eq!(read(r#"{"path": "a"}"#), Ok(json!({ "name": "read", "arguments": { "path": "a" } })));
    for wrong in ["", "[]", "1", "{", "path=a"] {
        assert_eq!(read(wrong), Err(()), "{wrong}");
    }
}

#[test]
fn a_question_is_known_by_its_call() {
    let call = json!({ "name": "bash", "arguments": { "command": "ls" } });
    assert!(is_of(&json!({ "approval_id": "1", "name": "bash", "input": { "command": "ls" } }), &call));
    assert!(!is_of(&json!({ "name": "bash", "input": { "command": "rm" } }), &call));
    assert!(!is_of(&json!({ "name": "sh", "input": { "command": "ls" } }), &call));
}
