//! Never says what it has.

use hostile_describe::{Guest, Output, Tool};

struct Plugin;

impl Guest for Plugin {
    fn describe() -> Vec<Tool> {
        let mut turns = 0_u64;
        loop {
            turns = std::hint::black_box(turns.wrapping_add(1));
        }
    }

    fn call(name: String, _: String) -> Output {
        hostile_describe::called(&name)
    }
}

hostile_describe::export!(Plugin with_types_in hostile_describe::bindings);
