//! Agent runs: a strategy decides (pure), a driver carries it out (async), recovery goes on with what a crash cut short.

pub mod begin;
pub mod brief;
pub mod driver;
pub mod finding;
pub mod model_call;
pub mod nesting;
mod nodes;
pub mod recover;
mod replay;
pub mod strategy;
mod workload;

pub use begin::{RunRequest, Stops};
pub use driver::{RunDeps, RunLimits};
pub use nesting::Nesting;
