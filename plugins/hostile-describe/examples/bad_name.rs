//! Has a tool with a name that nobody could call.

use hostile_describe::{Guest, Output, Tool};

struct Plugin;

impl Guest for Plugin {
    fn describe() -> Vec<Tool> {
        vec![hostile_describe::tool("rm -rf /\n", hostile_describe::SCHEMA)]
    }

    fn call(name: String, _: String) -> Output {
        hostile_describe::called(&name)
    }
}

hostile_describe::export!(Plugin with_types_in hostile_describe::bindings);
