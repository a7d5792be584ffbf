//! The store port: one way to write (a batch, in one transaction) and narrow, bounded ways to read.

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use jiff::Timestamp;

use crate::app::message::MessageState;
use crate::event::{Envelope, RunOutcome, Topic};
use crate::id::{MemoryOwner, MessageId, NodeId, RunId, Seq, SessionKey};
use crate::model::{ModelMessage, TokenCount};
use crate::webhook::{DeliveryId, DeliveryState};

/// Durable state. A commit that returned `Ok` survives `kill -9`; a `Boundary` commit survives a power cut too.
pub trait Store: Send + Sync + fmt::Debug {
    /// Writes all of the batch or nothing. Commits asked for one after the other are applied in that order.
    fn commit(&self, batch: WriteBatch) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Records of a topic whose last number is at or after `from`, in order, at most `limit` records.
    fn events(&self, topic: &Topic, from: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>>;
    /// The topic's last used number; `Seq(0)` when nothing is stored.
    fn last_seq(&self, topic: &Topic) -> BoxFuture<'_, Result<Seq, StoreError>>;

    fn run(&self, run: RunId) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>>;
    /// That principal's newest run of that client-given id.
    fn latest_run_by_client_id(
        &self,
        principal: &str,
        client_id: &str,
    ) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>>;
    /// The session's newest run.
    fn latest_run_of_session(&self, session: &SessionKey) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>>;
    /// Runs no `CloseRun` was written for, oldest first, each with its open model calls.
    fn unfinished_runs(&self) -> BoxFuture<'_, Result<Vec<UnfinishedRun>, StoreError>>;

    fn session(&self, key: &SessionKey) -> BoxFuture<'_, Result<Option<SessionRow>, StoreError>>;
    /// Most recently used first; cleared sessions are left out.
    fn sessions(
        &self,
        filter: SessionFilter,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<SessionRow>, StoreError>>;
    /// Stored conversations that are not cleared, besides those of these channels.
    fn count_sessions(&self, excluded_channels: &'static [&'static str]) -> BoxFuture<'_, Result<u64, StoreError>>;
    /// Turns after the session's clear marker.
    fn turns(&self, query: TurnQuery) -> BoxFuture<'_, Result<ResultPage<TurnRow>, StoreError>>;

    /// Facts of one owner that are still true: the best matches for the text first, then the newest.
    fn facts(&self, query: FactQuery) -> BoxFuture<'_, Result<ResultPage<FactRow>, StoreError>>;

    /// What is kept under that key.
    fn kv_get(&self, space: &KvNamespace, key: &str) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>>;

    /// Keys of that space that begin with `prefix` and come after `after`, in the order of their bytes.
    fn kv_keys(
        &self,
        space: &KvNamespace,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;
    fn kv_usage(&self, space: &KvNamespace) -> BoxFuture<'_, Result<KvUsage, StoreError>>;

    /// The delivery of that channel and key.
    fn delivery(&self, channel: &str, key: &str) -> BoxFuture<'_, Result<Option<DeliveryRow>, StoreError>>;
    /// Deliveries in no final state, oldest first.
    fn open_deliveries(&self) -> BoxFuture<'_, Result<Vec<DeliveryRow>, StoreError>>;

    /// Newest first.
    fn messages(&self, query: MessageQuery) -> BoxFuture<'_, Result<ResultPage<MessageRow>, StoreError>>;
    /// Messages in no final state, oldest first.
    fn open_messages(&self) -> BoxFuture<'_, Result<Vec<MessageRow>, StoreError>>;

    /// Tokens counted so far, one figure per scope, in order.
    fn tokens_spent(&self, scopes: Vec<BudgetScope>) -> BoxFuture<'_, Result<Vec<u64>, StoreError>>;
    fn usage(&self, query: UsageQuery) -> BoxFuture<'_, Result<ResultPage<UsageGroup>, StoreError>>;
    /// Newest first.
    fn audit(
        &self,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<AuditRow>, StoreError>>;

    /// Deletes what is kept longer than it should be. Bounded work per call; `true` when more is left.
    fn prune(&self, retention: RetentionCutoffs) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Finishes what was asked for and closes. Later calls answer `Closed`.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the write queue is full")]
    Busy,
    #[error("the store is closed")]
    Closed,
    /// Cursors come back from clients; anything can be in them.
    #[error("the cursor is not one of this list")]
    BadCursor,
    /// There is no room left on the disk.
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

/// How far back things are kept. Turns, facts, usage and audit rows are not pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionCutoffs {
    /// Runs and messages that ended before this go altogether.
    pub runs_before: Timestamp,
    /// Of runs that ended before this the events go: the whole answer is in the turn, its pieces are not needed.
    pub events_before: Timestamp,
}

#[derive(Debug, Clone)]
pub struct WriteBatch {
    pub durability: Durability,
    pub writes: Vec<StoreWrite>,
}

/// Ordered: a group commit takes the strictest of its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Text and argument pieces: survive the death of the process.
    Delta,
    /// Everything a client may act on: survives a power cut.
    Boundary,
}

#[derive(Debug, Clone)]
pub enum StoreWrite {
    Event(Arc<Envelope>),
    /// A run was accepted. Creates its session or marks it used (and no longer cleared).
    OpenRun(RunRow),
    CloseRun {
        run: RunId,
        outcome: RunOutcome,
        at: Timestamp,
    },
    /// A model call is about to be made; its tokens are reserved until it is settled.
    OpenModelCall(ModelCallRow),
    /// Closes the model call of the same id and adds its tokens to every scope it counts in.
    SettleModelCall(UsageRow),
    AddTurn(NewTurn),
    /// Replaces (supersedes, keeps) the owner's current fact of the same subject and predicate.
    /// A fact equal to the current one changes nothing.
    LearnFact(NewFact),
    /// Hides all turns so far; `purge` deletes the session with its turns, runs and events instead.
    ClearSession {
        session: SessionKey,
        at: Timestamp,
        purge: bool,
    },
    Audit(AuditRow),
    /// The message's state as its events now add up to; the first one makes it known.
    Message(MessageRow),
    /// Replaces what is kept under that key; `None` deletes it.
    PutValue {
        namespace: KvNamespace,
        key: Arc<str>,
        value: Option<Vec<u8>>,
        at: Timestamp,
    },
    /// Puts a delivery on record, or changes it. A second one of the same channel and key is refused.
    Delivery(DeliveryRow),
}

/// A message of a channel on its way to an agent, and its answer on the way back.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryRow {
    pub id: DeliveryId,
    pub channel: Arc<str>,
    /// What tells it from others of its channel.
    pub key: Arc<str>,
    pub state: DeliveryState,
    pub received_at: Timestamp,
    /// When the state last changed; final ones are pruned by it.
    pub changed_at: Timestamp,
    /// What it says and what is to be sent, as `record` wrote it.
    pub body: Vec<u8>,
}

/// How much is kept in a space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KvUsage {
    pub keys: u64,
    /// Of all keys and values.
    pub bytes: u64,
}

/// What messages are found by; all else is in their events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageRow {
    pub message: MessageId,
    pub state: MessageState,
    pub submitted_at: Timestamp,
    /// When the state last changed; final ones are pruned by it.
    pub changed_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct MessageQuery {
    pub state: Option<MessageState>,
    pub limit: usize,
    pub cursor: Option<PageCursor>,
}

/// Small things kept under a key. Clearing a session with `purge` deletes its space.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KvNamespace {
    Session(SessionKey),
    /// Of the server itself, such as what was pinned.
    Server,
    /// A store that plugins share, by its name.
    Plugins(Arc<str>),
}

/// Opaque position in a list, as the store wrote it.
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
    pub started_at: Timestamp,
    /// The user's message, so that an interrupted run can be told from an empty one.
    pub input: Arc<str>,
    pub state: RunState,
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

/// A model call under way. `number` counts the calls of its run from 1; (run, number) is its identity.
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
    /// The run's next free sequence number when the call began: text from here on is the call's output.
    pub first_seq: Seq,
    /// The node that asked; several nodes of a run may ask at once.
    pub node: Option<NodeId>,
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
    Session(SessionKey),
    /// Since the session was last cleared is still the same session: clearing does not reset its budget.
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
}

impl BudgetScope {
    /// The scope's name in storage: unique and stable.
    pub fn key(&self) -> String {
        match self {
            Self::Session(key) => format!("session/{key}"),
            Self::Day(date) => format!("day/{date}"),
            Self::Month { year, month } => format!("month/{year:04}-{month:02}"),
            Self::AgentDay(agent, date) => format!("agent-day/{date}/{agent}"),
            Self::AgentMonth { agent, year, month } => format!("agent-month/{year:04}-{month:02}/{agent}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewTurn {
    pub session: SessionKey,
    pub run: RunId,
    pub at: Timestamp,
    /// The user's message, then everything the agent said and its tools answered.
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

/// Newest `limit` turns before the cursor, answered oldest first.
#[derive(Debug, Clone)]
pub struct TurnQuery {
    pub session: SessionKey,
    pub limit: usize,
    pub before: Option<PageCursor>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    pub key: SessionKey,
    /// The principal whose run made it; unknown where that run was never recorded.
    pub owner: Option<Arc<str>>,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    pub turns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    pub channel: Option<String>,
    pub account: Option<String>,
    /// Only sessions that one of these principals made.
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
    pub learned_at: Timestamp,
    /// Vector of the fact's sentence and the space it lives in, when an embedding model is configured.
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
    /// How well it answers the query, higher is better; 0 for facts that were only added for being recent.
    pub score: f32,
}

#[derive(Debug, Clone)]
pub struct FactQuery {
    pub owner: MemoryOwner,
    /// Any text; only its words are used, so nothing in it can be query syntax.
    pub text: String,
    /// Also rank by similarity to this vector, among facts of the same space.
    pub embedding: Option<(Arc<str>, Vec<f32>)>,
    pub limit: usize,
    /// Fill up to `limit` with the newest facts when fewer match.
    pub fill_with_recent: bool,
    pub cursor: Option<PageCursor>,
}

#[derive(Debug, Clone)]
pub struct UsageQuery {
    pub since: Option<Timestamp>,
    pub group_by: UsageGrouping,
    /// Only sessions that one of these principals made.
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

/// One row of a usage report, biggest spender (or newest day) first.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageGroup {
    pub key: String,
    pub calls: u64,
    pub tokens: TokenCount,
    pub cost_nanousd: u64,
    /// Calls whose figures are our own estimate.
    pub estimated_calls: u64,
}

/// Who did what, when; never edited, never deleted by a purge.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    pub at: Timestamp,
    pub principal: Arc<str>,
    pub surface: Arc<str>,
    pub action: Arc<str>,
    /// What it was done to: a session key, a tool, an approval.
    pub subject: Arc<str>,
    pub run: Option<RunId>,
    /// Plain words, no prompts and no arguments.
    pub detail: Arc<str>,
}
