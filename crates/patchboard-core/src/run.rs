//! Agent runs: a strategy decides (pure), a driver executes (async), recovery resumes runs that another process, or this one, gave up.

pub(crate) mod agent_tools;
pub mod driver;
pub(crate) mod held;
pub mod model_call;
mod node_tracker;
pub mod recover;
mod replay;
pub mod start;
pub(crate) mod starter;
pub mod strategy;
mod task_set;

pub use driver::{RunDeps, RunExit, RunLimits};
pub use start::{RunControl, RunRequest};
