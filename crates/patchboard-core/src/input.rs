//! What runs wait for: approvals, results of clients' tools, answers to questions. An input of a run is stored before it is
//! asked and answered once; the first answer wins, and counts also if the run is not worked on at the moment. Calls outside
//! of runs wait in memory only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::budget::call_chain::CallChain;
use crate::caller::Caller;
use crate::command::InputRef;
use crate::error::{BoardError, ErrorKind};
use crate::event::{InputAnswer, InputKind, InputRequest};
use crate::id::{InputId, RunId, SessionKey};
use crate::port::{Clock, IdGenerator, SchemaValidator};
use crate::reloadable::Reloadable;
use crate::reply::PendingInput;
use crate::session::SessionQueues;
use crate::store::{InputRow, Store, StoreError, StoreWrite, WriteBatch};

mod rights;
mod waits;

pub use rights::RunAudience;
use rights::{Answerer, may_answer};

/// How long an approval may stay open while another request waits for its session.
const CONTENDED_EXPIRY: Duration = Duration::from_secs(120);
/// Open inputs on the whole server; past this, calls that need one are refused.
const MAX_OPEN: usize = 1024;
/// Longest answer of a client in bytes; a longer one is refused.
pub const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// How long inputs may stay unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputExpiries {
    pub approval: Duration,
    /// Results of clients' tools, and answers to questions.
    pub other: Duration,
}

impl Default for InputExpiries {
    fn default() -> Self {
        Self { approval: Duration::from_secs(15 * 60), other: Duration::from_secs(4 * 3600) }
    }
}

#[derive(Debug)]
pub struct InputQueue {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGenerator>,
    store: Arc<dyn Store>,
    schemas: Arc<dyn SchemaValidator>,
    expiries: Reloadable<InputExpiries>,
    queues: SessionQueues,
    audience: RunAudience,
    open: Mutex<BTreeMap<InputId, OpenInput>>,
}

/// Where an input is asked for, and on whose behalf.
#[derive(Debug)]
pub struct InputOrigin<'a> {
    pub run: RunId,
    pub session: &'a SessionKey,
    pub caller: &'a Caller,
    pub call_chain: &'a CallChain,
    /// The plugin, worker or agent that asks, if it is not the run's own agent.
    pub asked_by: Option<Arc<str>>,
    /// It belongs to a run, in whose log it is recorded.
    pub is_durable: bool,
}

/// An input that somebody waits for in this process.
#[derive(Debug)]
struct OpenInput {
    pending: PendingInput,
    answerer: Answerer,
    /// The session whose permit is held while the input is open, if the asking run's session is not the outermost.
    root_session: SessionKey,
    is_durable: bool,
    /// Notified when a request waits for one of its sessions.
    expiry_shortened: Arc<Notify>,
    answer: oneshot::Sender<(InputAnswer, Arc<str>)>,
}

/// An open input. Dropping it stops the waiting in this process; a stored input stays open for whoever continues the run.
#[derive(Debug)]
pub struct InputTicket<'a> {
    queue: &'a InputQueue,
    pub request: InputRequest,
    /// The row to be stored with the event, unless the input was asked for by an earlier process.
    pub row: Option<InputRow>,
    is_durable: bool,
    answer: oneshot::Receiver<(InputAnswer, Arc<str>)>,
    expiry_shortened: Arc<Notify>,
}

impl InputQueue {
    pub fn new(
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGenerator>,
        store: Arc<dyn Store>,
        schemas: Arc<dyn SchemaValidator>,
        expiries: InputExpiries,
        queues: SessionQueues,
    ) -> Self {
        Self {
            clock,
            ids,
            store,
            schemas,
            expiries: Reloadable::new(expiries),
            queues,
            audience: RunAudience::default(),
            open: Mutex::new(BTreeMap::new()),
        }
    }

    /// Applies to future inputs.
    pub fn set_expiries(&self, expiries: InputExpiries) {
        self.expiries.set(expiries);
    }

    /// The connections that may answer for a run.
    pub fn audience(&self) -> &RunAudience {
        &self.audience
    }

    /// Opens an input. `stored`: the same one, asked for by an earlier process; it keeps its id, its time and an answer
    /// that was given meanwhile.
    pub fn ask(
        &self,
        origin: &InputOrigin<'_>,
        kind: InputKind,
        stored: Option<InputRow>,
    ) -> Result<InputTicket<'_>, BoardError> {
        let is_new = stored.is_none();
        let expiries = self.expiries.get();
        let expiry = match kind {
            InputKind::Approval { .. } => expiries.approval,
            InputKind::ClientToolCall(_) | InputKind::Question { .. } => expiries.other,
        };
        let row = stored.unwrap_or_else(|| InputRow {
            run: origin.run,
            session: origin.session.clone(),
            principal: origin.caller.principal.text(),
            asked_at: self.clock.now(),
            request: InputRequest {
                input: InputId(self.ids.next()),
                kind,
                expires_at: self.expires_in(expiry),
                asked_by: origin.asked_by.clone(),
            },
            answer: None,
        });
        let mut request = row.request.clone();
        let input = request.input;
        let (sender, answer) = oneshot::channel();
        let expiry_shortened = Arc::new(Notify::new());
        let root_session = origin.call_chain.root_session.clone();
        if let Some(given) = row.answer.clone() {
            drop(sender.send(given));
        } else {
            let mut open = self.open();
            if open.len() >= MAX_OPEN {
                return Err(BoardError::new(ErrorKind::Exhausted, "too many approvals are waiting for an answer"));
            }
            let pending = PendingInput { request: request.clone(), run: origin.run, session: origin.session.clone() };
            let open_input = OpenInput {
                pending,
                answerer: Answerer::of(origin),
                root_session: root_session.clone(),
                is_durable: origin.is_durable,
                expiry_shortened: expiry_shortened.clone(),
                answer: sender,
            };
            open.insert(input, open_input);
        }
        // Checked after the input is inserted: a request that starts to wait later finds it in the map.
        for session in [origin.session, &root_session] {
            if self.queues.has_waiters(session) {
                self.shorten_expiry(session);
            }
        }
        if let Some(open) = self.open().get(&input) {
            request.expires_at = open.pending.request.expires_at;
        }
        let row = is_new.then(|| InputRow { request: request.clone(), ..row });
        let is_durable = origin.is_durable;
        Ok(InputTicket { queue: self, request, row, is_durable, answer, expiry_shortened })
    }

    /// Another request waits for the session, so its open approvals expire earlier.
    pub fn shorten_expiry(&self, session: &SessionKey) {
        let expires_at = self.expires_in(CONTENDED_EXPIRY);
        for open in self.open().values_mut() {
            let is_approval = matches!(open.pending.request.kind, InputKind::Approval { .. });
            if is_approval && (open.pending.session == *session || open.root_session == *session) {
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

    /// Gives the answer to an open input. Returns once it is stored: it counts also if the process ends now.
    pub async fn answer(&self, caller: &Caller, requested: &InputRef, answer: InputAnswer) -> Result<(), BoardError> {
        let gone = || BoardError::not_found("no such approval is waiting: it was answered, expired or withdrawn");
        let (input, kind, answerer, is_durable) = match self.find_open(requested) {
            Some(found) => found,
            // Nobody waits for it in this process.
            None => {
                let row = self.find_stored(requested).await?.filter(|row| row.answer.is_none()).ok_or_else(gone)?;
                (row.request.input, row.request.kind.clone(), Answerer::of_row(&row), true)
            }
        };
        if !may_answer(caller, &answerer, &self.audience) {
            return Err(BoardError::forbidden(
                "only the connection that started the run, or the operator, may answer its approvals",
            ));
        }
        self.check(&answer, &kind)?;
        let by: Arc<str> = format!("{}:{}", caller.surface.name(), caller.principal).into();
        if is_durable {
            let write = StoreWrite::AnswerInput { input, answer: answer.clone(), by: by.clone(), at: self.clock.now() };
            match self.store.commit(WriteBatch::boundary(vec![write])).await {
                Ok(()) => {}
                Err(StoreError::Conflict) => return Err(gone()),
                Err(error) => return Err(error.into()),
            }
        }
        let open = self.open().remove(&input);
        match open {
            Some(open) => {
                let sent = open.answer.send((answer, by));
                // A stored answer is found by whoever continues the run.
                if is_durable {
                    Ok(())
                } else {
                    sent.map_err(|_| BoardError::not_found("the approval has just expired"))
                }
            }
            None if is_durable => Ok(()),
            None => Err(gone()),
        }
    }

    fn check(&self, answer: &InputAnswer, kind: &InputKind) -> Result<(), BoardError> {
        if !answer.fits(kind) {
            let message =
                format!("`{}` is no answer to what is asked, which is of kind `{}`", answer.name(), kind.name());
            return Err(BoardError::invalid(message));
        }
        if let InputAnswer::ToolResult { content, .. } = answer
            && content.len() > MAX_ANSWER
        {
            return Err(BoardError::invalid(format!(
                "the result is too long: at most {MAX_ANSWER} bytes are accepted"
            )));
        }
        if let (InputAnswer::Answered(value), InputKind::Question { schema: Some(schema), .. }) = (answer, kind) {
            let checked = self.schemas.check(schema, value);
            return checked
                .map_err(|problem| BoardError::invalid(format!("the answer does not fit its schema: {problem}")));
        }
        if matches!(answer, InputAnswer::ApprovedForSession)
            && let InputKind::Approval { call, may_have_run } = kind
            && (*may_have_run || crate::allowance::scope_of(call).is_none())
        {
            let message = format!("{} cannot be allowed for the session here; approve this call alone", call.name);
            return Err(BoardError::invalid(message));
        }
        Ok(())
    }

    fn find_open(&self, requested: &InputRef) -> Option<(InputId, InputKind, Answerer, bool)> {
        let open = self.open();
        let is_match = |id: &InputId, open_input: &OpenInput| match requested {
            InputRef::Id(requested_id) => id == requested_id,
            InputRef::Call { run, call } => {
                let is_in_run = open_input.pending.run == *run || open_input.answerer.ancestor_runs.contains(run);
                is_in_run && open_input.pending.request.asking_call() == call
            }
        };
        let (id, found) = open.iter().find(|(id, open_input)| is_match(id, open_input))?;
        Some((*id, found.pending.request.kind.clone(), found.answerer.clone(), found.is_durable))
    }

    async fn find_stored(&self, requested: &InputRef) -> Result<Option<InputRow>, BoardError> {
        Ok(match requested {
            InputRef::Id(input) => self.store.input(*input).await?,
            InputRef::Call { run, call } => {
                let rows = self.store.inputs(Some(*run), MAX_OPEN).await?;
                rows.into_iter().find(|row| row.request.asking_call() == call)
            }
        })
    }

    /// The inputs this caller may answer, oldest first: those that are waited for in this process, then those that are
    /// stored and wait for another one.
    pub async fn list(&self, caller: &Caller) -> Result<Vec<PendingInput>, BoardError> {
        let mut listed: Vec<PendingInput> = Vec::new();
        let mut known: Vec<InputId> = Vec::new();
        for (id, open) in self.open().iter() {
            known.push(*id);
            if may_answer(caller, &open.answerer, &self.audience) {
                listed.push(open.pending.clone());
            }
        }
        for row in self.store.inputs(None, MAX_OPEN).await? {
            let is_open = row.answer.is_none() && row.request.expires_at > self.clock.now();
            if is_open
                && !known.contains(&row.request.input)
                && may_answer(caller, &Answerer::of_row(&row), &self.audience)
            {
                listed.push(PendingInput { run: row.run, session: row.session, request: row.request });
            }
        }
        Ok(listed)
    }

    /// The number of inputs that are waited for in this process.
    pub fn open_count(&self) -> usize {
        self.open().len()
    }

    /// What a run waits for in this process.
    pub fn of_run(&self, run: RunId) -> Vec<PendingInput> {
        self.open().values().filter(|open| open.pending.run == run).map(|open| open.pending.clone()).collect()
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<InputId, OpenInput>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InputTicket<'_> {
    /// Waits for the answer, the expiry or the end of the run; returns the answer and who gave it.
    pub async fn outcome(mut self, stop: &CancellationToken) -> Result<(InputAnswer, Arc<str>), BoardError> {
        let remaining = self.request.expires_at.duration_since(self.queue.clock.now());
        let mut expiry_timer = Box::pin(tokio::time::sleep(Duration::try_from(remaining).unwrap_or_default()));
        let mut is_shortened = false;
        let withdrawn = || (InputAnswer::Withdrawn, Arc::from("cancel"));
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(withdrawn()),
                answered = &mut self.answer => return Ok(answered.unwrap_or_else(|_| withdrawn())),
                () = &mut expiry_timer => return self.expire().await,
                // Only the first waiting request shortens the expiry; later ones must not extend it.
                () = self.expiry_shortened.notified(), if !is_shortened => {
                    is_shortened = true;
                    let latest = Instant::now() + CONTENDED_EXPIRY;
                    if latest < expiry_timer.deadline() {
                        expiry_timer.as_mut().reset(latest);
                    }
                }
            }
        }
    }

    /// Its time is over, unless an answer was accepted at the last moment.
    async fn expire(mut self) -> Result<(InputAnswer, Arc<str>), BoardError> {
        let by: Arc<str> = "expiry".into();
        if self.is_durable {
            let input = self.request.input;
            let at = self.queue.clock.now();
            let write = StoreWrite::AnswerInput { input, answer: InputAnswer::Expired, by: by.clone(), at };
            match self.queue.store.commit(WriteBatch::boundary(vec![write])).await {
                Ok(()) => return Ok((InputAnswer::Expired, by)),
                Err(StoreError::Conflict) => {
                    let row = self.queue.store.input(input).await?;
                    return Ok(row.and_then(|row| row.answer).unwrap_or((InputAnswer::Expired, by)));
                }
                Err(error) => return Err(error.into()),
            }
        }
        // Closed first: an answer accepted until then counts.
        self.close();
        Ok(self.answer.try_recv().unwrap_or((InputAnswer::Expired, by)))
    }

    fn close(&self) {
        self.queue.open().remove(&self.request.input);
    }
}

impl Drop for InputTicket<'_> {
    fn drop(&mut self) {
        self.close();
    }
}
