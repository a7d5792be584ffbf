//! Tools: what they are, where they come from, and the one path every call takes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::event::Event;
use crate::id::{MemoryOwner, SessionKey};
use crate::port::FolderGrant;

pub mod builtin;
pub mod executor;
pub mod policy;
mod progress;
pub mod registry;

pub use executor::{CallContext, ToolExecutor};
pub use policy::{ApprovalMode, ApprovalPolicy, Glob};
pub use registry::ToolRegistry;

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
    /// Which kind of host offers it: `builtin`, `mcp`, `wasm`, `worker`, `app`, `agent`.
    pub kind: &'static str,
    /// What programs want to know about it besides; `None` where there is nothing to know.
    pub traits: Option<Arc<ToolTraits>>,
}

impl ToolSpec {
    /// Can it hand over its result piece by piece?
    pub fn streams(&self) -> bool {
        self.traits.as_ref().is_some_and(|traits| traits.streams)
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

/// For whom and where a tool works.
#[derive(Debug, Clone)]
pub struct ToolScope {
    pub session: SessionKey,
    /// Whose facts it may see.
    pub owner: MemoryOwner,
    /// Where file tools work, as `Folders::admit` named it; `None` for the folder of the configuration.
    pub folder: Option<Arc<Path>>,
    /// Keeps the folder open while the run or call lasts, where no configured root contains it.
    pub folder_grant: Option<FolderGrant>,
    pub progress: ProgressSink,
    /// What travels with the call to tools in other programs.
    pub call_metadata: Option<Arc<CallMetadata>>,
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

/// What a tool says while it works, for people to watch; its output is what it returns.
#[derive(Debug, Clone, Default)]
pub struct ProgressSink {
    text_sender: Option<mpsc::Sender<String>>,
    event_sender: Option<mpsc::Sender<Event>>,
}

impl ProgressSink {
    pub fn new(listener: mpsc::Sender<String>) -> Self {
        Self { text_sender: Some(listener), event_sender: None }
    }

    /// Also passes on what runs beneath ask people.
    fn with_event_sender(self, asks: mpsc::Sender<Event>) -> Self {
        Self { event_sender: Some(asks), ..self }
    }

    /// A question of a run the tool waits for, or how it was settled, for those who follow the run that called the tool.
    pub(crate) async fn forward_event(&self, asked: Event) {
        if let Some(asks) = &self.event_sender {
            drop(asks.send(asked).await);
        }
    }

    /// Waits while listeners are behind; without any, what is said is lost.
    pub async fn send_text(&self, text: impl Into<String>) {
        if let Some(listener) = &self.text_sender {
            // Nobody listens any more: nothing is lost that anybody wanted.
            drop(listener.send(text.into()).await);
        }
    }
}
