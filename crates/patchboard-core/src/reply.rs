//! What a command is answered with, at once and once.

use std::sync::Arc;

use crate::budget::BudgetReport;
use crate::event::ApprovalRequest;
use crate::id::{RunId, Seq, SessionKey};
use crate::port::{Fact, Page, SessionRow, TurnRow, UsageGroup};
use crate::tool::ToolSpec;

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
    Facts(Page<Fact>),
    Budget(BudgetReport),
    Usage(Page<UsageGroup>),
    Tools(Page<ToolSpec>),
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
