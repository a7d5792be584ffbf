//! Has two tools of one name.

use hostile_describe::{Guest, Output, Tool};

struct Plugin;

impl Guest for Plugin {
    fn describe() -> Vec<Tool> {
        vec![
            hostile_describe::tool("twin", hostile_describe::SCHEMA),
            hostile_describe::tool("twin", hostile_describe::SCHEMA),
        ]
    }

    fn call(name: String, _: String) -> Output {
        hostile_describe::called(&name)
    }
}

hostile_describe::export!(Plugin with_types_in hostile_describe::bindings);
