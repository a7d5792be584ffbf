//! Tools in full, the servers and workers behind them, and what waits for approval.

use std::sync::Arc;

use super::{Command, PageRequest};
use crate::extensions::{McpServerReport, ToolChangeReport, ToolReport, WorkerLine};
use crate::store::ResultPage;

/// Tools with their host, limits, decisions and calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeTools {
    /// Only this tool.
    pub name: Option<Arc<str>>,
    pub page: PageRequest,
}

impl Command for DescribeTools {
    type Reply = ResultPage<ToolReport>;
}

/// Tools that wait for approval, with their old and new definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListToolChanges;

impl Command for ListToolChanges {
    type Reply = Vec<ToolChangeReport>;
}

/// The configured MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListMcpServers;

impl Command for ListMcpServers {
    type Reply = Vec<McpServerReport>;
}

/// Replaces one worker or all workers of a pool. A worker finishes its calls after its replacement has started. Replies
/// with the workers that are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartWorkers {
    pub pool: Arc<str>,
    pub worker: Option<Arc<str>>,
}

impl Command for RestartWorkers {
    type Reply = Vec<Arc<str>>;
}

/// The last lines that a worker wrote, after the one with that number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadWorkerLines {
    pub worker: Arc<str>,
    pub after: u64,
}

impl Command for ReadWorkerLines {
    type Reply = Vec<WorkerLine>;
}
