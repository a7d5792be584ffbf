//! Types of replies.

use std::sync::Arc;

use jiff::Timestamp;

use crate::app::{AppDelivery, AppProfile};
use crate::event::{Envelope, InputRequest};
use crate::id::{RunId, Seq, SessionKey};
use crate::keys::{KeyRights, KeySource, KeySpec};
use crate::model::MessageRole;
use crate::run_spec::AgentSource;
use crate::store::{AccountContents, ListedRun, ResultPage, TurnRow};
use crate::worker::PoolReport;

/// The past turns of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionHistory {
    pub session: SessionKey,
    pub turns: ResultPage<TurnRow>,
}

/// What is stored of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountReport {
    pub contents: AccountContents,
    /// Runs of the account that have not ended.
    pub live_runs: u64,
}

/// What was deleted of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgottenAccount {
    pub contents: AccountContents,
    /// Open deliveries that were dropped.
    pub deliveries: u64,
    pub cancelled_runs: u64,
}

/// Messages of a thread, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPage {
    pub messages: Vec<ThreadMessage>,
    /// There are older messages.
    pub has_more: bool,
}

/// Why a registration was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationRefusal {
    /// The connection is already registered as an app.
    AlreadyRegistered,
    /// Another live connection has the name.
    NameTaken,
    /// Requires the operator's approval.
    NotApproved,
    WrongToken,
}

#[derive(Debug, Clone, PartialEq)]
pub enum InboxEvent {
    Deliver(Arc<AppDelivery>),
    /// Another connection requests the name: this one must prove within two seconds that it is alive.
    ProveAlive,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AppSummary {
    pub profile: AppProfile,
    pub is_connected: bool,
    pub is_approved: bool,
    /// When it registered or, if disconnected, was last seen.
    pub since: Timestamp,
    /// Deliveries without a response so far.
    pub pending: usize,
    /// Number of training examples of the matcher for this app.
    pub training_examples: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    pub run: RunId,
    pub session: SessionKey,
    pub client_id: Arc<str>,
    pub last_seq: Seq,
}

/// A text message of a user or an agent, without tool calls and results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadMessage {
    /// Ascending along the thread, with gaps.
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

/// The models that a run can use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelReport {
    /// Grouped by provider.
    pub models: Vec<ModelSummary>,
    /// Providers that could not list their models: any name may be chosen.
    pub unavailable: Vec<UnlistedProvider>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSummary {
    /// `provider/model`
    pub id: Arc<str>,
    /// Display name.
    pub name: Arc<str>,
    pub provider: Arc<str>,
    /// The agent's default model.
    pub is_default: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlistedProvider {
    pub provider: Arc<str>,
    pub reason: Arc<str>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PendingInput {
    pub request: InputRequest,
    pub run: RunId,
    pub session: SessionKey,
}

/// A run and what it waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReport {
    pub run: ListedRun,
    /// Oldest first; empty unless it is under way.
    pub waits: Vec<RunWait>,
}

/// What a run waits for.
#[derive(Debug, Clone, PartialEq)]
pub enum RunWait {
    /// A tool call of this run, or of one that it waits for, needs an answer.
    Input(PendingInput),
}

/// Stored events of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPage {
    pub events: Vec<Arc<Envelope>>,
    /// The number to read on from; `None` after the run's last event.
    pub next: Option<Seq>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    pub version: &'static str,
    pub plugins: u64,
    /// Stored sessions of chats and channels that are not cleared.
    pub sessions: u64,
    pub live_runs: u64,
}

/// Status of the server, for the operator.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerReport {
    pub node: NodeReport,
    /// It accepts no new work.
    pub is_draining: bool,
    /// In configuration order.
    pub agents: Vec<AgentModel>,
    /// Number of open approvals, client tool calls and questions.
    pub approvals: u64,
    pub budget: BudgetReport,
    pub pools: Vec<PoolReport>,
    pub connected_apps: u64,
    pub known_apps: u64,
}

/// The model of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentModel {
    pub agent: Arc<str>,
    pub provider: Arc<str>,
    /// Empty: the provider's default.
    pub model: Arc<str>,
}

/// Result of reading the configuration again. Contains configuration keys, never values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReloadReport {
    /// If not empty, nothing was applied: the errors, each with its location and a remedy.
    pub problems: Vec<Arc<str>>,
    /// Remarks: settings without effect, and the provider that is used if none is configured.
    pub notes: Vec<Arc<str>>,
    /// Keys that were applied.
    pub changed: Vec<Arc<str>>,
    /// Changed keys that take effect at the next start.
    pub needs_restart: Vec<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUsage {
    pub used: u64,
    pub reserved: u64,
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetReport {
    pub session: Option<BudgetUsage>,
    pub daily: BudgetUsage,
    pub monthly: BudgetUsage,
    /// By name: all keys for an overseer or the operator, its own for the client of a key.
    pub keys: Vec<KeyBudgetUsage>,
    /// Budgets of single spenders, in configuration order.
    pub spenders: Vec<SpenderBudget>,
}

/// The budgets of one spender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpenderBudget {
    pub spender: Spender,
    pub daily: BudgetUsage,
    pub monthly: BudgetUsage,
}

/// What clients of a key used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyBudgetUsage {
    pub key: Arc<str>,
    pub daily: BudgetUsage,
    pub monthly: BudgetUsage,
}

/// A key without its secret or its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyReport {
    pub name: Arc<str>,
    pub source: KeySource,
    pub rights: KeyRights,
}

impl KeyReport {
    pub(crate) fn of(key: &KeySpec) -> Self {
        Self { name: key.name.clone(), source: key.source, rights: key.rights.clone() }
    }
}

/// Who has a budget besides those of the whole server and of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spender {
    Agent(Arc<str>),
}
