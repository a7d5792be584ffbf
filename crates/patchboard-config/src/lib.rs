//! The configuration: what `patchboard.toml` of the user and of the project, the environment and the command
//! line say, checked as a whole before anything starts.
//!
//! Reading order: [`files`] (what is read) → [`load`] (layers) → `merge` → `check` (types and unknown keys) →
//! `validate` (what the sections mean together) → [`secrets`]. The types in
//! [`section`] are plain data and know nothing of where a value came from;
//! `tree` does. Nothing here opens a socket, prints or asks, and nothing reads
//! the process environment except [`env`].

pub mod credentials;
pub mod edit;
pub mod env;
pub mod files;
pub mod key_path;
pub mod load;
pub mod origin;
pub mod problem;
pub mod program;
pub mod reload;
pub mod report;
pub mod sample;
pub mod schema;
pub mod secrets;
pub mod section;
pub mod show;
pub mod sidecar;
pub mod types;
pub mod url;

mod agent_lookup;
mod check;
mod config;
mod file_parser;
mod glob;
mod key_order;
mod merge;
mod overlay;
mod path_rules;
mod paths;
mod provider_key;
#[cfg(test)]
mod reference;
mod shape;
mod tree;
mod validate;

#[cfg(test)]
mod tests;

pub use agent_lookup::{DEFAULT_AGENT, ModelRoute, OFFLINE_PROVIDER};
pub use config::Config;
pub use env::Environment;
pub use load::{LoadRequest, LoadedConfig};
pub use overlay::FlagOverride;
pub use paths::UserFolders;
pub use secrets::Secrets;
