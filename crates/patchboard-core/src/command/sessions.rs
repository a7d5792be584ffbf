//! Sessions, memory, budgets and usage.

use jiff::Timestamp;

use super::{Command, PageRequest};
use crate::conversation::ConversationOrigin;
use crate::id::SessionKey;
use crate::reply::{BudgetReport, SessionHistory, ThreadPage};
use crate::store::{FactRow, ResultPage, SessionFilter, SessionRow, UsageGroup, UsageGrouping};

#[derive(Debug, Clone)]
pub struct ListSessions {
    pub filter: SessionFilter,
    pub page: PageRequest,
}

impl Command for ListSessions {
    type Reply = ResultPage<SessionRow>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadHistory {
    pub session: SessionRef,
    pub page: PageRequest,
}

impl Command for ReadHistory {
    type Reply = SessionHistory;
}

/// Ends the session's conversation; with `purge` its turns are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClearSession {
    pub session: SessionRef,
    pub purge: bool,
}

impl Command for ClearSession {
    type Reply = ();
}

/// The messages of a runs thread: the newest `limit` before `before`, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadThread {
    pub session: SessionRef,
    pub before: Option<u64>,
    pub limit: usize,
}

impl Command for ReadThread {
    type Reply = ThreadPage;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchMemory {
    pub channel: String,
    pub account: String,
    pub query: String,
    pub page: PageRequest,
}

impl Command for SearchMemory {
    type Reply = ResultPage<FactRow>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetStatus {
    pub session: Option<SessionRef>,
}

impl Command for BudgetStatus {
    type Reply = BudgetReport;
}

#[derive(Debug, Clone)]
pub struct SummariseUsage {
    pub since: Option<Timestamp>,
    pub group_by: UsageGrouping,
    /// A second key within each group.
    pub then_by: Option<UsageGrouping>,
    pub page: PageRequest,
}

impl Command for SummariseUsage {
    type Reply = ResultPage<UsageGroup>;
}

/// A session by key, or by origin (then routing determines its agent).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRef {
    Key(SessionKey),
    Origin(ConversationOrigin),
}
