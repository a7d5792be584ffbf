//! Finding runs and reading their events.

use std::collections::HashMap;
use std::sync::Arc;

use super::Board;
use super::handlers::{BoardCommand, CommandFuture};
use crate::access;
use crate::caller::Caller;
use crate::command::{DescribeRun, ListRuns, MAX_EVENTS, ReadEvents, RunListFilter, RunStateFilter};
use crate::error::BoardError;
use crate::event::{Envelope, Topic};
use crate::id::{RunId, Seq};
use crate::reply::{EventPage, RunReport, RunWait};
use crate::store::{ListedRun, ResultPage, RunFilter, RunQuery, RunState, StoredStateFilter};
use tokio_util::sync::CancellationToken;

/// Size in memory at which a page of events ends; the record that reaches it is part of the page.
const MAX_PAGE_BYTES: usize = 1024 * 1024;
/// Records read from the store at a time.
const RECORDS_PER_READ: usize = 32;

impl BoardCommand for ListRuns {
    fn execute(self, board: &Board, caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        let (board, caller) = (board.clone(), caller.clone());
        Box::pin(async move { board.list_runs(&caller, self).await })
    }
}

impl BoardCommand for DescribeRun {
    fn execute(self, board: &Board, caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        let (board, caller) = (board.clone(), caller.clone());
        Box::pin(async move { board.describe_run(&caller, self.0).await })
    }
}

impl BoardCommand for ReadEvents {
    fn execute(self, board: &Board, caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        let (board, caller) = (board.clone(), caller.clone());
        Box::pin(async move { board.read_events(&caller, self).await })
    }
}

impl Board {
    async fn list_runs(&self, caller: &Caller, request: ListRuns) -> Result<ResultPage<RunReport>, BoardError> {
        let ListRuns { filter, page } = request;
        let RunListFilter { owner, client_id, surface, agent, strategy, state, session, since, until, text } = filter;
        let principals = match owner {
            Some(owner) if !access::can_control(caller, &owner) => {
                return Err(BoardError::forbidden("runs of another caller are listed for the operator only"));
            }
            Some(owner) => Some(vec![owner]),
            None if access::may_oversee(caller) => None,
            None => Some(vec![caller.principal.text()]),
        };
        let waits = self.run_waits();
        let (stored_state, among) = match state {
            None => (None, None),
            Some(RunStateFilter::Running) => (Some(StoredStateFilter::Running), None),
            Some(RunStateFilter::Waiting) => (Some(StoredStateFilter::Running), Some(waits.keys().copied().collect())),
            Some(RunStateFilter::Ended) => (Some(StoredStateFilter::Ended), None),
            Some(RunStateFilter::EndedAs(outcome)) => (Some(StoredStateFilter::EndedAs(outcome)), None),
        };
        let filter = RunFilter {
            principals,
            among,
            client_id,
            surface,
            agent,
            strategy,
            session,
            state: stored_state,
            since,
            until,
            text,
        };
        let page = self.0.store.runs(RunQuery { filter, limit: page.limit, cursor: page.cursor }).await?;
        let mut items: Vec<_> = page.items.into_iter().map(|run| report(run, &waits)).collect();
        if state == Some(RunStateFilter::Running) {
            items.retain(|report| report.waits.is_empty());
        }
        Ok(ResultPage { items, next: page.next })
    }

    async fn describe_run(&self, caller: &Caller, run: RunId) -> Result<RunReport, BoardError> {
        let filter = RunFilter { among: Some(vec![run]), ..RunFilter::default() };
        let page = self.0.store.runs(RunQuery { filter, limit: 1, cursor: None }).await?;
        let found = page.items.into_iter().find(|found| access::can_control(caller, &found.principal));
        let found = found.ok_or_else(|| BoardError::not_found("run expired or unknown"))?;
        Ok(report(found, &self.run_waits()))
    }

    async fn read_events(&self, caller: &Caller, request: ReadEvents) -> Result<EventPage, BoardError> {
        let ReadEvents { run, from, limit } = request;
        self.check_run(caller, run).await?;
        let topic = Topic::Run(run);
        let mut next = from.max(Seq::FIRST);
        let mut events: Vec<Arc<Envelope>> = Vec::new();
        let (mut limit, mut bytes) = (limit.clamp(1, MAX_EVENTS), 0);
        while limit > 0 && bytes < MAX_PAGE_BYTES {
            let records = self.0.store.events(&topic, next, limit.min(RECORDS_PER_READ)).await?;
            if records.is_empty() {
                break;
            }
            for record in records {
                // Numbers within a record are told from there on, as to a follower.
                let record = if record.seq < next { Arc::new(record.part_from(next)) } else { record };
                (next, limit, bytes) = (record.last_seq().next(), limit - 1, bytes + record.event.approximate_bytes());
                events.push(record);
                if bytes >= MAX_PAGE_BYTES {
                    break;
                }
            }
        }
        let is_over = match events.last() {
            Some(last) => last.event.ends_topic(),
            None => self.0.store.run(run).await?.is_none_or(|row| row.state != RunState::Running),
        };
        Ok(EventPage { events, next: (!is_over).then_some(next) })
    }

    /// What each run waits for now.
    fn run_waits(&self) -> HashMap<RunId, Vec<RunWait>> {
        self.0.inputs.waits()
    }

    /// Refuses a run that the caller may not see, in the same words as one that does not exist.
    pub(super) async fn check_run(&self, caller: &Caller, run: RunId) -> Result<(), BoardError> {
        let live = self.live_runs().get(&run).map(|live| live.principal.clone());
        let principal = match live {
            Some(principal) => Some(principal),
            None => self.0.store.run(run).await?.map(|row| row.principal),
        };
        match principal {
            Some(principal) if access::can_control(caller, &principal) => Ok(()),
            Some(_) | None => Err(BoardError::not_found("run expired or unknown")),
        }
    }
}

fn report(run: ListedRun, waits: &HashMap<RunId, Vec<RunWait>>) -> RunReport {
    // An answer may have come while the row was read.
    let waits = match run.state {
        RunState::Running => waits.get(&run.run).cloned().unwrap_or_default(),
        RunState::Ended(_) => Vec::new(),
    };
    RunReport { run, waits }
}
