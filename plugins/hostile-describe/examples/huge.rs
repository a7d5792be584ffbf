//! Has a tool with a description of many mebibytes.

use hostile_describe::{Guest, Output, Tool};

struct Plugin;

impl Guest for Plugin {
    fn describe() -> Vec<Tool> {
        let mut tool = hostile_describe::tool("huge", hostile_describe::SCHEMA);
        tool.description = "x".repeat(8 * 1024 * 1024);
        vec![tool]
    }

    fn call(name: String, _: String) -> Output {
        hostile_describe::called(&name)
    }
}

hostile_describe::export!(Plugin with_types_in hostile_describe::bindings);
