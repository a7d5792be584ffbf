//! Panics when it is asked what it has.

use hostile_describe::{Guest, Output, Tool};

struct Plugin;

impl Guest for Plugin {
    #[expect(clippy::panic, reason = "this is the bad thing it does")]
    fn describe() -> Vec<Tool> {
        panic!("made to fail at load")
    }

    fn call(name: String, _: String) -> Output {
        hostile_describe::called(&name)
    }
}

hostile_describe::export!(Plugin with_types_in hostile_describe::bindings);
