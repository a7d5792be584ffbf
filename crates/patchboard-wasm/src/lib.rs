//! The plugin host: WebAssembly components with granted imports, a fresh instance for every call.

mod call;
mod catalogue;
mod check;
mod compile;
mod describe;
mod engine;
mod home;
mod imports;
mod limiter;
mod plugin;
mod rights;
mod secrets;
mod state;
mod telemetry;
#[cfg(test)]
mod testing;
mod world;

pub use catalogue::{FileAdmission, HostOptions, PluginHost, Sidecar};
pub use check::{Checked, check};
pub use compile::Refusal;
pub use rights::{PluginLimits, PluginOptions, Services};
