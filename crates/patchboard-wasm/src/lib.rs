//! The plugin host: WebAssembly components with granted imports, in a fresh instance per call.

mod call;
mod catalogue;
mod check;
mod compile;
mod describe;
mod engine;
mod imports;
mod limiter;
mod machine;
mod main_runtime;
mod plugin;
mod rights;
mod secrets;
mod state;
mod telemetry;
#[cfg(test)]
mod testing;
mod text;
mod world;

pub use catalogue::{FileAdmission, HostOptions, PluginHost, SidecarParser};
pub use check::{CheckedPlugin, check};
pub use compile::PluginFileError;
pub use rights::{HostServices, PluginLimits, PluginOptions};
