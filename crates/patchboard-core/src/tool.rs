//! Tools: what they are, where they come from, and the one path every call takes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::id::{MemoryOwner, SessionKey};

pub mod desk;
pub mod own;
pub mod policy;
pub mod registry;
mod voice;

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
    /// How long a call may take; `None` for the server's limit.
    pub timeout: Option<Duration>,
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

/// For whom and where a tool works.
#[derive(Debug, Clone)]
pub struct ToolScope {
    pub session: SessionKey,
    /// Whose facts it may see.
    pub owner: MemoryOwner,
    /// Where file tools work, as `Folders::admit` named it; `None` for the folder of the configuration.
    pub folder: Option<Arc<Path>>,
    pub voice: ToolVoice,
}

/// What a tool says while it works, for people to watch; its output is what it returns.
#[derive(Debug, Clone, Default)]
pub struct ToolVoice(Option<mpsc::Sender<String>>);

impl ToolVoice {
    pub fn new(listener: mpsc::Sender<String>) -> Self {
        Self(Some(listener))
    }

    /// Waits while listeners are behind; without any, what is said is lost.
    pub async fn say(&self, text: impl Into<String>) {
        if let Some(listener) = &self.0 {
            // Nobody listens any more: nothing is lost that anybody wanted.
            drop(listener.send(text.into()).await);
        }
    }
}
