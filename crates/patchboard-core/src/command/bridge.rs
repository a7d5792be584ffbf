//! Sessions and tools of programs on the bridge.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Command;
use crate::tool::{CallMetadata, ToolOutput, ToolSpec};
use crate::worker::{PoolReport, SessionConfig, SessionReport, WorkerId, WorkerTool};

/// Opens a program's session, or continues it: what is not given stays as it was. Answered with the worker tools that
/// can be called in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    pub id: Arc<str>,
    /// Empty: as it was.
    pub metadata: BTreeMap<String, String>,
    pub config: Option<SessionConfig>,
    /// The worker that asks, on its own line.
    pub worker: Option<WorkerId>,
}

/// Registers tools of a program under a session or, on a worker's own connection, of that worker. Answered with the
/// registered name and the id of each tool.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisterTools {
    pub session: Arc<str>,
    pub tools: Vec<WorkerTool>,
    /// What the program calls itself.
    pub client_name: Arc<str>,
    /// The worker that asks, on its own line.
    pub worker: Option<WorkerId>,
}

/// Which tools a program means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFilter {
    /// Those of workers and those of the server.
    All,
    /// Those of the server.
    ServerTools,
    /// Those that hand over their result piece by piece.
    Streaming,
}

/// Calls a tool for a program, on the path of every call. Cancelling the request stops the tool.
#[derive(Debug, Clone)]
pub struct CallInSession {
    pub name: Arc<str>,
    pub arguments: Arc<Value>,
    pub filter: ToolFilter,
    /// Names the session.
    pub metadata: CallMetadata,
}

impl Command for OpenSession {
    type Reply = Vec<ToolSpec>;
}

/// Ends a program's session and deletes what is stored in it. Answered with the number of deleted resources.
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

/// Whether there is such a session. Asked by a client, it counts as a use of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchSession {
    pub id: Arc<str>,
}

impl Command for TouchSession {
    type Reply = bool;
}

/// The name of each registered tool with its id.
pub type ToolIds = Vec<(Arc<str>, Arc<str>)>;

impl Command for RegisterTools {
    type Reply = ToolIds;
}

/// The tool that a program would reach by that name in its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindTool {
    pub session: Arc<str>,
    pub name: Arc<str>,
    pub filter: ToolFilter,
}

impl Command for FindTool {
    type Reply = ToolSpec;
}

/// The server's own tools that programs may call.
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

/// Pools, their workers and what they do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListWorkers;

impl Command for ListWorkers {
    type Reply = Vec<PoolReport>;
}
