//! The port of everything that offers tools, and what such a host is told about a call.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::FolderGrant;
use crate::event::Event;
use crate::id::{MemoryOwner, SessionKey};
use crate::model::ToolCall;
use crate::tool::{CallMetadata, ToolKind, ToolOutput, ToolSpec};

/// Something that offers tools: built-ins, an MCP server, a plugin, a worker, a hub app, an agent.
pub trait ToolHost: Send + Sync + fmt::Debug {
    fn kind(&self) -> ToolKind;

    /// The tools it offers now to work in `folder`. Cheap: called for every run.
    fn tools(&self, folder: Option<&Path>) -> Arc<[ToolSpec]>;

    /// Runs one call whose name came from `tools` and whose arguments passed the schema.
    /// Failures are outputs with `is_error`; when `stop` is cancelled it returns promptly with whatever it has.
    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput>;

    /// Are its tools made for programs, so that agents get them only if they list them?
    fn is_for_programs(&self) -> bool {
        false
    }

    /// What comes before the name of a tool that is taken by another, with a point between; `None` where such a tool is
    /// not offered at all. `call` then gets the longer name.
    fn qualifier(&self) -> Option<&str> {
        None
    }

    /// The same, where it is not the same for all its tools.
    fn qualifier_for(&self, _tool: &ToolSpec) -> Option<Arc<str>> {
        self.qualifier().map(Into::into)
    }

    /// Where tools are not offered before the operator has seen them: if this host is the one named `server`, all that
    /// it has now is approved, and the answer names those that waited for it. `Err` is a sentence for the operator.
    fn approve<'a>(&'a self, _server: &'a str) -> BoxFuture<'a, Option<Result<Vec<Arc<str>>, String>>> {
        Box::pin(std::future::ready(None))
    }
}

/// Calls the workers of one pool by names that they never registered. As a `ToolHost` it lists no tools and its
/// qualifier is the pool's name; `call` takes a name with the pool's before it or without.
pub trait UnregisteredTools: ToolHost {
    /// What is known about a name, without the pool's before it.
    fn name_status(&self, name: &str) -> ToolNameStatus;
}

/// What a pool knows about the name of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolNameStatus {
    /// Only a call can tell whether a worker has it.
    Untried,
    /// A worker registered it: only what is offered under that name may be called.
    Registered,
    /// A worker said a moment ago that it does not have it.
    Unknown,
}

/// For whom and where a tool works.
#[derive(Debug, Clone)]
pub struct ToolScope {
    pub session: SessionKey,
    /// Whose facts it may see.
    pub owner: MemoryOwner,
    /// Where file tools work, as `WorkingFolders::resolve` named it; `None` for the folder of the configuration.
    pub folder: Option<Arc<Path>>,
    /// Keeps the folder open while the run or call lasts, where no configured root contains it.
    pub folder_grant: Option<FolderGrant>,
    pub progress: ProgressSink,
    /// What travels with the call to tools in other programs.
    pub call_metadata: Option<Arc<CallMetadata>>,
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

    /// Also passes on the approvals that nested runs ask for.
    pub(crate) fn with_event_sender(self, asks: mpsc::Sender<Event>) -> Self {
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
            // Without a receiver the text has no use.
            drop(listener.send(text.into()).await);
        }
    }
}
