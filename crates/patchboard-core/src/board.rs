//! The board: the only way in. `ask` authorises, then answers; `follow` replays, then tails; `drain` lets go in order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::{self, Caller};
use crate::agent::{AgentTable, Origin};
use crate::approval::ApprovalDesk;
use crate::budget::price::PriceTable;
use crate::budget::{BudgetLimits, Ledger};
use crate::command::{Command, RunRef, SessionRef, StartRun};
use crate::error::{BoardError, ErrorKind};
use crate::event::{Envelope, Topic};
use crate::id::{RunId, Seq, SessionKey};
use crate::log::{Log, Pace};
use crate::memory::{Memory, MemoryOptions};
use crate::port::{BoxStream, Clock, Embedder, Ids, Retention, RunRow, SchemaCheck, SoulSource, Store, ToolHost};
use crate::reply::{Reply, RunSummary};
use crate::run::driver::Begun;
use crate::run::{RunDeps, RunLimits, RunRequest, recover};
use crate::session::{Place, SessionQueues, Turn};
use crate::tool::desk::ToolLimits;
use crate::tool::{ApprovalPolicy, ToolDesk, ToolRegistry};

mod answers;

/// Longest user message in bytes; a longer one is refused.
pub const MAX_CONTENT: usize = 4 * 1024 * 1024;

/// Everything a board is made of.
#[derive(Debug)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub agents: AgentTable,
    /// In order of precedence: built-ins first.
    pub tools: Vec<Arc<dyn ToolHost>>,
    pub schemas: Arc<dyn SchemaCheck>,
    pub souls: Arc<dyn SoulSource>,
    pub embedder: Option<Arc<dyn Embedder>>,
    pub budgets: BudgetLimits,
    pub prices: PriceTable,
    pub memory: MemoryOptions,
    pub approval_policy: ApprovalPolicy,
    pub limits: Limits,
    pub version: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub run: RunLimits,
    pub tool: ToolLimits,
    pub approval_expiry: Duration,
    /// Requests that may wait for one session; the next one is refused.
    pub session_queue: usize,
    /// Runs at work at once; further ones wait.
    pub concurrent_runs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            run: RunLimits::default(),
            tool: ToolLimits::default(),
            approval_expiry: Duration::from_secs(120),
            session_queue: 8,
            concurrent_runs: 256,
        }
    }
}

/// How long things are kept.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    pub runs: Duration,
    /// A run whose events are gone cannot be joined any more.
    pub events: Duration,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Board(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    agents: AgentTable,
    log: Arc<Log>,
    ledger: Arc<Ledger>,
    approvals: Arc<ApprovalDesk>,
    deps: Arc<RunDeps>,
    queues: SessionQueues,
    /// Places for runs at work.
    working: Arc<Semaphore>,
    live: Mutex<HashMap<RunId, LiveRun>>,
    tracker: TaskTracker,
    draining: AtomicBool,
    version: &'static str,
}

#[derive(Debug, Clone)]
struct LiveRun {
    principal: Arc<str>,
    stop: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainReport {
    /// Runs that did not end in time and were cancelled.
    pub cancelled: usize,
}

impl Board {
    pub fn assemble(parts: Parts) -> Self {
        let log = Arc::new(Log::new(parts.store.clone(), parts.clock.clone()));
        let ledger = Arc::new(Ledger::new(parts.budgets, parts.store.clone(), parts.clock.clone()));
        let approvals =
            Arc::new(ApprovalDesk::new(parts.clock.clone(), parts.ids.clone(), parts.limits.approval_expiry));
        let deps = Arc::new(RunDeps {
            log: log.clone(),
            ledger: ledger.clone(),
            desk: ToolDesk {
                policy: parts.approval_policy,
                approvals: approvals.clone(),
                schemas: parts.schemas,
                clock: parts.clock.clone(),
                limits: parts.limits.tool,
            },
            registry: ToolRegistry::new(parts.tools),
            memory: Memory {
                options: parts.memory,
                store: parts.store.clone(),
                clock: parts.clock.clone(),
                souls: parts.souls,
                embedder: parts.embedder,
            },
            prices: parts.prices,
            clock: parts.clock.clone(),
            ids: parts.ids.clone(),
            limits: parts.limits.run,
        });
        Self(Arc::new(Inner {
            store: parts.store,
            clock: parts.clock,
            ids: parts.ids,
            agents: parts.agents,
            log,
            ledger,
            approvals,
            deps,
            queues: SessionQueues::new(parts.limits.session_queue),
            working: Arc::new(Semaphore::new(parts.limits.concurrent_runs)),
            live: Mutex::new(HashMap::new()),
            tracker: TaskTracker::new(),
            draining: AtomicBool::new(false),
            version: parts.version,
        }))
    }

    /// Closes what a crash left open. To be called once, before anything is asked.
    pub async fn recover(&self) -> Result<usize, BoardError> {
        recover::close_interrupted(&self.0.deps, &self.0.store).await
    }

    /// Asks for one thing. Rights are checked, and a place in a session's line is taken, before this returns:
    /// the order of calls is the order of turns. Cancelling `stop` withdraws the request and, when it started a run,
    /// cancels the run; merely dropping the future leaves a run that has begun alone.
    pub fn ask(
        &self,
        caller: &Caller,
        command: Command,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<Reply, BoardError>> {
        if let Err(refused) = self.admit(caller, &command) {
            return Box::pin(std::future::ready(Err(refused)));
        }
        if let Command::StartRun(start) = command {
            return self.start_run(caller, start, stop);
        }
        let board = self.clone();
        let caller = caller.clone();
        Box::pin(async move { board.answer(&caller, command, stop).await })
    }

    /// Replays a topic from `from`, then tails it. No gap, no duplicate.
    pub async fn follow(
        &self,
        caller: &Caller,
        topic: Topic,
        from: Seq,
        pace: Pace,
    ) -> Result<BoxStream<Result<Arc<Envelope>, BoardError>>, BoardError> {
        let Topic::Run(run) = &topic;
        let live = self.live().get(run).map(|live| live.principal.clone());
        let principal = match live {
            Some(principal) => Some(principal),
            None => self.0.store.run(*run).await?.map(|row| row.principal),
        };
        match principal {
            Some(principal) if access::owns(caller, &principal) => Ok(self.0.log.follow(&topic, from, pace)),
            // Whose run it is is nobody else's business, so both cases read the same.
            Some(_) | None => Err(BoardError::not_found("run expired or unknown")),
        }
    }

    /// Takes nothing new, gives what runs `patience` to end, cancels the rest, then closes the store.
    pub async fn drain(&self, patience: Duration) -> Result<DrainReport, BoardError> {
        self.0.draining.store(true, Ordering::SeqCst);
        self.0.tracker.close();
        let mut cancelled = 0;
        if tokio::time::timeout(patience, self.0.tracker.wait()).await.is_err() {
            let stops: Vec<CancellationToken> = self.live().values().map(|live| live.stop.clone()).collect();
            cancelled = stops.len();
            for stop in stops {
                stop.cancel();
            }
            // Cancelled runs only have their end to record; a store that hangs must not hang the exit too.
            if tokio::time::timeout(Duration::from_secs(5), self.0.tracker.wait()).await.is_err() {
                tracing::warn!(
                    "some runs did not end after being cancelled; they end as interrupted at the next start"
                );
            }
        }
        self.0.store.close().await?;
        Ok(DrainReport { cancelled })
    }

    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::SeqCst)
    }

    /// Can it serve right now? Asks the store one small question.
    pub async fn is_ready(&self) -> Result<(), BoardError> {
        if self.is_draining() {
            return Err(BoardError::shutting_down());
        }
        self.0.store.count_sessions().await?;
        Ok(())
    }

    /// Deletes what is older than it should be, in small steps, every hour until `stop`.
    pub async fn keep_house(&self, keep: Keep, stop: CancellationToken) {
        let mut hourly = tokio::time::interval(Duration::from_secs(3600));
        hourly.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = hourly.tick() => {}
                () = stop.cancelled() => return,
            }
            let now = self.0.clock.now();
            let before = |age: Duration| {
                let age = jiff::SignedDuration::try_from(age).unwrap_or(jiff::SignedDuration::MAX);
                now.checked_sub(age).unwrap_or(jiff::Timestamp::MIN)
            };
            let retention = Retention { runs_before: before(keep.runs), events_before: before(keep.events) };
            loop {
                match self.0.store.prune(retention).await {
                    Ok(true) if !stop.is_cancelled() => tokio::task::yield_now().await,
                    Ok(_) => break,
                    Err(error) => {
                        tracing::warn!(%error, "old runs could not be deleted; trying again in an hour");
                        break;
                    }
                }
            }
        }
    }

    fn admit(&self, caller: &Caller, command: &Command) -> Result<(), BoardError> {
        // Said to everyone: where there is no plugin host, nobody could be allowed to use it.
        if let Command::LoadPlugin { .. } | Command::UnloadPlugin { .. } = command {
            return Err(answers::no_plugin_host());
        }
        access::authorise(caller, command)?;
        // What helps runs under way to their end is still taken.
        let lets_runs_end = matches!(command, Command::CancelRun(_) | Command::AnswerApproval { .. });
        if self.is_draining() && !lets_runs_end {
            return Err(BoardError::shutting_down());
        }
        Ok(())
    }

    fn start_run(
        &self,
        caller: &Caller,
        start: StartRun,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<Reply, BoardError>> {
        let placed = self.check_start(&start).and_then(|(agent, session)| {
            let place = self.0.queues.enter(&session)?;
            Ok((agent, session, place))
        });
        let (agent, session, place) = match placed {
            Ok(placed) => placed,
            Err(refused) => return Box::pin(std::future::ready(Err(refused))),
        };
        let board = self.clone();
        let caller = caller.clone();
        // A run's own end (cancelled by someone else, orphaned) must not reach what else hangs on the asker's token.
        let stop = stop.child_token();
        Box::pin(async move {
            let (turn, working) = tokio::select! {
                biased;
                () = stop.cancelled() => return Err(BoardError::cancelled()),
                turn = board.turn(place) => turn?,
            };
            // The line moves on while the board drains; nothing in it begins any more.
            if board.is_draining() {
                return Err(BoardError::shutting_down());
            }
            let run = RunId(board.0.ids.next());
            let StartRun { origin, content, client_id } = start;
            let request = RunRequest { run, caller, agent, origin, session, client_id, content, turn, stop };
            let (begun, answer) = oneshot::channel();
            let task = board.clone();
            // From here on the run does not depend on whoever asked: it is either on record or did not happen.
            board.0.tracker.spawn(async move {
                task.run(request, begun).await;
                drop(working);
            });
            answer.await.unwrap_or_else(|_| Err(BoardError::new(ErrorKind::Internal, "the run failed to begin")))
        })
    }

    /// The session's turn first, then a place to work: a session that waits must not hold a place.
    async fn turn(&self, place: Place) -> Result<(Turn, OwnedSemaphorePermit), BoardError> {
        let turn = place.turn().await?;
        let working = self.0.working.clone().acquire_owned().await.map_err(|_| BoardError::shutting_down())?;
        Ok((turn, working))
    }

    fn check_start(&self, start: &StartRun) -> Result<(Arc<crate::agent::AgentSpec>, SessionKey), BoardError> {
        if start.content.len() > MAX_CONTENT {
            return Err(BoardError::invalid(format!("content is too long: at most {MAX_CONTENT} bytes are accepted")));
        }
        let agent = self.0.agents.route(&start.origin)?.clone();
        let session = start.origin.session_key(&agent.name);
        if session.as_str().len() > SessionKey::MAX_BYTES {
            return Err(BoardError::invalid("channel, account and peer are too long"));
        }
        Ok((agent, session))
    }

    async fn run(self, request: RunRequest, begun: oneshot::Sender<Result<Reply, BoardError>>) {
        let run = request.run;
        let live = LiveRun { principal: request.caller.principal.clone(), stop: request.stop.clone() };
        self.live().insert(run, live);
        let forget = Forget { board: self.clone(), run };
        match Begun::begin(self.0.deps.clone(), request).await {
            Ok(run_begun) => {
                // Nobody may be waiting any more; the run then has its grace to be joined in.
                drop(begun.send(Ok(Reply::RunStarted(run))));
                run_begun.go().await;
            }
            Err(refused) => drop(begun.send(Err(refused))),
        }
        drop(forget);
    }

    fn live(&self) -> MutexGuard<'_, HashMap<RunId, LiveRun>> {
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find_run(&self, caller: &Caller, wanted: RunRef) -> Result<Reply, BoardError> {
        let row: Option<RunRow> = match wanted {
            RunRef::ClientId { id, within } => {
                let within = within.map(|session| self.session_key(session)).transpose()?;
                let found = self.0.store.run_by_client_id(&caller.principal, &id).await?;
                found.filter(|row| within.is_none_or(|session| session == row.session))
            }
            RunRef::Session(session) => {
                let session = self.session_key(session)?;
                self.0.store.run_of_session(&session).await?
            }
        };
        let row = row
            .filter(|row| access::owns(caller, &row.principal))
            .ok_or_else(|| BoardError::not_found("run expired or unknown"))?;
        let last_seq = self.0.store.last_seq(&Topic::Run(row.run)).await?;
        // The run is remembered, its events are not.
        if last_seq == Seq(0) {
            return Err(BoardError::not_found("run expired"));
        }
        Ok(Reply::Run(RunSummary { run: row.run, session: row.session, client_id: row.client_id, last_seq }))
    }

    fn session_key(&self, session: SessionRef) -> Result<SessionKey, BoardError> {
        match session {
            SessionRef::Key(key) => Ok(key),
            SessionRef::Origin(origin) => self.key_of(&origin),
        }
    }

    fn key_of(&self, origin: &Origin) -> Result<SessionKey, BoardError> {
        Ok(origin.session_key(&self.0.agents.route(origin)?.name))
    }
}

/// Takes a run off the live list however its task ends, a panic included.
struct Forget {
    board: Board,
    run: RunId,
}

impl Drop for Forget {
    fn drop(&mut self) {
        self.board.live().remove(&self.run);
    }
}

#[cfg(test)]
mod tests;
