//! What a command is answered with, at once and once.

use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use crate::app::message::{MessageReport, RoutingDecision};
use crate::app::{AppDelivery, AppProfile};
use crate::conversation::{Workspace, WorkspaceThread};
use crate::event::ApprovalRequest;
use crate::id::{RunId, Seq, SessionKey};
use crate::model::MessageRole;
use crate::plugin::PluginReport;
use crate::run_spec::AgentSource;
use crate::store::{FactRow, ResultPage, SessionRow, TurnRow, UsageGroup};
use crate::tool::{ToolOutput, ToolSpec};
use crate::webhook::WebhookOutcome;
use crate::worker::{PoolReport, SessionReport};

#[derive(Debug, Clone, PartialEq)]
pub enum BoardReply {
    Done,
    /// The run is on record; follow its topic from the first event.
    RunStarted(RunId),
    Run(RunSummary),
    Approvals(ResultPage<PendingApproval>),
    Sessions(ResultPage<SessionRow>),
    History {
        session: SessionKey,
        turns: ResultPage<TurnRow>,
    },
    /// Oldest first.
    Messages {
        messages: Vec<ThreadMessage>,
        has_more: bool,
    },
    Facts(ResultPage<FactRow>),
    Budget(BudgetReport),
    Usage(ResultPage<UsageGroup>),
    Tools(ResultPage<ToolSpec>),
    ToolCalled(ToolOutput),
    /// Those that waited for it.
    ToolsApproved(Vec<Arc<str>>),
    Agents(Vec<AgentSummary>),
    Models(ModelReport),
    /// As `provider/model`; `None` for the agent's own.
    ModelSet(Option<Arc<str>>),
    /// In the order they were made.
    Workspaces(Vec<Workspace>),
    Workspace(Workspace),
    WorkspaceThreads(Vec<WorkspaceThread>),
    Plugins(Vec<PluginReport>),
    Plugin(Box<PluginReport>),
    Webhook(WebhookOutcome),
    Node(NodeReport),
    Server(Box<ServerReport>),
    Reloaded(Box<ReloadReport>),
    Message(Arc<MessageReport>),
    MessageList(ResultPage<Arc<MessageReport>>),
    RoutingExplained(Arc<RoutingDecision>),
    /// The app is registered, under this name of its connection.
    AppRegistered {
        client: Uuid,
    },
    AppNotRegistered(RegistrationRefusal),
    InboxEvent(InboxEvent),
    Apps(Vec<AppSummary>),
    /// The session is open; these are the tools of workers that can be called in it.
    SessionOpened(Vec<ToolSpec>),
    /// So many things went with it.
    SessionClosed {
        resources: u32,
    },
    BridgeSession(SessionReport),
    SessionTouched {
        exists: bool,
    },
    /// What each of the tools is called from now on.
    ToolsRegistered(Vec<(Arc<str>, Arc<str>)>),
    Tool(ToolSpec),
    HostTools(Vec<ToolSpec>),
    Workers(Vec<PoolReport>),
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
