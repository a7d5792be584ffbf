use std::time::Duration;

use patchboard_core::plugin::PLUGIN_METADATA_KEY;
use patchboard_core::tool::{ToolEffect, ToolKind, UnknownOutcomePolicy};

use super::{DescribeContext, MAX_DESCRIPTION, MAX_SCHEMA, specs};
use crate::world::exports::patchboard::plugin::tools::Tool;

fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: "Adds.".to_owned(),
        input_schema: r#"{"type":"object","properties":{"a":{"type":"number"}}}"#.to_owned(),
        read_only: false,
    }
}

fn offered(has_grants: bool) -> DescribeContext<'static> {
    DescribeContext { plugin: "sums", has_grants, time: Duration::from_secs(30) }
}

#[test]
fn becomes_a_tool() {
    let described = vec![tool("add-1_B"), Tool { read_only: true, ..tool("look") }];
    let granted = specs(described.clone(), &offered(true)).expect("tools");
    let found: Vec<_> = granted.iter().map(|spec| (&*spec.name, spec.effect, spec.unknown_outcome)).collect();
    assert_eq!(
        found,
        [
            ("add-1_B", ToolEffect::Writes, UnknownOutcomePolicy::Ask),
            ("look", ToolEffect::ReadOnly, UnknownOutcomePolicy::Retry)
        ]
    );
    let first = &granted[0];
    assert_eq!((first.kind, first.timeout), (ToolKind::Plugin, Some(Duration::from_secs(32))));
    assert_eq!(first.input_schema["properties"]["a"]["type"], "number");
    let traits = first.traits.as_ref().expect("traits");
    assert_eq!(traits.metadata.get(PLUGIN_METADATA_KEY).map(String::as_str), Some("sums"));

    let powerless = specs(described, &offered(false)).expect("tools");
    assert!(powerless.iter().all(|spec| spec.effect == ToolEffect::ReadOnly));
    assert_eq!(specs(Vec::new(), &offered(false)).expect("none").len(), 0);
}

#[test]
fn says_what_is_wrong() {
    let check = |tools: Vec<Tool>, reason: &str| {
        assert_eq!(specs(tools, &offered(true)).expect_err("refused"), reason);
    };
    let names = |names: &[&str]| names.iter().map(|name| tool(name)).collect::<Vec<_>>();
    let many: Vec<String> = (0..65).map(|number| format!("t{number}")).collect();
    check(many.iter().map(|name| tool(name)).collect(), "describes 65 tools, more than 64");
    check(names(&["a", "b", "a"]), "describes two tools called `a`");
    check(names(&[""]), "`` is no name for a tool: letters, digits, `_` and `-`, at most 64");
    check(names(&["a b"]), "`a b` is no name for a tool: letters, digits, `_` and `-`, at most 64");
    check(names(&["größe"]), "`größe` is no name for a tool: letters, digits, `_` and `-`, at most 64");
    check(names(&["a\nb"]), "`a\\nb` is no name for a tool: letters, digits, `_` and `-`, at most 64");
    assert!(specs(names(&[&"n".repeat(64)]), &offered(true)).is_ok());
    assert!(specs(names(&[&"n".repeat(65)]), &offered(true)).is_err());

    let described = |description: String| vec![Tool { description, ..tool("a") }];
    check(described(String::new()), "tool `a` has no description");
    assert!(specs(described("d".repeat(MAX_DESCRIPTION)), &offered(true)).is_ok());
    check(described("d".repeat(MAX_DESCRIPTION + 1)), "the description of tool `a` is longer than 4096 bytes");

    let shaped = |schema: &str| vec![Tool { input_schema: schema.to_owned(), ..tool("a") }];
    check(shaped("{"), "the schema of tool `a` is not JSON: EOF while parsing an object at line 1 column 1");
    check(shaped("[]"), "the schema of tool `a` is not of \"type\": \"object\"");
    check(shaped("{}"), "the schema of tool `a` is not of \"type\": \"object\"");
    check(shaped(r#"{"type":"string"}"#), "the schema of tool `a` is not of \"type\": \"object\"");
    let long = format!(r#"{{"type":"object","title":"{}"}}"#, "t".repeat(MAX_SCHEMA));
    check(shaped(&long), "the schema of tool `a` is longer than 65536 bytes");
}
