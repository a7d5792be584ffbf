//! Tools of the server, and the validation of tool arguments.
//!
//! * `builtin` – the built-in tools as one `ToolHost`: a table of tools, one file each.
//! * `folder` – the folder that file tools work in, and the only way to open anything in it.
//! * `guard` – keeps files that the server executes or obeys from being changed.
//! * `launch` – how programs are started: jailed where the kernel supports jails.
//! * `mcp` – MCP servers as `ToolHost`s, and the relay that serves MCP on standard input and output.
//! * `sandbox` – child processes in jails; Linux only.
//! * `sinks` – the core's `NoticeSink` port: where notices to the user are shown.
//! * `worker` – pools of worker processes as `ToolHost`s.
//! * `workspaces` – the folders that runs may work in, as the core's `WorkingFolders` port.
//! * `schema` – the core's `SchemaValidator` port, implemented with `jsonschema`.
//!
//! This crate depends on no surface, store or model provider.

pub mod builtin;
pub mod folder;
pub mod guard;
pub mod launch;
pub mod mcp;
#[cfg(target_os = "linux")]
pub mod sandbox;
pub mod schema;
pub mod sinks;
mod telemetry;
mod text;
pub mod worker;
pub mod workspaces;

pub use builtin::{BoxedBuiltin, BuiltinOptions, BuiltinTools};
pub use folder::{Error, WorkFolder};
pub use schema::JsonSchemaCheck;
pub use workspaces::{GrantRules, WorkspaceOptions, Workspaces};
