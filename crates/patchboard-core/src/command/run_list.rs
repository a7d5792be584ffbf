//! Finding runs and reading their events.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Command, PageRequest};
use crate::event::RunOutcome;
use crate::id::{RunId, Seq, SessionKey};
use crate::reply::{EventPage, RunReport};
use crate::run_spec::StrategyKind;
use crate::store::ResultPage;

/// Most records that one `ReadEvents` returns; a larger limit is lowered to this.
pub const MAX_EVENTS: usize = 500;

/// The runs that the caller may see, newest first. A page may hold fewer than its limit although more follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRuns {
    pub filter: RunListFilter,
    pub page: PageRequest,
}

/// Restrictions of a list of runs; all of them apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunListFilter {
    /// The principal that started it.
    pub owner: Option<Arc<str>>,
    pub client_id: Option<Arc<str>>,
    pub surface: Option<Arc<str>>,
    pub agent: Option<Arc<str>>,
    pub strategy: Option<StrategyKind>,
    pub state: Option<RunStateFilter>,
    pub session: Option<SessionKey>,
    /// Started at this time or later.
    pub since: Option<Timestamp>,
    /// Started before this time.
    pub until: Option<Timestamp>,
    /// Part of the title.
    pub text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStateFilter {
    /// Under way, and waiting for nobody.
    Running,
    /// Under way, and waiting for an answer.
    Waiting,
    Ended,
    EndedAs(RunOutcome),
}

impl Command for ListRuns {
    type Reply = ResultPage<RunReport>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeRun(pub RunId);

impl Command for DescribeRun {
    type Reply = RunReport;
}

/// Stored events of a run from a number on, without waiting for more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadEvents {
    pub run: RunId,
    pub from: Seq,
    /// How many records at most.
    pub limit: usize,
}

impl Command for ReadEvents {
    type Reply = EventPage;
}
