//! Tools as agents and bridge clients see them, and the outputs of calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;

mod glob;

pub use glob::Glob;

/// A tool of any host.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: Arc<str>,
    pub description: Arc<str>,
    /// JSON Schema of the arguments object.
    pub input_schema: Arc<Value>,
    pub effect: ToolEffect,
    /// What to do with an interrupted call whose outcome is unknown.
    pub unknown_outcome: UnknownOutcomePolicy,
    /// Time limit of a call; `None` for the server's limit.
    pub timeout: Option<Duration>,
    pub kind: ToolKind,
    /// Further properties for bridge clients, if there are any.
    pub traits: Option<Arc<ToolTraits>>,
}

/// The built-in tool that executes several calls at once.
pub const BATCH_TOOL: &str = "batch";

/// The built-in tool by which an agent asks the user.
pub const QUESTION_TOOL: &str = "ask_user";

impl ToolSpec {
    /// Whether it is the question tool, which the user answers.
    pub fn is_question(&self) -> bool {
        &*self.name == QUESTION_TOOL && self.kind == ToolKind::BuiltIn
    }

    /// Whether it is the batch tool. Policy is applied to each call of a batch, not to the batch.
    pub fn is_batch(&self) -> bool {
        &*self.name == BATCH_TOOL && self.kind == ToolKind::BuiltIn
    }

    /// Whether it can stream its result.
    pub fn streams(&self) -> bool {
        self.traits.as_ref().is_some_and(|traits| traits.streams)
    }
}

/// Which kind of host offers a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolKind {
    /// Provided by the server itself.
    BuiltIn,
    /// Provided by an MCP server.
    Mcp,
    /// Provided by a WASM plugin.
    Plugin,
    /// Provided by a worker or another client of the bridge.
    Worker,
    /// Sends to apps of the hub.
    App,
    /// Calls another agent.
    Agent,
    /// The client that started the run has it and runs it.
    Client,
}

impl ToolKind {
    /// The name in client protocols, metrics and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "builtin",
            Self::Mcp => "mcp",
            Self::Plugin => "wasm",
            Self::Worker => "worker",
            Self::App => "app",
            Self::Agent => "agent",
            Self::Client => "client",
        }
    }
}

/// Properties of a tool in another process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolTraits {
    pub streams: bool,
    /// Parameter names, in the tool's own order.
    pub parameters: Vec<Arc<str>>,
    /// Equal arguments give equal results, so results may be cached.
    pub cacheable: bool,
    /// As registered by the worker or client.
    pub metadata: BTreeMap<String, String>,
}

/// Whether a call changes anything. Read-only calls need no recorded intent before they run.
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

/// The output of a call. Failures are outputs too: the model reads them and continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// For models and people.
    pub content: Arc<str>,
    pub is_error: bool,
    /// Structured form for bridge clients. Never recorded.
    pub data: Option<Arc<StructuredOutput>>,
}

/// Structured output for bridge clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StructuredOutput {
    /// The result as JSON text, exactly as the tool produced it.
    pub json: Option<Bytes>,
    pub binary: Option<Bytes>,
    pub metadata: BTreeMap<String, String>,
    /// Set if the failure was not the tool's own.
    pub fault: Option<ToolFault>,
}

/// Why a call got no output from its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolFault {
    /// The worker or client that has the tool ended or is unreachable. Whether the call took effect is unknown.
    Unavailable,
    /// Timed out in the queue for a free worker; it never ran.
    QueueTimeout,
    /// The queue is full; it never ran.
    Saturated,
    /// The only eligible worker is busy; it never ran.
    WorkerBusy,
    /// Exceeded its time limit and was stopped.
    TimedOut,
    Cancelled,
    /// The request could not be decoded; it never ran.
    Invalid,
    /// An argument does not match the tool's schema. The text begins with `Invalid parameter` and names it; it never
    /// ran.
    Argument,
    /// The worker does not know the tool.
    NotFound,
    /// The worker failed internally during the call.
    Internal,
}

impl ToolOutput {
    pub fn ok(content: impl Into<Arc<str>>) -> Self {
        Self { content: content.into(), is_error: false, data: None }
    }

    pub fn error(content: impl Into<Arc<str>>) -> Self {
        Self { content: content.into(), is_error: true, data: None }
    }

    /// Output of a call that its tool did not answer.
    pub fn fault(fault: ToolFault, content: impl Into<Arc<str>>) -> Self {
        Self::error(content).with_structured(StructuredOutput { fault: Some(fault), ..StructuredOutput::default() })
    }

    /// Adds the structured form.
    #[must_use]
    pub fn with_structured(self, data: StructuredOutput) -> Self {
        Self { data: Some(Arc::new(data)), ..self }
    }

    /// A JSON result: models read its text, bridge clients its value.
    pub fn json(value: &Value) -> Self {
        let text = value.to_string();
        let json = Bytes::copy_from_slice(text.as_bytes());
        Self::ok(text).with_structured(StructuredOutput { json: Some(json), ..StructuredOutput::default() })
    }
}

/// Metadata of a call, besides its arguments, for tools in other processes.
#[derive(Debug, Clone, Default)]
pub struct CallMetadata {
    /// The caller's session id, as workers know it.
    pub session: Arc<str>,
    pub metadata: BTreeMap<String, String>,
    /// Binary arguments, by name.
    pub binary: BTreeMap<String, Bytes>,
    /// Correlation id, shared by all events about the call.
    pub correlation: Option<Arc<str>>,
    /// The caller's W3C `traceparent`.
    pub trace: Option<Arc<str>>,
    /// Time limit of the call, including the wait for a worker; `None` for the tool's own limit.
    pub timeout: Option<Duration>,
    /// Receives the result in chunks, with backpressure.
    pub chunks: Option<mpsc::Sender<ToolChunk>>,
    /// A model reads the output: prefer text to data.
    pub for_model: bool,
}

/// A chunk of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolChunk {
    pub id: Arc<str>,
    pub data: Bytes,
    pub is_final: bool,
    pub metadata: BTreeMap<String, String>,
}

/// The name under which a call's id travels with its effects: in the metadata of a worker's call, in `_meta` of an MCP
/// call, and, as a header, on requests that write. The id is on record, so that a call that is made again after a crash
/// carries the same one.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
