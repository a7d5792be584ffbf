//! What a command is answered with, at once and once.

use std::sync::Arc;

use crate::budget::BudgetReport;
use crate::event::ApprovalRequest;
use crate::id::{RunId, Seq, SessionKey};
use crate::model::Role;
use crate::port::{Fact, Page, SessionRow, TurnRow, UsageGroup};
use crate::tool::{ToolOutput, ToolSpec};

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Done,
    /// The run is on record; follow its topic from the first event.
    RunStarted(RunId),
    Run(RunSummary),
    Approvals(Page<PendingApproval>),
    Sessions(Page<SessionRow>),
    History {
        session: SessionKey,
        turns: Page<TurnRow>,
    },
    /// Oldest first.
    Messages {
        messages: Vec<StoredMessage>,
        has_more: bool,
    },
    Facts(Page<Fact>),
    Budget(BudgetReport),
    Usage(Page<UsageGroup>),
    Tools(Page<ToolSpec>),
    ToolCalled(ToolOutput),
    /// Those that waited for it.
    ToolsApproved(Vec<Arc<str>>),
    Agents(Vec<AgentSummary>),
    Plugins(Vec<PluginSummary>),
    Node(NodeReport),
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    pub run: RunId,
    pub session: SessionKey,
    pub client_id: Arc<str>,
    pub last_seq: Seq,
}

/// What a user or an agent said, without tool calls and results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Grows along the thread; not every number is used.
    pub seq: u64,
    pub role: Role,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSummary {
    pub name: Arc<str>,
    pub description: Option<Arc<str>>,
    /// A strategy of the default agent, or an agent of the configuration.
    pub is_built_in: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PendingApproval {
    pub request: ApprovalRequest,
    pub run: RunId,
    pub session: SessionKey,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSummary {
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    pub version: &'static str,
    pub plugins: u64,
    pub sessions: u64,
    pub live_runs: u64,
}
