//! What the components in `examples/` share: each is bad the moment it is loaded, in its own way.

pub mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "tool-plugin", pub_export_macro: true });
}

pub use bindings::export;
pub use bindings::exports::patchboard::plugin::tools::{Guest, Output, Tool};

pub const SCHEMA: &str = r#"{"type":"object","properties":{}}"#;

#[must_use]
pub fn tool(name: &str, input_schema: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: "A tool that should never be offered to anybody.".to_owned(),
        input_schema: input_schema.to_owned(),
        read_only: true,
    }
}

/// The answer of every tool: nobody should get it.
#[must_use]
pub fn called(name: &str) -> Output {
    Output { content: format!("`{name}` was called"), is_error: false }
}
