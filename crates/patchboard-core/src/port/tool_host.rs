//! The port of tool hosts, and the context of a tool call.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::FolderGrant;
use crate::event::Event;
use crate::extensions::{McpServerState, ToolChangeReport};
use crate::id::{MemoryOwner, SessionKey};
use crate::model::ToolCall;
use crate::tool::{CallMetadata, ToolKind, ToolOutput, ToolSpec};

/// A host of tools: built-ins, an MCP server, a plugin, a worker pool, a hub app, an agent.
pub trait ToolHost: Send + Sync + fmt::Debug {
    fn kind(&self) -> ToolKind;

    /// The tools offered for work in `folder`. Must be cheap: called for every run.
    fn tools(&self, folder: Option<&Path>) -> Arc<[ToolSpec]>;

    /// Calls a tool from `tools`; the arguments have passed the schema. Failures are outputs with `is_error`; when
    /// `stop` is cancelled it returns promptly with the output so far.
    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput>;

    /// Whether its tools are made for bridge clients, so that agents get them only if they list them.
    fn is_for_programs(&self) -> bool {
        false
    }

    /// Prefix for a tool whose name is already taken, joined with a dot; `None` if such a tool is not offered at all.
    /// `call` then receives the prefixed name.
    fn qualifier(&self) -> Option<&str> {
        None
    }

    /// The prefix for one tool, for hosts where it differs between tools.
    fn qualifier_for(&self, _tool: &ToolSpec) -> Option<Arc<str>> {
        self.qualifier().map(Into::into)
    }

    /// Who offers the tool: the server, pool, plugin, app or agent, or the kind of host where there is only one.
    fn host_name<'a>(&'a self, _tool: &'a ToolSpec) -> &'a str {
        self.qualifier().unwrap_or(self.kind().name())
    }

    /// Tools that wait for the operator's approval.
    fn pending_changes(&self) -> Vec<ToolChangeReport> {
        Vec::new()
    }

    /// For the host of an MCP server: its state.
    fn mcp_server(&self) -> Option<McpServerState> {
        None
    }

    /// For hosts whose tools need the operator's approval: if this host is the one named `server`, approves its current
    /// tools and returns the names of those that waited. `Err` is a sentence for the operator.
    fn approve<'a>(&'a self, _server: &'a str) -> BoxFuture<'a, Option<Result<Vec<Arc<str>>, String>>> {
        Box::pin(std::future::ready(None))
    }
}

/// Calls workers of one pool by unregistered names. As a `ToolHost` it lists no tools and its qualifier is the pool's
/// name; `call` accepts names with or without that prefix.
pub trait UnregisteredTools: ToolHost {
    /// What is known about a name, given without the pool's prefix.
    fn name_status(&self, name: &str) -> ToolNameStatus;
}

/// A pool's knowledge about a tool name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolNameStatus {
    /// Unknown until a worker is called.
    Untried,
    /// A worker registered it: only the registered tool may be called by that name.
    Registered,
    /// A worker recently replied that it does not have it.
    Unknown,
}

/// The context of a tool call: session, memory owner, working folder.
#[derive(Debug, Clone)]
pub struct ToolScope {
    pub session: SessionKey,
    /// Determines which facts the tool may see.
    pub owner: MemoryOwner,
    /// Working folder, as resolved by `WorkingFolders::resolve`; `None` for the configured folder.
    pub folder: Option<Arc<Path>>,
    /// Keeps a granted folder open for the duration of the run or call, if no configured root contains it.
    pub folder_grant: Option<FolderGrant>,
    pub progress: ProgressSink,
    /// Metadata passed to tools in other processes.
    pub call_metadata: Option<Arc<CallMetadata>>,
}

/// Progress text of a running tool, for human observers; the tool's output is its return value.
#[derive(Debug, Clone, Default)]
pub struct ProgressSink {
    text_sender: Option<mpsc::Sender<String>>,
    event_sender: Option<mpsc::Sender<Event>>,
}

impl ProgressSink {
    pub fn new(text_sender: mpsc::Sender<String>) -> Self {
        Self { text_sender: Some(text_sender), event_sender: None }
    }

    /// Also forwards approval events of nested runs.
    pub(crate) fn with_event_sender(self, event_sender: mpsc::Sender<Event>) -> Self {
        Self { event_sender: Some(event_sender), ..self }
    }

    /// Forwards an approval request of a nested run, or its resolution, to subscribers of the calling run.
    pub(crate) async fn forward_event(&self, event: Event) {
        if let Some(sender) = &self.event_sender {
            drop(sender.send(event).await);
        }
    }

    /// Waits while receivers lag; without a receiver the text is dropped.
    pub async fn send_text(&self, text: impl Into<String>) {
        if let Some(text_sender) = &self.text_sender {
            // A closed receiver discards the text.
            drop(text_sender.send(text.into()).await);
        }
    }
}
