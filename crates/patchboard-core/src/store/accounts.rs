//! Accounts: what is stored of the person behind a channel's account, and its deletion.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use jiff::Timestamp;

use super::{FactRow, PageCursor, ResultPage, RunRow, SessionRow, StoreError, TurnRow};
use crate::id::{MemoryOwner, RunId, SessionKey};
use crate::webhook::DeliveryId;

/// What a name reads as after its account was forgotten.
pub const FORGOTTEN: &str = "forgotten";

/// The part of the store port that is about accounts. Every method but the list names the account.
pub trait AccountStore: Send + Sync {
    /// Accounts with sessions or facts, in order of their names. With `owners`, only those all of whose sessions were
    /// created by these principals.
    fn accounts(
        &self,
        owners: Option<Vec<Arc<str>>>,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<AccountRow>, StoreError>>;
    /// How much is stored of an account.
    fn account_contents(&self, account: &MemoryOwner) -> BoxFuture<'_, Result<AccountContents, StoreError>>;
    /// The account's facts, newest first.
    fn account_facts(&self, query: FactListQuery) -> BoxFuture<'_, Result<ResultPage<FactRecord>, StoreError>>;
    /// One fact of the account, also a superseded one.
    fn account_fact(&self, account: &MemoryOwner, fact: u64) -> BoxFuture<'_, Result<Option<FactRecord>, StoreError>>;
    /// All sessions of the account, also cleared and hidden ones, oldest first.
    fn account_sessions(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<SessionRow>, StoreError>>;
    /// All turns of the account, also those that a clear hides, oldest session first.
    fn account_turns(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<AccountTurn>, StoreError>>;
    /// All runs of the account, oldest first.
    fn account_runs(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<RunRow>, StoreError>>;

    /// Deletes what is stored of an account: its runs with their events, turns, search index, session values, facts,
    /// the deliveries named, and last the names of its sessions and of the account itself. Bounded work per call;
    /// `true` if more is left. Runs that have not ended are deleted when they end.
    fn forget_account(
        &self,
        account: &MemoryOwner,
        deliveries: Vec<DeliveryId>,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Removes the remains of deleted data from the files of the store.
    fn erase_remains(&self, extent: EraseExtent) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// Where remains of deleted data are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraseExtent {
    /// The log of recent writes.
    Log,
    /// Everywhere. Writes wait meanwhile: a second or so for each 100 MB.
    WholeStore,
    /// Everywhere, if an account was deleted and the process ended before its remains were removed.
    WholeStoreIfDue,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AccountRow {
    pub account: MemoryOwner,
    pub sessions: u64,
    /// Turns that are stored, also hidden ones.
    pub turns: u64,
    /// Current facts.
    pub facts: u64,
    /// When one of its sessions was last used.
    pub used_at: Option<Timestamp>,
}

/// How much is stored of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountContents {
    pub sessions: u64,
    pub turns: u64,
    pub runs: u64,
    /// Current facts.
    pub facts: u64,
    pub superseded_facts: u64,
    /// The principals that created its sessions; `None` for a session whose creator is unknown.
    pub session_owners: Vec<Option<Arc<str>>>,
    /// Names of the account and its sessions, which are stored apart from what they name.
    pub names: u64,
    /// Data of some account was deleted, and its remains were not removed yet.
    pub has_remains: bool,
}

impl AccountContents {
    /// Nothing of this account is stored.
    pub fn is_empty(&self) -> bool {
        self.sessions + self.turns + self.runs + self.facts + self.superseded_facts + self.names == 0
    }
}

#[derive(Debug, Clone)]
pub struct FactListQuery {
    pub owner: MemoryOwner,
    /// Also facts that later ones replaced.
    pub with_superseded: bool,
    pub limit: usize,
    pub cursor: Option<PageCursor>,
}

/// A fact with where it came from and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct FactRecord {
    pub fact: FactRow,
    /// The run in whose turn it was stated; `None` if a tool stored it or a person corrected it.
    pub run: Option<RunId>,
    /// The fact it replaced.
    pub supersedes: Option<u64>,
    pub superseded: Option<Superseded>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superseded {
    pub at: Timestamp,
    pub by: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AccountTurn {
    pub session: SessionKey,
    pub turn: TurnRow,
}

/// What an audited action was about. Sessions and accounts are stored as the number of their name, so that forgetting
/// an account needs no change of the audit trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditSubject {
    /// A tool, an app, a server: nothing that names a user.
    Text(Arc<str>),
    Session(SessionKey),
    Account(MemoryOwner),
    /// A session or an account that was forgotten since.
    Forgotten,
}

impl AuditSubject {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Session(key) => key.as_str(),
            Self::Account(account) => account.as_str(),
            Self::Forgotten => FORGOTTEN,
        }
    }
}

impl Deref for AuditSubject {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for AuditSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&str> for AuditSubject {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for AuditSubject {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<Arc<str>> for AuditSubject {
    fn from(text: Arc<str>) -> Self {
        Self::Text(text)
    }
}
