//! Types of replies.

use std::sync::Arc;

use jiff::Timestamp;

use crate::app::{AppDelivery, AppProfile};
use crate::event::ApprovalRequest;
use crate::id::{RunId, Seq, SessionKey};
use crate::model::MessageRole;
use crate::run_spec::AgentSource;
use crate::store::{ResultPage, TurnRow};
use crate::worker::PoolReport;

/// The past turns of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionHistory {
    pub session: SessionKey,
    pub turns: ResultPage<TurnRow>,
}

/// Messages of a thread, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPage {
    pub messages: Vec<ThreadMessage>,
    /// There are older ones.
    pub has_more: bool,
}

/// Why a connection did not become an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationRefusal {
    /// This connection is an app already.
    AlreadyRegistered,
    /// Another living connection has the name.
    NameTaken,
    /// The operator has to approve it first.
    NotApproved,
    WrongToken,
}

#[derive(Debug, Clone, PartialEq)]
pub enum InboxEvent {
    Deliver(Arc<AppDelivery>),
    /// Another connection wants the name: prove within two seconds that this one is alive.
    ProveAlive,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AppSummary {
    pub profile: AppProfile,
    pub is_connected: bool,
    pub is_approved: bool,
    /// When it registered or, if it is gone, when it was last seen.
    pub since: Timestamp,
    /// Messages it has not answered yet.
    pub pending: usize,
    /// How many messages the matcher learned from about it.
    pub training_examples: u64,
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
pub struct ThreadMessage {
    /// Grows along the thread; not every number is used.
    pub seq: u64,
    pub role: MessageRole,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSummary {
    pub name: Arc<str>,
    pub description: Option<Arc<str>>,
    pub source: AgentSource,
}

/// The models a run can be given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelReport {
    /// Grouped by provider.
    pub models: Vec<ModelSummary>,
    /// Providers that could not say what they offer: any model of theirs may be chosen.
    pub unavailable: Vec<UnlistedProvider>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSummary {
    /// `provider/model`
    pub id: Arc<str>,
    /// For people.
    pub name: Arc<str>,
    pub provider: Arc<str>,
    /// What the agent works with unless told otherwise.
    pub is_default: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlistedProvider {
    pub provider: Arc<str>,
    pub reason: Arc<str>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PendingApproval {
    pub request: ApprovalRequest,
    pub run: RunId,
    pub session: SessionKey,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    pub version: &'static str,
    pub plugins: u64,
    /// Stored conversations of chats and channels that are not cleared.
    pub sessions: u64,
    pub live_runs: u64,
}

/// What the operator wants to know of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerReport {
    pub node: NodeReport,
    /// It takes no new work.
    pub is_draining: bool,
    /// In the order of the configuration.
    pub agents: Vec<AgentModel>,
    /// Tool calls that wait for an answer.
    pub approvals: u64,
    pub budget: BudgetReport,
    pub pools: Vec<PoolReport>,
    pub connected_apps: u64,
    pub known_apps: u64,
}

/// With which model an agent works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentModel {
    pub agent: Arc<str>,
    pub provider: Arc<str>,
    /// Empty means the provider's own default.
    pub model: Arc<str>,
}

/// What came of reading the configuration anew. Keys are written as in the configuration; values are never told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReloadReport {
    /// Set, nothing was taken over: what is wrong, with the place and what to do.
    pub problems: Vec<Arc<str>>,
    /// Worth knowing: what does not count as it is, and which provider is used where none is configured.
    pub notes: Vec<Arc<str>>,
    /// Taken over.
    pub changed: Vec<Arc<str>>,
    /// Changed as well; they count from the next start on.
    pub needs_restart: Vec<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUsage {
    pub used: u64,
    pub reserved: u64,
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetReport {
    pub session: Option<BudgetUsage>,
    pub daily: BudgetUsage,
    pub monthly: BudgetUsage,
}
