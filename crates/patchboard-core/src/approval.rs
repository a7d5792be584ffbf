//! Questions to a person that are open now. They live as long as the call that asked; an expired one is a refusal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::access::{Caller, Grant};
use crate::command::ApprovalRef;
use crate::error::{BoardError, ErrorKind};
use crate::event::ApprovalRequest;
use crate::id::{ApprovalId, ConnId, RunId};
use crate::model::ToolCall;
use crate::port::{Clock, Ids};
use crate::reply::PendingApproval;
use crate::tool::CallContext;

/// Open questions at once over the whole server; the next call that would ask is refused.
const MAX_OPEN: usize = 1024;

#[derive(Debug)]
pub struct ApprovalDesk {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    expiry: Duration,
    open: Mutex<BTreeMap<ApprovalId, Open>>,
}

#[derive(Debug)]
struct Open {
    pending: PendingApproval,
    /// Only the connection that started the work may answer, besides the operator.
    started_by: ConnId,
    /// Runs that wait for the one that asks; who follows them may answer by their ids.
    above: Arc<[RunId]>,
    answer: oneshot::Sender<(bool, Arc<str>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Approved,
    Refused,
    Expired,
    /// The run was cancelled while it waited.
    Withdrawn,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// An open question. Dropping it withdraws it, so that a run that dies while it asks leaves nothing behind.
#[derive(Debug)]
pub struct Asked<'a> {
    desk: &'a ApprovalDesk,
    pub request: ApprovalRequest,
    answer: oneshot::Receiver<(bool, Arc<str>)>,
}

impl ApprovalDesk {
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>, expiry: Duration) -> Self {
        Self { clock, ids, expiry, open: Mutex::new(BTreeMap::new()) }
    }

    /// `may_have_run`: the call was begun by a process that did not live to see its end.
    pub fn ask(&self, context: &CallContext, call: &ToolCall, may_have_run: bool) -> Result<Asked<'_>, BoardError> {
        let approval = ApprovalId(self.ids.next());
        let expiry = SignedDuration::try_from(self.expiry).unwrap_or(SignedDuration::MAX);
        let now = self.clock.now();
        let expires_at = now.checked_add(expiry).unwrap_or(now);
        let request = ApprovalRequest { approval, call: call.clone(), expires_at, may_have_run };
        let pending =
            PendingApproval { request: request.clone(), run: context.run, session: context.scope.session.clone() };
        let (answer, verdict) = oneshot::channel();
        let mut open = self.open();
        if open.len() >= MAX_OPEN {
            return Err(BoardError::new(ErrorKind::Exhausted, "too many approvals are waiting for an answer"));
        }
        let (started_by, above) = (context.caller.connection, context.nesting.above.clone());
        open.insert(approval, Open { pending, started_by, above, answer });
        Ok(Asked { desk: self, request, answer: verdict })
    }

    pub fn answer(&self, caller: &Caller, wanted: &ApprovalRef, approve: bool) -> Result<(), BoardError> {
        let mut open = self.open();
        let is_wanted = |id: &ApprovalId, question: &Open| match wanted {
            ApprovalRef::Id(wanted) => id == wanted,
            ApprovalRef::Call { run, call } => {
                let asks = question.pending.run == *run || question.above.contains(run);
                asks && question.pending.request.call.id == *call
            }
        };
        let found = open.iter().find(|(id, question)| is_wanted(id, question));
        let Some((&approval, found)) = found else {
            return Err(BoardError::not_found("no such approval is waiting: it was answered, expired or withdrawn"));
        };
        if !may_answer(caller, found) {
            return Err(BoardError::forbidden(
                "only the connection that started the run, or the operator, may answer its approvals",
            ));
        }
        let Some(found) = open.remove(&approval) else { return Ok(()) };
        let by: Arc<str> = format!("{}:{}", caller.surface.name(), caller.principal).into();
        found.answer.send((approve, by)).map_err(|_| BoardError::not_found("the approval has just expired"))
    }

    /// What this caller could answer, oldest first.
    pub fn list(&self, caller: &Caller) -> Vec<PendingApproval> {
        self.open().values().filter(|open| may_answer(caller, open)).map(|open| open.pending.clone()).collect()
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<ApprovalId, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked<'_> {
    /// Waits for the answer, the expiry or the end of the run; says who decided.
    pub async fn verdict(mut self, stop: &CancellationToken) -> (Verdict, Arc<str>) {
        let answered = tokio::select! {
            biased;
            () = stop.cancelled() => return (Verdict::Withdrawn, "cancel".into()),
            answered = &mut self.answer => answered.ok(),
            () = tokio::time::sleep(self.desk.expiry) => {
                // Closed first: an answer that was accepted until then counts.
                self.close();
                self.answer.try_recv().ok()
            }
        };
        match answered {
            Some((true, by)) => (Verdict::Approved, by),
            Some((false, by)) => (Verdict::Refused, by),
            None => (Verdict::Expired, "expiry".into()),
        }
    }

    fn close(&self) {
        self.desk.open().remove(&self.request.approval);
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

fn may_answer(caller: &Caller, open: &Open) -> bool {
    caller.connection == open.started_by || caller.grants.has(Grant::Operate)
}
