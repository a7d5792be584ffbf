//! The queue of open approval requests. A request lives as long as the call that asked; an expired one counts as
//! refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::budget::call_chain::CallChain;
use crate::caller::{Caller, Grant};
use crate::command::ApprovalRef;
use crate::error::{BoardError, ErrorKind};
use crate::event::ApprovalRequest;
use crate::id::{ApprovalId, ConnectionId, RunId, SessionKey};
use crate::model::ToolCall;
use crate::port::{Clock, IdGenerator};
use crate::reloadable::Reloadable;
use crate::reply::PendingApproval;
use crate::session::SessionQueues;

pub mod policy;
mod waits;

/// How long an approval may stay open while another request waits for its session.
const CONTENDED_EXPIRY: Duration = Duration::from_secs(120);
/// Open approvals on the whole server; past this, calls that need approval are refused.
const MAX_OPEN: usize = 1024;

#[derive(Debug)]
pub struct ApprovalQueue {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGenerator>,
    expiry: Reloadable<Duration>,
    queues: SessionQueues,
    open: Mutex<BTreeMap<ApprovalId, OpenApproval>>,
}

/// The call that asks: where it is made, and by whom.
#[derive(Debug)]
pub struct ApprovalOrigin<'a> {
    pub run: RunId,
    pub session: &'a SessionKey,
    /// The connection that started the work.
    pub connection: ConnectionId,
    pub call_chain: &'a CallChain,
}

#[derive(Debug)]
struct OpenApproval {
    pending: PendingApproval,
    /// Only this connection or the operator may answer.
    started_by: ConnectionId,
    /// Runs that wait for the asking run; their followers may answer by these ids.
    ancestor_runs: Arc<[RunId]>,
    /// The session whose permit is held while the approval is open, if the asking run's session is not the outermost.
    root_session: SessionKey,
    /// Notified when a request waits for one of its sessions.
    expiry_shortened: Arc<Notify>,
    answer: oneshot::Sender<(bool, Arc<str>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalOutcome {
    Approved,
    Refused,
    Expired,
    /// The run was cancelled while the approval was open.
    Withdrawn,
}

impl ApprovalOutcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// An open approval. Dropping it withdraws it, so that a run that dies while it waits leaves no entry behind.
#[derive(Debug)]
pub struct ApprovalTicket<'a> {
    queue: &'a ApprovalQueue,
    pub request: ApprovalRequest,
    expiry: Duration,
    answer: oneshot::Receiver<(bool, Arc<str>)>,
    expiry_shortened: Arc<Notify>,
}

impl ApprovalQueue {
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn IdGenerator>, expiry: Duration, queues: SessionQueues) -> Self {
        Self { clock, ids, expiry: Reloadable::new(expiry), queues, open: Mutex::new(BTreeMap::new()) }
    }

    /// Applies to future approvals.
    pub fn set_expiry(&self, expiry: Duration) {
        self.expiry.set(expiry);
    }

    /// `may_have_run`: the call was begun by a process that ended before the call did.
    pub fn ask(
        &self,
        origin: &ApprovalOrigin<'_>,
        call: &ToolCall,
        may_have_run: bool,
    ) -> Result<ApprovalTicket<'_>, BoardError> {
        let approval = ApprovalId(self.ids.next());
        let expiry = *self.expiry.get();
        let (session, root_session) = (origin.session.clone(), origin.call_chain.root_session.clone());
        let expires_at = self.expires_in(expiry);
        let mut request = ApprovalRequest { approval, call: call.clone(), expires_at, may_have_run };
        let pending = PendingApproval { request: request.clone(), run: origin.run, session: session.clone() };
        let (answer, answer_receiver) = oneshot::channel();
        let mut open = self.open();
        if open.len() >= MAX_OPEN {
            return Err(BoardError::new(ErrorKind::Exhausted, "too many approvals are waiting for an answer"));
        }
        let (started_by, ancestors) = (origin.connection, origin.call_chain.ancestors.clone());
        let expiry_shortened = Arc::new(Notify::new());
        let open_approval = OpenApproval {
            pending,
            started_by,
            ancestor_runs: ancestors,
            root_session: root_session.clone(),
            expiry_shortened: expiry_shortened.clone(),
            answer,
        };
        open.insert(approval, open_approval);
        drop(open);
        // Checked after the approval is inserted: a request that starts to wait later finds it in the map.
        for session in [session, root_session] {
            if self.queues.has_waiters(&session) {
                self.shorten_expiry(&session);
            }
        }
        if let Some(open) = self.open().get(&approval) {
            request.expires_at = open.pending.request.expires_at;
        }
        Ok(ApprovalTicket { queue: self, request, expiry, answer: answer_receiver, expiry_shortened })
    }

    /// Another request waits for the session, so its open approvals expire earlier.
    pub fn shorten_expiry(&self, session: &SessionKey) {
        let expires_at = self.expires_in(CONTENDED_EXPIRY);
        for open in self.open().values_mut() {
            if open.pending.session == *session || open.root_session == *session {
                let request = &mut open.pending.request;
                request.expires_at = request.expires_at.min(expires_at);
                open.expiry_shortened.notify_one();
            }
        }
    }

    fn expires_in(&self, duration: Duration) -> Timestamp {
        let now = self.clock.now();
        let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        now.checked_add(duration).unwrap_or(Timestamp::MAX)
    }

    pub fn answer(&self, caller: &Caller, requested: &ApprovalRef, approve: bool) -> Result<(), BoardError> {
        let mut open = self.open();
        let is_match = |id: &ApprovalId, open_approval: &OpenApproval| match requested {
            ApprovalRef::Id(requested_id) => id == requested_id,
            ApprovalRef::Call { run, call } => {
                let is_in_run = open_approval.pending.run == *run || open_approval.ancestor_runs.contains(run);
                is_in_run && open_approval.pending.request.call.id == *call
            }
        };
        let found = open.iter().find(|(id, open_approval)| is_match(id, open_approval));
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

    /// The approvals this caller may answer, oldest first.
    pub fn list(&self, caller: &Caller) -> Vec<PendingApproval> {
        self.open().values().filter(|open| may_answer(caller, open)).map(|open| open.pending.clone()).collect()
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<ApprovalId, OpenApproval>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ApprovalTicket<'_> {
    /// Waits for the answer, the expiry or the end of the run; returns the outcome and who decided.
    pub async fn outcome(mut self, stop: &CancellationToken) -> (ApprovalOutcome, Arc<str>) {
        let mut expiry_timer = Box::pin(tokio::time::sleep(self.expiry));
        let mut is_shortened = false;
        let answered = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return (ApprovalOutcome::Withdrawn, "cancel".into()),
                answered = &mut self.answer => break answered.ok(),
                () = &mut expiry_timer => {
                    // Closed first: an answer accepted until then counts.
                    self.close();
                    break self.answer.try_recv().ok();
                }
                // Only the first waiting request shortens the expiry; later ones must not extend it.
                () = self.expiry_shortened.notified(), if !is_shortened => {
                    is_shortened = true;
                    let latest = Instant::now() + CONTENDED_EXPIRY;
                    if latest < expiry_timer.deadline() {
                        expiry_timer.as_mut().reset(latest);
                    }
                }
            }
        };
        match answered {
            Some((true, by)) => (ApprovalOutcome::Approved, by),
            Some((false, by)) => (ApprovalOutcome::Refused, by),
            None => (ApprovalOutcome::Expired, "expiry".into()),
        }
    }

    fn close(&self) {
        self.queue.open().remove(&self.request.approval);
    }
}

impl Drop for ApprovalTicket<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

fn may_answer(caller: &Caller, open: &OpenApproval) -> bool {
    caller.connection == open.started_by || caller.grants.has(Grant::Operate)
}
