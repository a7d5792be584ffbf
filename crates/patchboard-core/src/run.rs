//! Agent runs: a strategy decides (pure), a driver carries it out (async), recovery closes what a crash cut short.

pub mod driver;
pub mod model_call;
pub mod recover;
pub mod strategy;
mod workload;

pub use driver::{RunDeps, RunLimits, RunRequest};
