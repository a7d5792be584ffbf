//! Has far more tools than anybody needs.

use hostile_describe::{Guest, Output, Tool};

struct Plugin;

impl Guest for Plugin {
    fn describe() -> Vec<Tool> {
        (0..1_000).map(|at| hostile_describe::tool(&format!("tool_{at}"), hostile_describe::SCHEMA)).collect()
    }

    fn call(name: String, _: String) -> Output {
        hostile_describe::called(&name)
    }
}

hostile_describe::export!(Plugin with_types_in hostile_describe::bindings);
