//! Bridge commands: sessions and tools of clients and workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Command;
use crate::tool::{CallMetadata, ToolOutput, ToolSpec};
use crate::worker::{PoolReport, SessionConfig, SessionReport, WorkerId, WorkerTool};

/// Opens a client's session, or continues it: values left out stay unchanged. Replies with the worker tools that can be
/// called in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    pub id: Arc<str>,
    /// Empty: unchanged.
    pub metadata: BTreeMap<String, String>,
    pub config: Option<SessionConfig>,
    /// The calling worker, on a connection of its own.
    pub worker: Option<WorkerId>,
}

/// Registers tools of a client under a session or, on a worker's own connection, tools of that worker. Replies with the
/// registered name and the id of each tool.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisterTools {
    pub session: Arc<str>,
    pub tools: Vec<WorkerTool>,
    /// The client's name for itself.
    pub client_name: Arc<str>,
    /// The calling worker, on a connection of its own.
    pub worker: Option<WorkerId>,
}

/// Restricts which tools a lookup may find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFilter {
    /// Tools of workers and of the server.
    All,
    /// Tools of the server.
    ServerTools,
    /// Tools that stream their result.
    Streaming,
}

/// Calls a tool for a bridge client, through the same executor as every other call. Cancelling the request stops the
/// tool.
#[derive(Debug, Clone)]
pub struct CallInSession {
    pub name: Arc<str>,
    pub arguments: Arc<Value>,
    pub filter: ToolFilter,
    /// Contains the session.
    pub metadata: CallMetadata,
}

impl Command for OpenSession {
    type Reply = Vec<ToolSpec>;
}

/// Ends a client's session and deletes its resources. Replies with the number of deleted resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseSession {
    pub id: Arc<str>,
}

impl Command for CloseSession {
    type Reply = u32;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeSession {
    pub id: Arc<str>,
}

impl Command for DescribeSession {
    type Reply = SessionReport;
}

/// Whether the session exists. A client's call counts as a use of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchSession {
    pub id: Arc<str>,
}

impl Command for TouchSession {
    type Reply = bool;
}

/// Pairs of the name and the id of each registered tool.
pub type ToolIds = Vec<(Arc<str>, Arc<str>)>;

impl Command for RegisterTools {
    type Reply = ToolIds;
}

/// Finds the tool that the name resolves to in the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindTool {
    pub session: Arc<str>,
    pub name: Arc<str>,
    pub filter: ToolFilter,
}

impl Command for FindTool {
    type Reply = ToolSpec;
}

/// The server's own tools that bridge clients may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListHostTools {
    pub session: Arc<str>,
}

impl Command for ListHostTools {
    type Reply = Vec<ToolSpec>;
}

impl Command for CallInSession {
    type Reply = ToolOutput;
    const SPAN: Option<&'static str> = Some("call_in_session");
}

/// Reports on worker pools and their workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListWorkers;

impl Command for ListWorkers {
    type Reply = Vec<PoolReport>;
}
