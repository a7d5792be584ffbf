use serde_json::json;

use super::*;

fn list(pages: &[Value]) -> Vec<ListedTool> {
    let mut listing = ToolListReader::new("srv");
    for page in pages {
        if listing.add_page(page).unwrap() == ListStep::Done {
            break;
        }
    }
    listing.finish()
}

fn names(tools: &[ListedTool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn a_tool_is_read_with_its_hints() {
    let schema = json!({"type": "object", "required": ["a"]});
    let check = |annotations: Value, effect: ToolEffect, unknown: UnknownOutcomePolicy| {
        let tool = json!({"name": "t", "description": "d", "inputSchema": schema, "annotations": annotations});
        let tools = list(&[json!({"tools": [tool]})]);
        let spec = tools[0].spec("srv", Duration::from_secs(29));
        assert_eq!(
            spec,
            ToolSpec {
                name: "srv.t".into(),
                description: "d".into(),
                input_schema: schema.clone().into(),
                effect,
                unknown_outcome: unknown,
                timeout: Some(Duration::from_secs(30)),
                kind: ToolKind::Mcp,
                traits: None,
            }
        );
    };
    check(json!(null), ToolEffect::Writes, UnknownOutcomePolicy::Ask);
    check(json!({}), ToolEffect::Writes, UnknownOutcomePolicy::Ask);
    check(json!({"readOnlyHint": "true"}), ToolEffect::Writes, UnknownOutcomePolicy::Ask);
    check(json!({"readOnlyHint": true}), ToolEffect::ReadOnly, UnknownOutcomePolicy::Retry);
    check(json!({"readOnlyHint": false, "idempotentHint": true}), ToolEffect::Writes, UnknownOutcomePolicy::Retry);
}

#[test]
fn a_bad_tool_is_left_out_and_the_others_stay() {
    let object = json!({"type": "object"});
    let page = json!({"tools": [
        {"name": "good", "inputSchema": object},
        {"name": "", "inputSchema": object},
        {"inputSchema": object},
        "no tool",
        {"name": "none"},
        {"name": "text", "inputSchema": "object"},
        {"name": "list", "inputSchema": []},
        {"name": "array", "inputSchema": {"type": "array"}},
        {"name": "good", "inputSchema": object, "description": "another of that name"},
        {"name": "untyped", "inputSchema": {}},
    ]});
    let tools = list(&[page]);
    assert_eq!(names(&tools), ["good", "untyped"]);
    assert_eq!(*tools[1].spec("srv", Duration::from_secs(29)).input_schema, object);
}

#[test]
fn names_are_made_fit_and_stay_apart() {
    assert_eq!(qualified_name("srv", "a b/ü:c"), "srv.a_b___c");
    assert_eq!(qualified_name("srv", &"x".repeat(500)).len(), 128);
    let object = json!({"type": "object"});
    let tools =
        list(&[json!({"tools": [{"name": "a b", "inputSchema": object}, {"name": "a/b", "inputSchema": object}]})]);
    assert_eq!(names(&tools), ["a b"], "both would be called srv.a_b");
}

#[test]
fn pages_are_followed_until_a_bound() {
    let page = |from: usize, count: usize, next: Option<&str>| {
        let tools: Vec<Value> =
            (from..from + count).map(|n| json!({"name": format!("t{n}"), "inputSchema": {"type": "object"}})).collect();
        json!({"tools": tools, "nextCursor": next})
    };
    assert_eq!(list(&[page(0, 2, Some("a")), page(2, 2, None), page(4, 9, None)]).len(), 4);
    assert_eq!(list(&[page(0, 2, Some("a")), page(2, 2, Some("a")), page(4, 9, None)]).len(), 4, "the same cursor");
    assert_eq!(list(&[page(0, 300, Some("a")), page(300, 300, Some("b"))]).len(), MAX_TOOLS);
    let endless: Vec<Value> = (0..200).map(|n| page(n, 1, Some(&n.to_string()))).collect();
    assert_eq!(list(&endless).len(), MAX_PAGES);
    let big = |n: usize| json!({"name": format!("t{n}"), "description": "x".repeat(MAX_BYTES / 3), "inputSchema": {}});
    assert_eq!(names(&list(&[json!({"tools": [big(1), big(2), big(3)]})])), ["t1", "t2"]);
}

#[test]
fn what_is_no_list_is_an_error() {
    for page in [json!({}), json!({"tools": {}}), json!(null), json!([])] {
        assert!(ToolListReader::new("srv").add_page(&page).is_err(), "{page}");
    }
}
