//! Tools: what they are, where they come from, and the one path every call takes.

use std::sync::Arc;

use serde_json::Value;

pub mod desk;
pub mod policy;
pub mod registry;

pub use desk::{CallContext, ToolDesk};
pub use policy::{Approval, ApprovalPolicy, Glob};
pub use registry::ToolRegistry;

/// A tool as agents see it, whatever it is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: Arc<str>,
    pub description: Arc<str>,
    /// JSON Schema of the arguments object.
    pub input_schema: Arc<Value>,
    pub effect: Effect,
    /// What to do with a call that was cut off so that nobody knows whether it took effect.
    pub unknown_outcome: UnknownOutcome,
    /// Which kind of host offers it: `builtin`, `mcp`, `wasm`, `worker`, `app`.
    pub kind: &'static str,
}

/// Does calling the tool change anything? Effect-free calls need no intent on record before they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    ReadOnly,
    Writes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownOutcome {
    Retry,
    Ask,
    Fail,
}

/// What a tool answered. A failure is an answer too: the model reads it and goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    pub content: Arc<str>,
    pub is_error: bool,
}

impl ToolOutput {
    pub fn ok(content: impl Into<Arc<str>>) -> Self {
        Self { content: content.into(), is_error: false }
    }

    pub fn error(content: impl Into<Arc<str>>) -> Self {
        Self { content: content.into(), is_error: true }
    }
}
