//! Agent runs: a strategy decides (pure), a driver carries it out (async), recovery goes on with what a crash cut short.

pub mod call_chain;
pub mod driver;
pub mod finding;
pub mod model_call;
mod node_tracker;
pub mod recover;
mod replay;
pub mod spec;
pub mod start;
pub mod strategy;
mod task_set;

pub use call_chain::CallChain;
pub use driver::{RunDeps, RunLimits};
pub use start::{RunControl, RunRequest};
