//! Agent runs: a strategy decides (pure), a driver executes (async), recovery resumes runs after a crash.

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
