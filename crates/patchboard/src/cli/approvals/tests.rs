use clap::Parser;
use serde_json::json;

use super::find;
use crate::cli::Cli;

#[test]
fn an_approval_is_found_by_its_id_and_by_its_call() {
    let items = [json!({ "input_id": "a", "tool_use_id": "c" }), json!({ "input_id": "b", "tool_use_id": "d" })];
    assert_eq!(find(&items, "a"), items.first());
    assert_eq!(find(&items, "d"), items.get(1));
    assert_eq!(find(&items, "e"), None);
}

#[test]
fn an_answer_is_one_of_its_kinds() {
    let parse = |flags: &[&str]| {
        let words = ["patchboard", "approvals", "answer", "id"].iter().chain(flags);
        Cli::try_parse_from(words).map(drop).map_err(|error| error.kind())
    };
    assert_eq!(parse(&["--approve"]), Ok(()));
    assert_eq!(parse(&["--refuse"]), Ok(()));
    assert_eq!(parse(&["--approve-for-session"]), Ok(()));
    assert_eq!(parse(&["--answer", "yes"]), Ok(()));
    assert_eq!(parse(&["--result", "42"]), Ok(()));
    assert_eq!(parse(&["--result", "42", "--refuse"]), Err(clap::error::ErrorKind::ArgumentConflict));
    assert_eq!(parse(&[]), Err(clap::error::ErrorKind::MissingRequiredArgument));
    assert_eq!(parse(&["--approve", "--refuse"]), Err(clap::error::ErrorKind::ArgumentConflict));
}
