//! Tools that come with the program, and the check of tool arguments.
//!
//! * `builtin` – the built-in tools as one `ToolHost`: a table of tools, one file each.
//! * `folder` – the folder those tools work in, and the only way to open anything in it.
//! * `schema` – the core's `SchemaCheck` port by `jsonschema`.
//!
//! This crate knows no surface, no store and no model provider.

pub mod builtin;
pub mod folder;
pub mod schema;
mod words;

pub use builtin::Builtins;
pub use folder::{Error, WorkFolder};
pub use schema::JsonSchemaCheck;
