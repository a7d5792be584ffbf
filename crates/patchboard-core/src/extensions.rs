//! What is known about tools, the servers that offer them, and what waits for approval.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::approval::policy::ApprovalMode;
use crate::caller::Surface;
use crate::tool::ToolSpec;

/// A tool with everything that decides about its calls.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReport {
    pub spec: ToolSpec,
    /// The server, pool, plugin, app or agent that offers it.
    pub host: Arc<str>,
    /// Time limit of a call.
    pub timeout: Duration,
    /// What each surface decides, in the order of the surfaces.
    pub decisions: Vec<ToolDecision>,
    /// Since the start of the server.
    pub counts: ToolCounts,
}

/// What the policy decides about calls that come in through one surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDecision {
    pub surface: Surface,
    pub mode: ApprovalMode,
    /// The pattern of the operator's rule; `None` if a default decides.
    pub rule: Option<Arc<str>>,
}

/// The state of an MCP server, as its host knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerState {
    pub name: Arc<str>,
    pub stage: McpServerStage,
    /// How long it has been in this stage.
    pub stage_age: Duration,
    /// Why it was last unavailable.
    pub last_error: Option<Arc<str>>,
    /// The tools that agents can use.
    pub tools: Vec<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpServerStage {
    Starting,
    Ready,
    /// It failed, and is started again after a pause.
    Failed,
}

impl McpServerStage {
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerReport {
    pub state: McpServerState,
    pub since: Timestamp,
}

/// A tool that is not offered until the operator approves its definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolChangeReport {
    /// The MCP server or pool of workers, as `ApproveTools` takes it.
    pub server: Arc<str>,
    pub tool: Arc<str>,
    /// The parts that differ; empty for a new tool.
    pub changed: Vec<&'static str>,
    /// The approved definition; `None` for a new tool, and for one approved before texts were kept.
    pub before: Option<ToolText>,
    pub now: ToolText,
}

/// A definition to read, cut where it is very long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolText {
    pub description: String,
    /// JSON.
    pub input_schema: String,
}

/// A line that a worker wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerLine {
    /// Counts the lines of the worker from 1.
    pub number: u64,
    pub text: String,
}

/// Calls of one tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolCounts {
    pub calls: u64,
    /// Those of them that ended with an error, refusals included.
    pub failures: u64,
}

impl ToolCounts {
    pub(crate) fn add(&mut self, is_failure: bool) {
        self.calls += 1;
        self.failures += u64::from(is_failure);
    }
}
