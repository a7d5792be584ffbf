//! What a tool is to agents and programs, whatever it is made of, and what a call of it brings back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;

mod glob;

pub use glob::Glob;

/// A tool as agents see it, whatever it is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: Arc<str>,
    pub description: Arc<str>,
    /// JSON Schema of the arguments object.
    pub input_schema: Arc<Value>,
    pub effect: ToolEffect,
    /// What to do with a call that was cut off so that nobody knows whether it took effect.
    pub unknown_outcome: UnknownOutcomePolicy,
    /// How long a call may take; `None` for the server's limit.
    pub timeout: Option<Duration>,
    pub kind: ToolKind,
    /// What programs want to know about it besides; `None` where there is nothing to know.
    pub traits: Option<Arc<ToolTraits>>,
}

/// The built-in tool that makes several calls at once.
pub const BATCH_TOOL: &str = "batch";

impl ToolSpec {
    /// Each call of a batch, and of an agent, is judged by itself.
    pub fn is_batch(&self) -> bool {
        &*self.name == BATCH_TOOL && self.kind == ToolKind::BuiltIn
    }

    /// Can it hand over its result piece by piece?
    pub fn streams(&self) -> bool {
        self.traits.as_ref().is_some_and(|traits| traits.streams)
    }
}

/// Which kind of host offers a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolKind {
    /// Of the server itself.
    BuiltIn,
    /// Of an MCP server.
    Mcp,
    /// Of a WASM plugin.
    Plugin,
    /// Of a worker or another program on the bridge.
    Worker,
    /// Sends to apps of the hub.
    App,
    /// Another agent.
    Agent,
}

impl ToolKind {
    /// As clients, metrics and traces name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "builtin",
            Self::Mcp => "mcp",
            Self::Plugin => "wasm",
            Self::Worker => "worker",
            Self::App => "app",
            Self::Agent => "agent",
        }
    }
}

/// What is known about a tool that lives in another program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolTraits {
    pub streams: bool,
    /// Names of its parameters, in its own order.
    pub parameters: Vec<Arc<str>>,
    /// The same arguments give the same result, so that a result may be given out again.
    pub cacheable: bool,
    /// As the program told it.
    pub metadata: BTreeMap<String, String>,
}

/// Does calling the tool change anything? Effect-free calls need no intent on record before they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolEffect {
    ReadOnly,
    Writes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownOutcomePolicy {
    Retry,
    Ask,
    Fail,
}

/// What a tool answered. A failure is an answer too: the model reads it and goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// For models and people.
    pub content: Arc<str>,
    pub is_error: bool,
    /// The same for programs. Never recorded.
    pub data: Option<Arc<StructuredOutput>>,
}

/// What a tool answered, for a program to work with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StructuredOutput {
    /// The result as JSON text, as its maker wrote it.
    pub json: Option<Bytes>,
    pub binary: Option<Bytes>,
    pub metadata: BTreeMap<String, String>,
    /// Set when it was not the tool itself that failed.
    pub fault: Option<ToolFault>,
}

/// Why a call did not get an answer from its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolFault {
    /// The program that has the tool is gone or cannot be reached. Whether the call took effect is not known.
    Unavailable,
    /// It waited too long for a free worker and never ran.
    QueueTimeout,
    /// Too many wait already; it never ran.
    Saturated,
    /// The one worker it may go to is busy; it never ran.
    WorkerBusy,
    /// It ran too long and was stopped.
    TimedOut,
    Cancelled,
    /// What was passed could not be understood; it never ran.
    Invalid,
    /// An argument does not fit what the tool takes. The words begin with `Invalid parameter` and name it; it never ran.
    Argument,
    /// The program does not know the tool.
    NotFound,
    /// The program broke while it was answering.
    Internal,
}

impl ToolOutput {
    pub fn ok(content: impl Into<Arc<str>>) -> Self {
        Self { content: content.into(), is_error: false, data: None }
    }

    pub fn error(content: impl Into<Arc<str>>) -> Self {
        Self { content: content.into(), is_error: true, data: None }
    }

    /// A call that got no answer from its tool.
    pub fn fault(fault: ToolFault, content: impl Into<Arc<str>>) -> Self {
        Self::error(content).with_structured(StructuredOutput { fault: Some(fault), ..StructuredOutput::default() })
    }

    /// The same answer, for programs too.
    #[must_use]
    pub fn with_structured(self, data: StructuredOutput) -> Self {
        Self { data: Some(Arc::new(data)), ..self }
    }

    /// A result that is JSON: models read its text, programs its value.
    pub fn json(value: &Value) -> Self {
        let text = value.to_string();
        let json = Bytes::copy_from_slice(text.as_bytes());
        Self::ok(text).with_structured(StructuredOutput { json: Some(json), ..StructuredOutput::default() })
    }
}

/// What a call carries besides its arguments, to tools that live in other programs.
#[derive(Debug, Clone, Default)]
pub struct CallMetadata {
    /// What workers know the caller's session by.
    pub session: Arc<str>,
    pub metadata: BTreeMap<String, String>,
    /// Arguments that are bytes, by name.
    pub binary: BTreeMap<String, Bytes>,
    /// Joins what is told about the call on its way.
    pub correlation: Option<Arc<str>>,
    /// Position in the caller's trace, as W3C writes it.
    pub trace: Option<Arc<str>>,
    /// How long the call may take, the wait for a worker included; `None` for the tool's own limit.
    pub timeout: Option<Duration>,
    /// Where the result goes piece by piece, as fast as it is taken.
    pub chunks: Option<mpsc::Sender<ToolChunk>>,
    /// The answer is read by a model: text rather than data.
    pub for_model: bool,
}

/// A piece of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolChunk {
    pub id: Arc<str>,
    pub data: Bytes,
    pub is_final: bool,
    pub metadata: BTreeMap<String, String>,
}
