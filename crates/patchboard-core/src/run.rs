//! Agent runs: a strategy decides (pure), a driver carries it out (async), recovery goes on with what a crash cut short.

pub(crate) mod agent_tools;
pub mod driver;
pub mod model_call;
mod node_tracker;
pub mod recover;
mod replay;
pub mod start;
pub(crate) mod starter;
pub mod strategy;
mod task_set;

pub use driver::{RunDeps, RunLimits};
pub use start::{RunControl, RunRequest};
