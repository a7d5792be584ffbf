//! One pool: its workers, its queue and the tools it offers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use patchboard_core::bridge::{MeasuredValue, TelemetryEvent};
use patchboard_core::model::ToolCall;
use patchboard_core::port::ToolScope;
use patchboard_core::port::{ToolHost, ToolNameStatus};
use patchboard_core::tool::{ToolKind, ToolOutput, ToolSpec};
use patchboard_core::worker::{WorkerId, WorkerState, WorkerTool};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::WorkerConnection;
use super::dispatch::{
    CallDispatcher, CallNumber, CallRejection, EnqueueOutcome, QueueOutcome, QueuePolicy, WorkerNumber,
};
use super::fork_server::LazyForkServer;
use super::output_tail::StdioTail;
use super::start::WorkerFailure;
use super::tools::{self, OfferedTools};
use super::unregistered::{UnknownNames, UnregisteredPolicy};
use super::{PoolContext, PoolOptions};
use crate::telemetry::PoolMetrics;

mod output;
mod report;
mod sessions;

use sessions::SessionCleanups;

/// Starting a worker takes half a second of one core, so the concurrent starts of a pool are limited.
const MAX_CONCURRENT_STARTS: usize = 8;

#[derive(Debug)]
pub(super) struct WorkerPool {
    /// Position among all pools.
    pub(super) index: usize,
    pub(super) options: PoolOptions,
    pub(super) context: Arc<PoolContext>,
    pub(super) metrics: PoolMetrics,
    pub(super) starts: Semaphore,
    pub(super) fork_server: LazyForkServer,
    session_cleanups: SessionCleanups,
    state: Mutex<PoolState>,
    tally: CallTally,
    first_start_done: CancellationToken,
    ready_count: watch::Sender<usize>,
    next_worker: AtomicU64,
    sends_secret: AtomicBool,
    ever_ready: AtomicBool,
}

#[derive(Debug)]
struct PoolState {
    dispatcher: CallDispatcher,
    /// Callers of queued calls.
    waiting: HashMap<CallNumber, oneshot::Sender<PermitGrant>>,
    workers: BTreeMap<WorkerNumber, WorkerRecord>,
    slots: Vec<PoolSlot>,
    tools: OfferedTools,
    /// Tool names that workers rejected as unknown.
    unknown_names: UnknownNames,
    /// The warning that the pool has no tools was logged.
    warned_empty: bool,
    last_error: Option<Arc<str>>,
    restarts: u64,
    recycled: u64,
    /// What the last ended workers wrote.
    ended_outputs: VecDeque<(WorkerId, StdioTail)>,
}

/// Outcomes of calls that ran.
#[derive(Debug, Default)]
pub(super) struct CallTally {
    pub(super) succeeded: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Exceeded their deadline.
    pub(super) timed_out: AtomicU64,
}

/// A worker that takes calls, or did until it was drained.
#[derive(Debug)]
pub(super) struct ConnectedWorker {
    pub(super) number: WorkerNumber,
    pub(super) id: WorkerId,
    pub(super) connection: WorkerConnection,
    /// The server's own session on this worker, which makes the worker exit when the server is gone.
    pub(super) session: String,
    pub(super) pid: Option<u32>,
    pub(super) started_at: Instant,
    /// Cancelled when the worker is removed, so that calls on it stop waiting.
    pub(super) removed: CancellationToken,
    pub(super) calls: AtomicU64,
    /// Notified when the worker has run as many calls as it may.
    pub(super) retire: Notify,
    /// Notified when the operator asks for its replacement.
    pub(super) restart: Notify,
    /// Notified when a call on the worker ends.
    pub(super) call_ended: Notify,
}

/// A worker from its start to its end.
#[derive(Debug)]
struct WorkerRecord {
    id: WorkerId,
    slot: u32,
    state: WorkerState,
    since: Timestamp,
    pid: Option<u32>,
    capacity: u32,
    memory: Option<u64>,
    address: Option<Arc<str>>,
    registered_tools: Vec<WorkerTool>,
    output: Option<StdioTail>,
    worker: Option<Arc<ConnectedWorker>>,
}

/// One of the `count` positions of the pool, each filled by one worker at a time.
#[derive(Debug, Clone)]
struct PoolSlot {
    stage: SlotStage,
    last_worker: Option<(WorkerId, Timestamp)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotStage {
    /// A worker is about to be started.
    Starting,
    Running,
    /// The last attempt to start a worker failed.
    Failed,
}

type PermitGrant = Result<Arc<ConnectedWorker>, CallRejection>;

impl WorkerPool {
    pub(super) fn new(number: usize, options: PoolOptions, context: Arc<PoolContext>) -> Self {
        let policy = QueuePolicy { affinity: options.affinity, max_queue: options.max_queue };
        let slots = vec![PoolSlot { stage: SlotStage::Starting, last_worker: None }; options.count as usize];
        Self {
            index: number,
            metrics: PoolMetrics::new(&options.name, options.count),
            starts: Semaphore::new(MAX_CONCURRENT_STARTS),
            fork_server: LazyForkServer::default(),
            session_cleanups: SessionCleanups::default(),
            state: Mutex::new(PoolState {
                dispatcher: CallDispatcher::new(policy),
                waiting: HashMap::new(),
                workers: BTreeMap::new(),
                slots,
                tools: OfferedTools::default(),
                unknown_names: UnknownNames::default(),
                warned_empty: false,
                last_error: None,
                restarts: 0,
                recycled: 0,
                ended_outputs: VecDeque::new(),
            }),
            tally: CallTally::default(),
            first_start_done: CancellationToken::new(),
            ready_count: watch::Sender::new(0),
            next_worker: AtomicU64::new(1),
            sends_secret: AtomicBool::new(false),
            ever_ready: AtomicBool::new(false),
            options,
            context,
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.options.name
    }

    /// Cancelled when the first worker was ready or failed to start.
    pub(super) fn first_start_done(&self) -> &CancellationToken {
        &self.first_start_done
    }

    /// Returns when all workers are ready.
    pub(super) async fn wait_until_full(&self) {
        let target = self.options.count as usize;
        // The sender lives as long as `self`, so this cannot fail.
        drop(self.ready_count.subscribe().wait_for(|ready| *ready >= target).await);
    }

    /// One worker sent its secret, and all run the same program, so the next workers must send theirs from their first
    /// call.
    pub(super) fn sends_secret(&self) -> bool {
        self.sends_secret.load(Ordering::Relaxed)
    }

    pub(super) fn set_sends_secret(&self) {
        self.sends_secret.store(true, Ordering::Relaxed);
    }

    pub(super) fn tally(&self) -> &CallTally {
        &self.tally
    }

    pub(super) fn find(&self, tool: &str) -> Option<ToolSpec> {
        self.state().tools.find(self.name(), tool).cloned()
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Emits a telemetry event of this pool; `extend` adds to it.
    pub(super) fn emit_event(
        &self,
        name: &str,
        worker: Option<&WorkerId>,
        extend: impl FnOnce(TelemetryEvent) -> TelemetryEvent,
    ) {
        self.context.telemetry.emit(|| {
            let event =
                TelemetryEvent::new(name, self.context.clock.now()).with_metadata("pool_name", self.name().clone());
            extend(match worker {
                Some(worker) => event.with_metadata("worker_id", worker.0.clone()),
                None => event,
            })
        });
    }
}

/// Calls of unregistered tools.
impl WorkerPool {
    /// Whether workers may be called by unregistered names. `None` while this depends on the workers and none was ready
    /// yet.
    pub(super) fn runs_unregistered(&self) -> Option<bool> {
        match self.options.unregistered {
            UnregisteredPolicy::Allow => Some(true),
            UnregisteredPolicy::Deny => Some(false),
            // Only workers of our SDK send their secret, and the SDK registers every tool.
            UnregisteredPolicy::ByWorker => self.ever_ready.load(Ordering::Relaxed).then(|| !self.sends_secret()),
        }
    }

    pub(super) fn name_status(&self, name: &str, now: Instant) -> ToolNameStatus {
        let state = self.state();
        if state.tools.has(name) {
            ToolNameStatus::Registered
        } else if state.unknown_names.has(name, now) {
            ToolNameStatus::Unknown
        } else {
            ToolNameStatus::Untried
        }
    }

    pub(super) fn note_unknown(&self, name: &str, now: Instant) {
        self.state().unknown_names.note(name, now);
    }
}

/// A call's slot on a worker or its entry in the queue; released on drop.
#[derive(Debug)]
pub(super) struct CallPermit<'a> {
    pool: &'a WorkerPool,
    call: CallNumber,
    /// Set once a worker is assigned.
    worker: Option<Arc<ConnectedWorker>>,
}

impl WorkerPool {
    /// Waits until `deadline` for capacity on a worker for a call of the session. Dropping the future leaves the queue.
    pub(super) async fn acquire_permit(
        &self,
        session: &Arc<str>,
        deadline: Instant,
    ) -> Result<(CallPermit<'_>, Arc<ConnectedWorker>), CallRejection> {
        let requested_at = Instant::now();
        let deadline = deadline.min(requested_at + self.options.queue_timeout);
        let (permit, mut receiver) = {
            let mut state = self.state();
            let (call, outcome) = state.dispatcher.enqueue(session, deadline, requested_at);
            let permit = CallPermit { pool: self, call, worker: None };
            match outcome {
                EnqueueOutcome::Run(worker) => {
                    let worker = state.worker(worker).ok_or(CallRejection::NoWorkers);
                    drop(state);
                    return worker.map(|worker| permit.assigned_to(worker));
                }
                EnqueueOutcome::Refused(rejection) => {
                    drop(state);
                    if rejection == CallRejection::Saturated {
                        let queued = i64::try_from(self.options.max_queue).unwrap_or(i64::MAX);
                        self.emit_event("pool.saturated", None, |event| {
                            event.with_measure("queue_depth", MeasuredValue::Int(queued))
                        });
                    }
                    return Err(rejection);
                }
                EnqueueOutcome::Queued => {
                    let (sender, receiver) = oneshot::channel();
                    state.waiting.insert(call, sender);
                    self.metrics.queued.set(state.dispatcher.queued() as f64);
                    (permit, receiver)
                }
            }
        };
        let grant = tokio::select! {
            biased;
            grant = &mut receiver => grant,
            () = tokio::time::sleep_until(deadline) => {
                self.update_queue(|dispatcher| dispatcher.expire(Instant::now()));
                receiver.await
            }
        };
        self.metrics.queue_seconds.record(requested_at.elapsed().as_secs_f64());
        // The sender is dropped without a grant only when the pool itself is dropped.
        let worker = grant.unwrap_or(Err(CallRejection::NoWorkers))?;
        Ok(permit.assigned_to(worker))
    }

    /// Updates the dispatcher and delivers the outcomes to the waiting calls.
    fn update_queue(&self, update: impl FnOnce(&mut CallDispatcher) -> Vec<QueueOutcome>) {
        let mut state = self.state();
        let outcomes = update(&mut state.dispatcher);
        state.deliver(outcomes);
        self.metrics.queued.set(state.dispatcher.queued() as f64);
    }

    /// Drains a worker whose connection is lost, so that no further call is sent to it.
    pub(super) fn connection_lost(&self, worker: &ConnectedWorker) {
        self.update_queue(|dispatcher| dispatcher.drain_worker(worker.number));
    }

    pub(super) fn in_flight(&self, worker: &ConnectedWorker) -> u32 {
        self.state().dispatcher.in_flight(worker.number)
    }
}

impl CallPermit<'_> {
    fn assigned_to(mut self, worker: Arc<ConnectedWorker>) -> (Self, Arc<ConnectedWorker>) {
        self.worker = Some(worker.clone());
        (self, worker)
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        state.waiting.remove(&self.call);
        let outcomes = state.dispatcher.release(self.call, Instant::now());
        if !outcomes.is_empty() {
            state.deliver(outcomes);
            self.pool.metrics.queued.set(state.dispatcher.queued() as f64);
        }
        drop(state);
        if let Some(worker) = &self.worker {
            worker.call_ended.notify_waiters();
        }
    }
}

impl PoolState {
    fn worker(&self, worker: WorkerNumber) -> Option<Arc<ConnectedWorker>> {
        self.workers.get(&worker)?.worker.clone()
    }

    fn deliver(&mut self, outcomes: Vec<QueueOutcome>) {
        for outcome in outcomes {
            let (call, grant) = match outcome {
                QueueOutcome::Run { call, worker } => (call, self.worker(worker).ok_or(CallRejection::NoWorkers)),
                QueueOutcome::Refused { call, rejection } => (call, Err(rejection)),
            };
            if let Some(sender) = self.waiting.remove(&call) {
                // The caller may have stopped waiting; dropping its permit releases the slot.
                drop(sender.send(grant));
            }
        }
    }

    /// Calls may queue as long as a worker can still become available.
    fn update_availability(&mut self) {
        let may_become_available = self.slots.iter().any(|slot| slot.stage != SlotStage::Failed);
        if may_become_available || self.dispatcher.available_workers() > 0 {
            self.dispatcher.accept_waiting();
        } else {
            let outcomes = self.dispatcher.fail_waiting();
            self.deliver(outcomes);
        }
    }
}

/// State changes reported by the supervisor of a slot.
impl WorkerPool {
    pub(super) fn next_worker(&self, slot: u32) -> (WorkerNumber, WorkerId) {
        let number = self.next_worker.fetch_add(1, Ordering::Relaxed);
        (WorkerNumber(number), WorkerId(format!("{}_worker_{slot}_{number}", self.name()).into()))
    }

    pub(super) fn add_starting(&self, number: WorkerNumber, id: &WorkerId, slot: u32) {
        let record = WorkerRecord {
            id: id.clone(),
            slot,
            state: WorkerState::Starting,
            since: self.context.clock.now(),
            pid: None,
            capacity: 0,
            memory: None,
            address: None,
            registered_tools: Vec::new(),
            output: None,
            worker: None,
        };
        self.state().workers.insert(number, record);
    }

    pub(super) fn record_spawn(&self, number: WorkerNumber, id: &WorkerId, pid: Option<u32>) {
        if let Some(record) = self.state().workers.get_mut(&number) {
            record.pid = pid;
        }
        self.emit_event("pool.worker.spawned", Some(id), |event| event);
    }

    /// Tools the worker registered through its callback while it was starting.
    pub(super) fn registered_tools(&self, number: WorkerNumber) -> Vec<WorkerTool> {
        self.state().workers.get(&number).map(|record| record.registered_tools.clone()).unwrap_or_default()
    }

    pub(super) fn mark_ready(
        &self,
        worker: Arc<ConnectedWorker>,
        capacity: u32,
        address: Arc<str>,
        tools: Vec<WorkerTool>,
    ) {
        let (number, id, pid) = (worker.number, worker.id.clone(), worker.pid);
        self.ever_ready.store(true, Ordering::Relaxed);
        let tool_count = {
            let mut state = self.state();
            let Some(record) = state.workers.get_mut(&number) else { return };
            record.state = WorkerState::Ready;
            record.since = self.context.clock.now();
            record.pid = pid;
            record.capacity = capacity;
            record.address = Some(address);
            record.worker = Some(worker);
            record.registered_tools.clone_from(&tools);
            let slot = record.slot;
            if let Some(slot) = state.slots.get_mut(slot as usize) {
                *slot =
                    PoolSlot { stage: SlotStage::Running, last_worker: Some((id.clone(), self.context.clock.now())) };
            }
            // An empty list carries no information and leaves the pool's tools unchanged.
            if !tools.is_empty() && state.tools.replace(&tools) {
                tracing::info!(pool = &**self.name(), tools = tools.len(), "workers offer tools");
            }
            state.unknown_names.clear();
            self.warn_if_empty(&mut state);
            if state.slots.iter().all(|slot| slot.stage == SlotStage::Running) {
                state.last_error = None;
            }
            let outcomes = state.dispatcher.add_worker(number, capacity, Instant::now());
            state.deliver(outcomes);
            self.count_ready(&state);
            state.tools.specs().len()
        };
        self.first_start_done.cancel();
        let tools = i64::try_from(tool_count).unwrap_or(i64::MAX);
        self.emit_event("pool.worker.ready", Some(&id), |event| event.with_measure("count", MeasuredValue::Int(tools)));
    }

    /// The worker gets no new calls.
    pub(super) fn start_draining(&self, number: WorkerNumber) {
        let mut state = self.state();
        if let Some(record) = state.workers.get_mut(&number) {
            record.state = WorkerState::Draining;
        }
        let outcomes = state.dispatcher.drain_worker(number);
        state.deliver(outcomes);
        self.count_ready(&state);
    }

    /// Removes a worker in any state.
    pub(super) fn remove_worker(&self, number: WorkerNumber) {
        let mut state = self.state();
        let Some(record) = state.workers.remove(&number) else { return };
        if let Some(worker) = &record.worker {
            worker.removed.cancel();
        }
        state.keep_output(&record);
        let outcomes = state.dispatcher.remove_worker(number);
        state.deliver(outcomes);
        self.count_ready(&state);
        drop(state);
        self.emit_event("pool.worker.terminated", Some(&record.id), |event| event);
    }

    /// The slot's worker ended and the next one is about to start.
    pub(super) fn reopen_slot(&self, slot: u32) {
        let mut state = self.state();
        if let Some(slot) = state.slots.get_mut(slot as usize) {
            slot.stage = SlotStage::Starting;
        }
        state.update_availability();
    }

    /// No worker will be started any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.slots.iter_mut().for_each(|slot| *slot = PoolSlot { stage: SlotStage::Failed, last_worker: None });
        state.last_error = Some("the server is stopping".into());
        state.update_availability();
    }

    /// Records that the slot's next worker could not be started. Returns true if the error differs from the last one.
    pub(super) fn record_start_failure(&self, slot: u32, failure: &WorkerFailure) -> bool {
        let mut state = self.state();
        let has_worker = state.workers.values().any(|record| record.slot == slot && record.state == WorkerState::Ready);
        if let Some(slot) = state.slots.get_mut(slot as usize)
            && !has_worker
        {
            slot.stage = SlotStage::Failed;
        }
        let is_new = self.record_error(&mut state, failure.full_message());
        state.update_availability();
        drop(state);
        self.first_start_done.cancel();
        is_new
    }

    /// Records that a worker exited or had to be killed. Returns true if the error differs from the last one.
    pub(super) fn record_crash(&self, id: &WorkerId, failure: &WorkerFailure) -> bool {
        let is_new = {
            let mut state = self.state();
            state.restarts += 1;
            self.record_error(&mut state, failure.full_message())
        };
        self.metrics.crashed.increment(1);
        self.emit_event("worker.crash", Some(id), |event| event.with_metadata("reason", failure.message.as_str()));
        is_new
    }

    pub(super) fn record_recycle(&self, id: &WorkerId, reason: &'static str) {
        self.state().recycled += 1;
        self.metrics.recycled.increment(1);
        self.emit_event("worker.recycled", Some(id), |event| event.with_metadata("reason", reason));
    }

    pub(super) fn record_memory(&self, number: WorkerNumber, memory: Option<u64>) {
        if let Some(record) = self.state().workers.get_mut(&number) {
            record.memory = memory;
        }
    }

    fn record_error(&self, state: &mut PoolState, message: String) -> bool {
        let is_new = state.last_error.as_deref() != Some(message.as_str());
        state.last_error = Some(message.into());
        is_new
    }

    fn count_ready(&self, state: &PoolState) {
        let ready = state.workers.values().filter(|record| record.state == WorkerState::Ready).count();
        self.metrics.ready.set(ready as f64);
        self.ready_count.send_replace(ready);
    }

    /// Merges tools that a worker registered. Returns false if the worker is not of this pool.
    pub(super) fn register_tools(&self, id: &WorkerId, tools: &[WorkerTool]) -> bool {
        let mut state = self.state();
        let Some(record) = state.workers.values_mut().find(|record| record.id == *id) else { return false };
        let is_ready = record.state == WorkerState::Ready;
        record.registered_tools = tools::merged(&record.registered_tools, tools);
        // A starting worker's tools are published by `mark_ready`. Later registrations may only add tools, not remove
        // or change those the operator may have approved.
        if is_ready && state.tools.add(tools) {
            tracing::info!(
                pool = &**self.name(),
                tools = state.tools.specs().len(),
                "workers offer more tools than before"
            );
        }
        true
    }

    /// Warns once: a pool without tools looks broken although it may be configured that way.
    fn warn_if_empty(&self, state: &mut PoolState) {
        if !state.tools.specs().is_empty() || std::mem::replace(&mut state.warned_empty, true) {
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

    /// Why there is no worker, for callers.
    pub(super) fn last_error(&self) -> String {
        let state = self.state();
        state.last_error.as_deref().unwrap_or("its workers are gone").to_owned()
    }
}

impl ToolHost for WorkerPool {
    fn kind(&self) -> ToolKind {
        ToolKind::Worker
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        self.state().tools.specs().clone()
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
