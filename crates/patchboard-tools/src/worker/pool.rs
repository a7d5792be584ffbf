//! One pool: its workers, its queue and what it offers.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use patchboard_core::bridge::{Measure, Signal, WORKER_KIND, WorkerId, WorkerState, WorkerTool};
use patchboard_core::model::ToolCall;
use patchboard_core::port::{NameStanding, ToolHost};
use patchboard_core::tool::{ToolOutput, ToolScope, ToolSpec};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::dispatch::{CallNo, Dispatch, Outcome, Refusal, Rules, Verdict, WorkerNo};
use super::link::Link;
use super::start::Failure;
use super::tools::{self, Offer};
use super::unregistered::{UnknownNames, Unregistered};
use super::warm::WarmParent;
use super::{Common, PoolOptions};
use crate::telemetry::PoolMeters;

mod report;
mod sessions;

use sessions::Farewells;

/// Starting takes a core for half a second: so many at once in one pool.
const STARTS_AT_ONCE: usize = 8;

#[derive(Debug)]
pub(super) struct Pool {
    /// Among all pools.
    pub(super) number: usize,
    pub(super) options: PoolOptions,
    pub(super) common: Arc<Common>,
    pub(super) meters: PoolMeters,
    pub(super) starts: Semaphore,
    pub(super) warm: WarmParent,
    farewells: Farewells,
    state: Mutex<State>,
    tally: Tally,
    settled: CancellationToken,
    ready: watch::Sender<usize>,
    next_worker: AtomicU64,
    shows_secret: AtomicBool,
    had_worker: AtomicBool,
}

#[derive(Debug)]
struct State {
    dispatch: Dispatch,
    /// Who waits to be told.
    waiting: HashMap<CallNo, oneshot::Sender<Grant>>,
    crew: BTreeMap<WorkerNo, Member>,
    slots: Vec<Slot>,
    offer: Offer,
    /// What workers said they do not have, when asked by name.
    unknown: UnknownNames,
    /// It was said in the log that the pool has no tools.
    has_said_empty: bool,
    trouble: Option<Arc<str>>,
    restarts: u64,
    recycled: u64,
}

/// How calls went that ran.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) succeeded: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Ran past their deadline.
    pub(super) timed_out: AtomicU64,
}

/// A worker that takes calls, or did.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) no: WorkerNo,
    pub(super) id: WorkerId,
    pub(super) link: Link,
    /// Its own session, which keeps it from outliving the server.
    pub(super) session: String,
    pub(super) pid: Option<u32>,
    pub(super) born: Instant,
    /// When it is no more: calls on it need not wait any longer.
    pub(super) gone: CancellationToken,
    pub(super) calls: AtomicU64,
    /// Told when it has done as many calls as it may.
    pub(super) worn_out: Notify,
    /// Told when a call on it ends.
    pub(super) call_ended: Notify,
}

/// A worker from its start to its end.
#[derive(Debug)]
struct Member {
    id: WorkerId,
    slot: u32,
    state: WorkerState,
    since: Timestamp,
    pid: Option<u32>,
    capacity: u32,
    memory: Option<u64>,
    address: Option<Arc<str>>,
    told: Vec<WorkerTool>,
    worker: Option<Arc<Worker>>,
}

/// A place in the pool that is to be taken by a worker.
#[derive(Debug, Clone)]
struct Slot {
    stage: Stage,
    last: Option<(WorkerId, Timestamp)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its worker is about to come.
    Hopeful,
    Up,
    /// The last attempt to start one failed.
    Failed,
}

type Grant = Result<Arc<Worker>, Refusal>;

impl Pool {
    pub(super) fn new(number: usize, options: PoolOptions, common: Arc<Common>) -> Self {
        let rules = Rules { affinity: options.affinity, max_queue: options.max_queue };
        let slots = vec![Slot { stage: Stage::Hopeful, last: None }; options.count as usize];
        Self {
            number,
            meters: PoolMeters::new(&options.name, options.count),
            starts: Semaphore::new(STARTS_AT_ONCE),
            warm: WarmParent::default(),
            farewells: Farewells::default(),
            state: Mutex::new(State {
                dispatch: Dispatch::new(rules),
                waiting: HashMap::new(),
                crew: BTreeMap::new(),
                slots,
                offer: Offer::default(),
                unknown: UnknownNames::default(),
                has_said_empty: false,
                trouble: None,
                restarts: 0,
                recycled: 0,
            }),
            tally: Tally::default(),
            settled: CancellationToken::new(),
            ready: watch::Sender::new(0),
            next_worker: AtomicU64::new(1),
            shows_secret: AtomicBool::new(false),
            had_worker: AtomicBool::new(false),
            options,
            common,
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.options.name
    }

    /// Cancelled when the first worker was ready or could not be started.
    pub(super) fn settled(&self) -> &CancellationToken {
        &self.settled
    }

    /// Returns when all workers are there.
    pub(super) async fn whole(&self) {
        let wanted = self.options.count as usize;
        // The sender lives as long as this.
        drop(self.ready.subscribe().wait_for(|ready| *ready >= wanted).await);
    }

    /// Its workers show their secrets: one did, and all run the same program. The next one is asked for it from the first
    /// moment on.
    pub(super) fn shows_secret(&self) -> bool {
        self.shows_secret.load(Ordering::Relaxed)
    }

    pub(super) fn showed_secret(&self) {
        self.shows_secret.store(true, Ordering::Relaxed);
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(super) fn find(&self, tool: &str) -> Option<ToolSpec> {
        self.state().offer.find(self.name(), tool).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever listens; `more` adds to it.
    pub(super) fn tell(&self, name: &str, worker: Option<&WorkerId>, more: impl FnOnce(Signal) -> Signal) {
        self.common.signals.tell(|| {
            let signal = Signal::new(name, self.common.clock.now()).note("pool_name", self.name().clone());
            more(match worker {
                Some(worker) => signal.note("worker_id", worker.0.clone()),
                None => signal,
            })
        });
    }
}

/// Tools that nobody registered.
impl Pool {
    /// May workers be called by such names? `None` while that is up to workers and there was none.
    pub(super) fn runs_unregistered(&self) -> Option<bool> {
        match self.options.unregistered {
            Unregistered::Allow => Some(true),
            Unregistered::Deny => Some(false),
            // Of the SDK's making, and nobody else's, are workers that show their secret.
            Unregistered::ByWorker => self.had_worker.load(Ordering::Relaxed).then(|| !self.shows_secret()),
        }
    }

    pub(super) fn standing(&self, name: &str, now: Instant) -> NameStanding {
        let state = self.state();
        if state.offer.has(name) {
            NameStanding::Registered
        } else if state.unknown.has(name, now) {
            NameStanding::Unknown
        } else {
            NameStanding::Untried
        }
    }

    pub(super) fn unknown(&self, name: &str, now: Instant) {
        self.state().unknown.note(name, now);
    }
}

/// A call's place on a worker, or its place in the queue. Dropped, it is free for the next.
#[derive(Debug)]
pub(super) struct Seat<'a> {
    pool: &'a Pool,
    call: CallNo,
    /// Once there is one.
    worker: Option<Arc<Worker>>,
}

impl Pool {
    /// A seat on a worker for a call of that session; it is waited for until `deadline`. Dropping the future gives up
    /// the place in the queue.
    pub(super) async fn seat(&self, session: &Arc<str>, deadline: Instant) -> Result<(Seat<'_>, Arc<Worker>), Refusal> {
        let asked = Instant::now();
        let deadline = deadline.min(asked + self.options.queue_timeout);
        let (seat, mut granted) = {
            let mut state = self.state();
            let (call, verdict) = state.dispatch.enqueue(session, deadline, asked);
            let seat = Seat { pool: self, call, worker: None };
            match verdict {
                Verdict::Run(worker) => {
                    let worker = state.worker(worker).ok_or(Refusal::NoWorkers);
                    drop(state);
                    return worker.map(|worker| seat.on(worker));
                }
                Verdict::Refused(why) => {
                    drop(state);
                    if why == Refusal::Saturated {
                        let queued = i64::try_from(self.options.max_queue).unwrap_or(i64::MAX);
                        self.tell("pool.saturated", None, |signal| signal.measure("queue_depth", Measure::Int(queued)));
                    }
                    return Err(why);
                }
                Verdict::Queued => {
                    let (grant, granted) = oneshot::channel();
                    state.waiting.insert(call, grant);
                    self.meters.queued.set(state.dispatch.queued() as f64);
                    (seat, granted)
                }
            }
        };
        let grant = tokio::select! {
            biased;
            grant = &mut granted => grant,
            () = tokio::time::sleep_until(deadline) => {
                self.apply(|dispatch| dispatch.expire(Instant::now()));
                granted.await
            }
        };
        self.meters.queue_seconds.record(asked.elapsed().as_secs_f64());
        // Nobody is left to tell only when the pool itself is gone.
        let worker = grant.unwrap_or(Err(Refusal::NoWorkers))?;
        Ok(seat.on(worker))
    }

    /// Does something to the queue and tells those it concerns.
    fn apply(&self, step: impl FnOnce(&mut Dispatch) -> Vec<Outcome>) {
        let mut state = self.state();
        let outcomes = step(&mut state.dispatch);
        state.deliver(outcomes);
        self.meters.queued.set(state.dispatch.queued() as f64);
    }

    /// The connection to a worker is lost: it gets nothing more, before anybody else finds out the hard way.
    pub(super) fn lost(&self, worker: &Worker) {
        self.apply(|dispatch| dispatch.worker_draining(worker.no));
    }

    pub(super) fn in_flight(&self, worker: &Worker) -> u32 {
        self.state().dispatch.in_flight(worker.no)
    }
}

impl Seat<'_> {
    fn on(mut self, worker: Arc<Worker>) -> (Self, Arc<Worker>) {
        self.worker = Some(worker.clone());
        (self, worker)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        state.waiting.remove(&self.call);
        let outcomes = state.dispatch.release(self.call, Instant::now());
        if !outcomes.is_empty() {
            state.deliver(outcomes);
            self.pool.meters.queued.set(state.dispatch.queued() as f64);
        }
        drop(state);
        if let Some(worker) = &self.worker {
            worker.call_ended.notify_waiters();
        }
    }
}

impl State {
    fn worker(&self, worker: WorkerNo) -> Option<Arc<Worker>> {
        self.crew.get(&worker)?.worker.clone()
    }

    fn deliver(&mut self, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            let (call, grant) = match outcome {
                Outcome::Run { call, worker } => (call, self.worker(worker).ok_or(Refusal::NoWorkers)),
                Outcome::Refused { call, why } => (call, Err(why)),
            };
            if let Some(waiting) = self.waiting.remove(&call) {
                // Whoever waited may be gone in this moment; their seat is released all the same.
                drop(waiting.send(grant));
            }
        }
    }

    /// Calls wait as long as a worker may come.
    fn weigh(&mut self) {
        let may_come = self.slots.iter().any(|slot| slot.stage != Stage::Failed);
        if may_come || self.dispatch.open_workers() > 0 {
            self.dispatch.take_heart();
        } else {
            let outcomes = self.dispatch.lose_hope();
            self.deliver(outcomes);
        }
    }
}

/// What the keeper of a slot reports.
impl Pool {
    pub(super) fn next_worker(&self, slot: u32) -> (WorkerNo, WorkerId) {
        let number = self.next_worker.fetch_add(1, Ordering::Relaxed);
        (WorkerNo(number), WorkerId(format!("{}_worker_{slot}_{number}", self.name()).into()))
    }

    pub(super) fn starting(&self, no: WorkerNo, id: &WorkerId, slot: u32) {
        let member = Member {
            id: id.clone(),
            slot,
            state: WorkerState::Starting,
            since: self.common.clock.now(),
            pid: None,
            capacity: 0,
            memory: None,
            address: None,
            told: Vec::new(),
            worker: None,
        };
        self.state().crew.insert(no, member);
    }

    pub(super) fn spawned(&self, no: WorkerNo, id: &WorkerId, pid: Option<u32>) {
        if let Some(member) = self.state().crew.get_mut(&no) {
            member.pid = pid;
        }
        self.tell("pool.worker.spawned", Some(id), |signal| signal);
    }

    /// What a worker said about its tools while it was starting.
    pub(super) fn told(&self, no: WorkerNo) -> Vec<WorkerTool> {
        self.state().crew.get(&no).map(|member| member.told.clone()).unwrap_or_default()
    }

    pub(super) fn ready(&self, worker: Arc<Worker>, capacity: u32, address: Arc<str>, tools: Vec<WorkerTool>) {
        let (no, id, pid) = (worker.no, worker.id.clone(), worker.pid);
        self.had_worker.store(true, Ordering::Relaxed);
        let offered = {
            let mut state = self.state();
            let Some(member) = state.crew.get_mut(&no) else { return };
            member.state = WorkerState::Ready;
            member.since = self.common.clock.now();
            member.pid = pid;
            member.capacity = capacity;
            member.address = Some(address);
            member.worker = Some(worker);
            member.told.clone_from(&tools);
            let slot = member.slot;
            if let Some(slot) = state.slots.get_mut(slot as usize) {
                *slot = Slot { stage: Stage::Up, last: Some((id.clone(), self.common.clock.now())) };
            }
            // A worker that says nothing about its tools says nothing new.
            if !tools.is_empty() && state.offer.replace(&tools) {
                tracing::info!(pool = &**self.name(), tools = tools.len(), "workers offer tools");
            }
            state.unknown.clear();
            self.warn_if_empty(&mut state);
            if state.slots.iter().all(|slot| slot.stage == Stage::Up) {
                state.trouble = None;
            }
            let outcomes = state.dispatch.worker_ready(no, capacity, Instant::now());
            state.deliver(outcomes);
            self.count_ready(&state);
            state.offer.specs().len()
        };
        self.settled.cancel();
        let tools = i64::try_from(offered).unwrap_or(i64::MAX);
        self.tell("pool.worker.ready", Some(&id), |signal| signal.measure("count", Measure::Int(tools)));
    }

    /// It gets nothing new.
    pub(super) fn draining(&self, no: WorkerNo) {
        let mut state = self.state();
        if let Some(member) = state.crew.get_mut(&no) {
            member.state = WorkerState::Draining;
        }
        let outcomes = state.dispatch.worker_draining(no);
        state.deliver(outcomes);
        self.count_ready(&state);
    }

    /// It is no more, whatever it was.
    pub(super) fn gone(&self, no: WorkerNo) {
        let mut state = self.state();
        let Some(member) = state.crew.remove(&no) else { return };
        if let Some(worker) = &member.worker {
            worker.gone.cancel();
        }
        let outcomes = state.dispatch.worker_gone(no);
        state.deliver(outcomes);
        self.count_ready(&state);
        drop(state);
        self.tell("pool.worker.terminated", Some(&member.id), |signal| signal);
    }

    /// The slot has no worker any more and gets another one.
    pub(super) fn vacant(&self, slot: u32) {
        let mut state = self.state();
        if let Some(slot) = state.slots.get_mut(slot as usize) {
            slot.stage = Stage::Hopeful;
        }
        state.weigh();
    }

    /// There will be no more workers.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.slots.iter_mut().for_each(|slot| *slot = Slot { stage: Stage::Failed, last: None });
        state.trouble = Some("the server is stopping".into());
        state.weigh();
    }

    /// The slot's next worker could not be started. Says whether that is news.
    pub(super) fn failed(&self, slot: u32, failure: &Failure) -> bool {
        let mut state = self.state();
        let has_worker = state.crew.values().any(|member| member.slot == slot && member.state == WorkerState::Ready);
        if let Some(slot) = state.slots.get_mut(slot as usize)
            && !has_worker
        {
            slot.stage = Stage::Failed;
        }
        let is_news = self.note_trouble(&mut state, failure.sentence());
        state.weigh();
        drop(state);
        self.settled.cancel();
        is_news
    }

    /// A worker ended by itself, or had to be ended. Says whether that is news.
    pub(super) fn crashed(&self, id: &WorkerId, failure: &Failure) -> bool {
        let is_news = {
            let mut state = self.state();
            state.restarts += 1;
            self.note_trouble(&mut state, failure.sentence())
        };
        self.meters.crashed.increment(1);
        self.tell("worker.crash", Some(id), |signal| signal.note("reason", failure.what.as_str()));
        is_news
    }

    pub(super) fn recycled(&self, id: &WorkerId, why: &'static str) {
        self.state().recycled += 1;
        self.meters.recycled.increment(1);
        self.tell("worker.recycled", Some(id), |signal| signal.note("reason", why));
    }

    pub(super) fn weighs(&self, no: WorkerNo, memory: Option<u64>) {
        if let Some(member) = self.state().crew.get_mut(&no) {
            member.memory = memory;
        }
    }

    fn note_trouble(&self, state: &mut State, sentence: String) -> bool {
        let is_news = state.trouble.as_deref() != Some(sentence.as_str());
        state.trouble = Some(sentence.into());
        is_news
    }

    fn count_ready(&self, state: &State) {
        let ready = state.crew.values().filter(|member| member.state == WorkerState::Ready).count();
        self.meters.ready.set(ready as f64);
        self.ready.send_replace(ready);
    }

    /// A worker of this pool says which tools it has; `false` when it is none of this pool.
    pub(super) fn registered(&self, id: &WorkerId, tools: &[WorkerTool]) -> bool {
        let mut state = self.state();
        let Some(member) = state.crew.values_mut().find(|member| member.id == *id) else { return false };
        let is_ready = member.state == WorkerState::Ready;
        member.told = tools::with(&member.told, tools);
        // While it starts, `ready` speaks for it. Afterwards it can add to what the pool offers, and not take away or
        // change what somebody may have approved.
        if is_ready && state.offer.add(tools) {
            tracing::info!(
                pool = &**self.name(),
                tools = state.offer.specs().len(),
                "workers offer more tools than before"
            );
        }
        true
    }

    /// Said once: a pool that nobody sees tools of looks broken, and may be as its author meant it.
    fn warn_if_empty(&self, state: &mut State) {
        if !state.offer.specs().is_empty() || std::mem::replace(&mut state.has_said_empty, true) {
            return;
        }
        let pool = &**self.name();
        if self.runs_unregistered() == Some(true) {
            tracing::warn!(
                pool,
                "the pool `{pool}` is ready and its workers registered no tools; programs on the bridge can call what \
                 they run by name, or as `{pool}.NAME`, and agents are offered nothing of it; `unregistered = \"deny\"` \
                 for the pool refuses such calls"
            );
        } else {
            tracing::warn!(
                pool,
                "the pool `{pool}` is ready and its workers registered no tools, so nothing of it can be called; \
                 `unregistered = \"allow\"` for the pool lets programs on the bridge call what they run by name"
            );
        }
    }

    /// The reason why there is no worker, for callers.
    pub(super) fn trouble(&self) -> String {
        let state = self.state();
        state.trouble.as_deref().unwrap_or("its workers are gone").to_owned()
    }
}

impl ToolHost for Pool {
    fn kind(&self) -> &'static str {
        WORKER_KIND
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        self.state().offer.specs().clone()
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(super::call::run_registered(self, scope, call, arguments, stop))
    }

    fn qualifier(&self) -> Option<&str> {
        Some(self.name())
    }
}
