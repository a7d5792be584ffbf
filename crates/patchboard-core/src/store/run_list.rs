//! Runs as lists show them.

use std::sync::Arc;

use jiff::Timestamp;

use super::{PageCursor, RunState};
use crate::event::RunOutcome;
use crate::id::{RunId, Seq, SessionKey};
use crate::model::TokenCount;
use crate::run_spec::StrategyKind;

/// A run without its input: what it is, how far it is and what it has taken so far.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedRun {
    pub run: RunId,
    pub session: SessionKey,
    pub principal: Arc<str>,
    pub surface: Arc<str>,
    pub client_id: Arc<str>,
    pub agent: Arc<str>,
    pub strategy: StrategyKind,
    /// That of the newest settled model call, or else of the newest open one.
    pub model: Option<RunModel>,
    /// The first words of the input.
    pub title: Arc<str>,
    pub state: RunState,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub usage: RunUsage,
    /// The number of its last event; 0 if it has none.
    pub last_seq: Seq,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunModel {
    pub provider: Arc<str>,
    pub model: Arc<str>,
}

/// What the settled model calls of a run took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunUsage {
    pub model_calls: u64,
    pub tokens: TokenCount,
    pub cost_nanousd: u64,
}

/// Newest first. A page may hold fewer runs than its limit although more follow: one call looks at a bounded number of
/// runs.
#[derive(Debug, Clone)]
pub struct RunQuery {
    pub filter: RunFilter,
    pub limit: usize,
    pub cursor: Option<PageCursor>,
}

/// Restrictions of a list of runs; all of them apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs of one of these principals.
    pub principals: Option<Vec<Arc<str>>>,
    /// One of these runs.
    pub among: Option<Vec<RunId>>,
    pub client_id: Option<Arc<str>>,
    pub surface: Option<Arc<str>>,
    pub agent: Option<Arc<str>>,
    pub strategy: Option<StrategyKind>,
    pub session: Option<SessionKey>,
    pub state: Option<StoredStateFilter>,
    /// Started at this time or later.
    pub since: Option<Timestamp>,
    /// Started before this time.
    pub until: Option<Timestamp>,
    /// Part of the title; the case of ASCII letters does not matter.
    pub text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredStateFilter {
    Running,
    /// Ended, however.
    Ended,
    EndedAs(RunOutcome),
}

impl StoredStateFilter {
    pub fn matches(self, state: RunState) -> bool {
        match (self, state) {
            (Self::Running, RunState::Running) | (Self::Ended, RunState::Ended(_)) => true,
            (Self::EndedAs(wanted), RunState::Ended(outcome)) => wanted == outcome,
            (Self::Running, RunState::Ended(_)) | (Self::Ended | Self::EndedAs(_), RunState::Running) => false,
        }
    }
}
