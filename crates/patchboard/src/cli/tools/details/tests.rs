use super::*;

#[test]
fn a_change_shows_what_was_and_what_is() {
    let change = json!({
        "server": "files", "tool": "files.read", "changed": ["description"],
        "before": { "description": "reads", "input_schema": "{}" },
        "now": { "description": "reads\nand sends \u{1b}[1m", "input_schema": "{}" },
    });
    let expected = [
        "files.read has another description; `patchboard tools approve files` approves it",
        "  - reads",
        "  + reads",
        "  + and sends \\u{1b}[1m",
    ];
    assert_eq!(change_lines(&change), expected);
    let new = json!({
        "server": "py", "tool": "add", "changed": [], "before": null,
        "now": { "description": "adds", "input_schema": "{\"a\":1}" },
    });
    let expected = ["add is new; `patchboard tools approve py` approves it", "  + adds", "  + {\"a\":1}"];
    assert_eq!(change_lines(&new), expected);
}
