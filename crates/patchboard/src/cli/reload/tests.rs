use super::*;

#[test]
fn keys_are_told_by_what_became_of_them() {
    let report = json!({ "changed": ["agents.default.model"], "needs_restart": ["gateway.listen", "x\u{1b}[2J"] });
    assert_eq!(
        lines(&report),
        ["taken over:", "  agents.default.model", "needs a restart:", "  gateway.listen", "  x\\u{1b}[2J"]
    );
    assert_eq!(lines(&json!({ "changed": [], "needs_restart": [] })), ["nothing has changed"]);
}
