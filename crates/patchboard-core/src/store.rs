//! The store port: writes are batches, each one transaction; reads are narrow and bounded.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use jiff::Timestamp;

use crate::app::message::MessageState;
use crate::event::{Envelope, InputAnswer, InputRequest, RunOutcome, Topic};
use crate::id::{InputId, MemoryOwner, MessageId, NodeId, RunId, Seq, SessionKey, TenureId};
use crate::model::{ModelMessage, TokenCount};
use crate::run_spec::StrategyKind;
use crate::webhook::{DeliveryId, DeliveryState};

mod accounts;
mod run_list;
mod turn_search;
mod writes;

pub use accounts::{
    AccountContents, AccountRow, AccountStore, AccountTurn, AuditSubject, EraseExtent, FORGOTTEN, FactListQuery,
    FactRecord, Superseded,
};
pub use run_list::{ListedRun, RunFilter, RunModel, RunQuery, RunUsage, StoredStateFilter};
pub use turn_search::{FoundTurn, TurnSearch, TurnSearchQuery};
pub use writes::{Durability, ExpectedVersion, KvEntry, OrderKey, StoreWrite, WriteBatch};

/// Durable state. A commit that returned `Ok` survives `kill -9`; a `Boundary` commit also survives a power failure.
pub trait Store: AccountStore + TurnSearch + Send + Sync + fmt::Debug {
    /// Writes all of the batch or nothing. Batches with the same [`OrderKey`] are applied in call order.
    fn commit(&self, batch: WriteBatch) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The tenure in which this process writes. Once it has ended, every commit is refused as `Fenced`.
    fn tenure(&self) -> TenureId;

    /// Takes over unfinished runs that belong to no living process, and those of this process that are not `held`:
    /// oldest first, at most `limit`, each with its open model calls.
    fn adopt_runs(&self, held: HashSet<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<UnfinishedRun>, StoreError>>;

    /// The same for deliveries that are not in a final state.
    fn adopt_deliveries(
        &self,
        held: HashSet<DeliveryId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DeliveryRow>, StoreError>>;

    /// Takes a role unless another living process has it; `true` if this process has it now.
    fn claim_role(&self, role: NodeRole) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Stores a new delivery, unless `earlier` finds one: looks and inserts in one step, so that two processes that
    /// receive the same webhook accept it once.
    fn take_delivery(
        &self,
        row: DeliveryRow,
        earlier: EarlierDelivery,
    ) -> BoxFuture<'_, Result<TakenDelivery, StoreError>>;

    /// Records of a topic whose last number is at or after `from`, in order, at most `limit`.
    fn events(&self, topic: &Topic, from: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>>;
    /// The topic's last used number; `Seq(0)` if nothing is stored.
    fn last_seq(&self, topic: &Topic) -> BoxFuture<'_, Result<Seq, StoreError>>;

    fn run(&self, run: RunId) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>>;
    /// The principal's newest run with that client id.
    fn latest_run_by_client_id(
        &self,
        principal: &str,
        client_id: &str,
    ) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>>;
    /// The session's newest run.
    fn latest_run_of_session(&self, session: &SessionKey) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>>;
    /// Runs with what lists show of them, newest first.
    fn runs(&self, query: RunQuery) -> BoxFuture<'_, Result<ResultPage<ListedRun>, StoreError>>;
    /// Runs without a `CloseRun`, oldest first, each with its open model calls.
    fn unfinished_runs(&self) -> BoxFuture<'_, Result<Vec<UnfinishedRun>, StoreError>>;

    /// What runs wait for, oldest first; of one run or of all, at most `limit`. Answered ones are included until their
    /// run has taken note of the answer.
    fn inputs(&self, run: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<InputRow>, StoreError>>;
    fn input(&self, input: InputId) -> BoxFuture<'_, Result<Option<InputRow>, StoreError>>;

    fn session(&self, key: &SessionKey) -> BoxFuture<'_, Result<Option<SessionRow>, StoreError>>;
    /// Most recently used first; cleared sessions are left out.
    fn sessions(
        &self,
        filter: SessionFilter,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<SessionRow>, StoreError>>;
    /// Number of sessions that are not cleared, except those of the given channels.
    fn count_sessions(&self, excluded_channels: &'static [&'static str]) -> BoxFuture<'_, Result<u64, StoreError>>;
    /// Turns after the session's clear marker.
    fn turns(&self, query: TurnQuery) -> BoxFuture<'_, Result<ResultPage<TurnRow>, StoreError>>;

    /// Current facts of one owner: best matches for the text first, then the newest.
    fn facts(&self, query: FactQuery) -> BoxFuture<'_, Result<ResultPage<FactRow>, StoreError>>;

    /// The value under that key, with its version.
    fn kv_entry(&self, namenamespace: &KvNamespace, key: &str) -> BoxFuture<'_, Result<Option<KvEntry>, StoreError>>;

    /// The value under that key.
    fn kv_get<'a>(
        &'a self,
        namespace: &'a KvNamespace,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        Box::pin(async move { Ok(self.kv_entry(namespace, key).await?.map(|entry| entry.value)) })
    }

    /// Keys of the namespace that begin with `prefix` and follow `after`, in byte order.
    fn kv_keys(
        &self,
        namespace: &KvNamespace,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;
    fn kv_usage(&self, namespace: &KvNamespace) -> BoxFuture<'_, Result<KvUsage, StoreError>>;

    /// The delivery with that channel and key.
    fn delivery(&self, channel: &str, key: &str) -> BoxFuture<'_, Result<Option<DeliveryRow>, StoreError>>;

    /// Newest first. A page may be short, even empty, and have a next one: a call looks at a bounded number of rows.
    fn deliveries(&self, query: DeliveryQuery) -> BoxFuture<'_, Result<ResultPage<DeliveryRow>, StoreError>>;

    /// Deliveries that are not in a final state, oldest first.
    fn open_deliveries(&self) -> BoxFuture<'_, Result<Vec<DeliveryRow>, StoreError>>;

    /// Newest first.
    fn messages(&self, query: MessageQuery) -> BoxFuture<'_, Result<ResultPage<MessageRow>, StoreError>>;
    /// Messages that are not in a final state, oldest first.
    fn open_messages(&self) -> BoxFuture<'_, Result<Vec<MessageRow>, StoreError>>;

    /// Tokens counted so far, one figure per scope, in order.
    fn tokens_spent(&self, scopes: Vec<BudgetScope>) -> BoxFuture<'_, Result<Vec<u64>, StoreError>>;
    fn usage(&self, query: UsageQuery) -> BoxFuture<'_, Result<ResultPage<UsageGroup>, StoreError>>;
    /// Newest first. A page may be short, even empty, and have a next one: a call looks at a bounded number of rows.
    fn read_audit(&self, query: AuditQuery) -> BoxFuture<'_, Result<ResultPage<AuditRow>, StoreError>>;
    /// The whole trail, newest first.
    fn audit(
        &self,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<AuditRow>, StoreError>> {
        self.read_audit(AuditQuery { filter: AuditFilter::default(), limit, cursor })
    }

    /// Deletes data past its retention. Bounded work per call; `true` if more is left.
    fn prune(&self, retention: RetentionCutoffs) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Finishes pending requests and closes. Later calls return `Closed`.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the write queue is full")]
    Busy,
    #[error("the store is closed")]
    Closed,
    /// The tenure of the writer has ended: another process may have taken its work over. Never retried.
    #[error("another process has taken over this process's work")]
    Fenced,
    /// A value is not of the version that a write expected.
    #[error("the value was changed meanwhile")]
    Conflict,
    /// Cursors come from clients and may contain anything.
    #[error("the cursor is not one of this list")]
    BadCursor,
    /// The disk is full.
    #[error("storage is full")]
    Full,
    #[error("failed to {attempted}")]
    Failed {
        attempted: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("stored {what} cannot be read")]
    Corrupt {
        what: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Retention. Turns, facts, usage and audit rows are not pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionCutoffs {
    /// Runs and messages that ended before this are deleted with all their data.
    pub runs_before: Timestamp,
    /// The events of runs that ended before this are folded: adjacent records of streamed text become one, which keeps
    /// numbers and pieces and has the time of the first.
    pub events_before: Timestamp,
}

/// Work that one process does for all that share the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeRole {
    /// The roster of apps and the actors of messages.
    Hub,
    /// Retention, schedules and other periodic work.
    Maintenance,
}

impl NodeRole {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Maintenance => "maintenance",
        }
    }
}

/// Which earlier delivery counts as the same as a new one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EarlierDelivery {
    /// Further deduplication keys besides the row's own.
    pub keys: Vec<Arc<str>>,
    /// A delivery under a further key counts only if it was received after this.
    pub not_before: Option<Timestamp>,
}

/// What became of a new delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum TakenDelivery {
    Stored,
    /// An earlier one was found, and nothing was stored.
    Earlier(DeliveryRow),
}

/// A channel message on its way to an agent, and its answer on the way back.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryRow {
    pub id: DeliveryId,
    pub channel: Arc<str>,
    /// Deduplication key within the channel.
    pub key: Arc<str>,
    pub state: DeliveryState,
    pub received_at: Timestamp,
    /// When the state last changed; final rows are pruned by it.
    pub changed_at: Timestamp,
    /// The message and the requests to send, encoded by `record`.
    pub body: Vec<u8>,
}

/// Which deliveries to list. Values left out match every delivery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryQuery {
    pub channel: Option<Arc<str>>,
    pub state: Option<DeliveryState>,
    pub limit: usize,
    pub cursor: Option<PageCursor>,
}

/// Usage of a namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KvUsage {
    pub keys: u64,
    /// Total size of keys and values.
    pub bytes: u64,
}

/// Indexed fields of a message; the rest is in its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageRow {
    pub message: MessageId,
    pub state: MessageState,
    pub submitted_at: Timestamp,
    /// When the state last changed; final rows are pruned by it.
    pub changed_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct MessageQuery {
    pub state: Option<MessageState>,
    pub limit: usize,
    pub cursor: Option<PageCursor>,
}

/// Namespaces of the key-value store. Clearing a session with `purge` deletes its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KvNamespace {
    Session(SessionKey),
    /// The server's own values, such as pins.
    Server,
    /// A key-value store shared by plugins, by name.
    Plugins(Arc<str>),
}

/// Opaque position in a list, encoded by the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCursor(pub String);

#[derive(Debug, Clone, PartialEq)]
pub struct ResultPage<T> {
    pub items: Vec<T>,
    pub next: Option<PageCursor>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    pub run: RunId,
    pub session: SessionKey,
    pub principal: Arc<str>,
    pub client_id: Arc<str>,
    pub surface: Arc<str>,
    pub agent: Arc<str>,
    pub strategy: StrategyKind,
    pub started_at: Timestamp,
    /// The user's message, so that an interrupted run can be distinguished from an empty one.
    pub input: Arc<str>,
    pub state: RunState,
    /// What was asked for of it while it ran.
    pub requests: RunRequests,
}

/// A lasting request to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunRequestKind {
    /// To end as cancelled.
    Cancel,
    /// To continue without followers.
    Detach,
}

/// The requests that were stored for a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunRequests {
    pub cancel: bool,
    pub detach: bool,
}

impl RunRequests {
    pub fn add(&mut self, request: RunRequestKind) {
        match request {
            RunRequestKind::Cancel => self.cancel = true,
            RunRequestKind::Detach => self.detach = true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    Running,
    Ended(RunOutcome),
}

#[derive(Debug, Clone, PartialEq)]
pub struct UnfinishedRun {
    pub run: RunRow,
    pub open_calls: Vec<ModelCallRow>,
}

/// Something that a run waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct InputRow {
    pub run: RunId,
    pub session: SessionKey,
    /// Whose run it is.
    pub principal: Arc<str>,
    pub asked_at: Timestamp,
    pub request: InputRequest,
    /// The first answer and who gave it.
    pub answer: Option<(InputAnswer, Arc<str>)>,
}

/// An active model call. `number` counts the calls of its run from 1; (run, number) is its identity.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCallRow {
    pub run: RunId,
    pub number: u32,
    pub session: SessionKey,
    pub agent: Arc<str>,
    pub provider: Arc<str>,
    pub model: Arc<str>,
    pub estimated_input: u64,
    pub reserved: u64,
    /// The run's next free sequence number when the call started: text from here on is the call's output.
    pub first_seq: Seq,
    /// The node that made the call; several nodes of a run may call models concurrently.
    pub node: Option<NodeId>,
    /// The key whose budget it is charged to.
    pub key: Option<Arc<str>>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct UsageRow {
    pub run: RunId,
    pub number: u32,
    pub at: Timestamp,
    pub session: SessionKey,
    pub agent: Arc<str>,
    pub provider: Arc<str>,
    pub model: Arc<str>,
    pub tokens: TokenCount,
    pub cost_nanousd: u64,
    pub estimated: bool,
    pub scopes: Vec<BudgetScope>,
}

/// What a budget is counted over. Dates are UTC.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BudgetScope {
    /// Clearing a session does not reset its budget.
    Session(SessionKey),
    Day(jiff::civil::Date),
    Month {
        year: i16,
        month: i8,
    },
    AgentDay(Arc<str>, jiff::civil::Date),
    AgentMonth {
        agent: Arc<str>,
        year: i16,
        month: i8,
    },
    /// All runs that clients of a key started.
    KeyDay(Arc<str>, jiff::civil::Date),
    KeyMonth {
        key: Arc<str>,
        year: i16,
        month: i8,
    },
}

impl BudgetScope {
    /// Storage key: unique and stable.
    pub fn key(&self) -> String {
        match self {
            Self::Session(key) => format!("session/{key}"),
            Self::Day(date) => format!("day/{date}"),
            Self::Month { year, month } => format!("month/{year:04}-{month:02}"),
            Self::AgentDay(agent, date) => format!("agent-day/{date}/{agent}"),
            Self::AgentMonth { agent, year, month } => format!("agent-month/{year:04}-{month:02}/{agent}"),
            Self::KeyDay(key, date) => format!("key-day/{date}/{key}"),
            Self::KeyMonth { key, year, month } => format!("key-month/{year:04}-{month:02}/{key}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewTurn {
    pub session: SessionKey,
    pub run: RunId,
    pub at: Timestamp,
    /// The user's message, then all messages of the agent and its tool results.
    pub messages: Vec<ModelMessage>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TurnRow {
    /// Grows with every stored turn; the position in the history.
    pub number: u64,
    pub run: RunId,
    pub at: Timestamp,
    pub messages: Vec<ModelMessage>,
}

/// The newest `limit` turns before the cursor, returned oldest first.
#[derive(Debug, Clone)]
pub struct TurnQuery {
    pub session: SessionKey,
    pub limit: usize,
    pub before: Option<PageCursor>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    pub key: SessionKey,
    /// The principal whose run created it; unknown if that run was never recorded.
    pub owner: Option<Arc<str>>,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    pub turns: u64,
    /// From the first words of its first message, or as the user named it.
    pub title: Option<Arc<str>>,
    pub is_hidden: bool,
}

/// A copy of a session's beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFork {
    pub from: SessionKey,
    /// The last turn to copy. At most `MAX_FORKED_TURNS` before it are copied too, the newest.
    pub through: u64,
    pub into: SessionKey,
    pub owner: Arc<str>,
    pub title: Option<Arc<str>>,
    pub at: Timestamp,
}

/// Most turns copied into a fork. An agent is shown only a few of them; the rest is for the reader.
pub const MAX_FORKED_TURNS: u64 = 1000;

/// Which sessions a list contains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HiddenSessions {
    #[default]
    LeftOut,
    Included,
    Only,
}

impl HiddenSessions {
    pub fn admits(self, is_hidden: bool) -> bool {
        match self {
            Self::LeftOut => !is_hidden,
            Self::Included => true,
            Self::Only => is_hidden,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    pub channel: Option<String>,
    pub account: Option<String>,
    pub hidden: HiddenSessions,
    /// Restricts to sessions created by one of these principals.
    pub owners: Option<Vec<Arc<str>>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewFact {
    pub owner: MemoryOwner,
    pub subject: String,
    pub predicate: String,
    pub object: String,
    pub confidence: f32,
    pub session: SessionKey,
    /// The run in whose turn it was stated; `None` if a tool stored it or a person corrected it.
    pub run: Option<RunId>,
    pub learned_at: Timestamp,
    /// Name of the vector space and embedding of the fact's sentence, if an embedding model is configured.
    pub embedding: Option<(Arc<str>, Vec<f32>)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FactRow {
    pub number: u64,
    pub subject: String,
    pub predicate: String,
    pub object: String,
    pub confidence: f32,
    pub session: SessionKey,
    pub learned_at: Timestamp,
    /// Relevance to the query, higher is better; 0 for facts that were added only because they are recent.
    pub score: f32,
}

#[derive(Debug, Clone)]
pub struct FactQuery {
    pub owner: MemoryOwner,
    /// Any text: only its words are used, so it cannot contain query syntax.
    pub text: String,
    /// Also ranks by similarity to this vector, among facts of the same space.
    pub embedding: Option<(Arc<str>, Vec<f32>)>,
    pub limit: usize,
    /// Fills up to `limit` with the newest facts if fewer match.
    pub fill_with_recent: bool,
    pub cursor: Option<PageCursor>,
}

#[derive(Debug, Clone)]
pub struct UsageQuery {
    pub since: Option<Timestamp>,
    pub group_by: UsageGrouping,
    /// A second key within each group.
    pub then_by: Option<UsageGrouping>,
    /// Restricts to sessions created by one of these principals.
    pub owners: Option<Vec<Arc<str>>>,
    pub limit: usize,
    pub cursor: Option<PageCursor>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageGrouping {
    Day,
    Model,
    Provider,
    Agent,
    Session,
}

/// One row of a usage report: newest day first where one key is the day, else highest cost first.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageGroup {
    pub key: String,
    /// The second key, if the report has one.
    pub then: Option<String>,
    pub calls: u64,
    pub tokens: TokenCount,
    pub cost_nanousd: u64,
    /// Calls whose figures are estimates.
    pub estimated_calls: u64,
}

/// Which audit rows to read. Values left out match every row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// At this time or later.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    pub principal: Option<String>,
    pub surface: Option<String>,
    /// An action, or its first part: `tool` matches `tool.call` and `tool.intent`.
    pub action: Option<String>,
    pub subject: Option<String>,
    pub run: Option<RunId>,
}

impl AuditFilter {
    pub fn matches(&self, row: &AuditRow) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
        self.since.is_none_or(|since| row.at >= since)
            && self.until.is_none_or(|until| row.at < until)
            && is(&self.principal, &row.principal)
            && is(&self.surface, &row.surface)
            && self.action.as_ref().is_none_or(|action| is_action(action, &row.action))
            && is(&self.subject, &row.subject)
            && self.run.is_none_or(|run| row.run == Some(run))
    }
}

fn is_action(wanted: &str, action: &str) -> bool {
    action.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[derive(Debug, Clone)]
pub struct AuditQuery {
    pub filter: AuditFilter,
    pub limit: usize,
    pub cursor: Option<PageCursor>,
}

/// An audited action; never edited, never deleted by a purge.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    pub at: Timestamp,
    pub principal: Arc<str>,
    pub surface: Arc<str>,
    pub action: Arc<str>,
    pub subject: AuditSubject,
    pub run: Option<RunId>,
    /// Plain text without prompts or arguments.
    pub detail: Arc<str>,
}
