//! Assignment of a pool's calls to its workers, and the queue between them. Synchronous; the caller passes the current
//! time.
//!
//! Calls run in order of arrival, except that a call bound to one worker waits for it while later calls overtake. The
//! queue is never scanned: every operation is logarithmic in its length.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::time::Instant;

mod affinities;

use affinities::Affinities;

/// Identifies a call; ascending in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallNumber(u64);

/// Identifies a worker; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WorkerNumber(pub(super) u64);

/// How the calls of one session are assigned to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Affinity {
    /// Prefer the worker of the previous call if it has capacity.
    #[default]
    Hint,
    /// One worker only; calls queue until it has capacity.
    StrictQueue,
    /// One worker only; calls are refused unless it has capacity.
    StrictFailFast,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct QueuePolicy {
    pub(super) affinity: Affinity,
    /// Queued calls; further calls are refused.
    pub(super) max_queue: usize,
}

/// Immediate outcome of `enqueue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnqueueOutcome {
    Run(WorkerNumber),
    Queued,
    Refused(CallRejection),
}

/// Why a call never ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CallRejection {
    /// The queue is full.
    Saturated,
    /// The only worker the call may use has no capacity.
    WorkerBusy,
    /// The only worker the call may use is gone. Reported once per session: its next call may use any worker.
    SessionWorkerUnavailable,
    /// There is no worker and none is starting.
    NoWorkers,
    /// The call waited until its deadline.
    TimedOut,
}

/// Outcome of a queued call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueOutcome {
    Run { call: CallNumber, worker: WorkerNumber },
    Refused { call: CallNumber, rejection: CallRejection },
}

/// `requested` equals the sum of the other counters plus the calls that are queued or running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CallCounts {
    pub(super) requested: u64,
    pub(super) finished: u64,
    pub(super) timed_out: u64,
    /// Refused for a reason other than `timed_out`.
    pub(super) refused: u64,
    /// Released by their callers before they ran.
    pub(super) withdrawn: u64,
}

#[derive(Debug)]
pub(super) struct CallDispatcher {
    policy: QueuePolicy,
    workers: HashMap<WorkerNumber, WorkerLoad>,
    /// Workers that accept calls and have capacity: the least loaded first, and among equals the one that received no
    /// call for longest.
    available: BTreeSet<LoadRank>,
    /// Queued calls that may run on any worker.
    unbound: BTreeSet<CallNumber>,
    waiting: HashMap<CallNumber, QueuedCall>,
    deadlines: BTreeSet<(Instant, CallNumber)>,
    running: HashMap<CallNumber, WorkerNumber>,
    affinities: Affinities,
    no_workers: bool,
    next_call: u64,
    next_tick: u64,
    counts: CallCounts,
}

type LoadRank = (u32, u64, WorkerNumber);

#[derive(Debug)]
struct WorkerLoad {
    capacity: u32,
    in_flight: u32,
    /// The tick at which it last received a call.
    last_tick: u64,
    /// False once the worker is draining.
    accepts_calls: bool,
    /// Queued calls that only this worker may run.
    bound_calls: BTreeSet<CallNumber>,
}

#[derive(Debug)]
struct QueuedCall {
    session: Arc<str>,
    deadline: Instant,
    bound_to: Option<WorkerNumber>,
}

impl CallDispatcher {
    pub(super) fn new(policy: QueuePolicy) -> Self {
        Self {
            policy,
            workers: HashMap::new(),
            available: BTreeSet::new(),
            unbound: BTreeSet::new(),
            waiting: HashMap::new(),
            deadlines: BTreeSet::new(),
            running: HashMap::new(),
            affinities: Affinities::default(),
            no_workers: false,
            next_call: 0,
            next_tick: 0,
            counts: CallCounts::default(),
        }
    }

    /// Runs, queues or refuses a call that may wait until `deadline`.
    pub(super) fn enqueue(
        &mut self,
        session: &Arc<str>,
        deadline: Instant,
        now: Instant,
    ) -> (CallNumber, EnqueueOutcome) {
        let call = CallNumber(self.next_call);
        self.next_call += 1;
        self.counts.requested += 1;
        let outcome = self.admit(call, session, deadline, now);
        if let EnqueueOutcome::Refused(_) = outcome {
            self.counts.refused += 1;
        }
        (call, outcome)
    }

    fn admit(&mut self, call: CallNumber, session: &Arc<str>, deadline: Instant, now: Instant) -> EnqueueOutcome {
        if self.no_workers {
            return EnqueueOutcome::Refused(CallRejection::NoWorkers);
        }
        let mut bound_to = None;
        if let Some(worker) = self.affinities.worker(session, now) {
            let load = self.workers.get(&worker).filter(|load| load.accepts_calls);
            if load.is_some_and(WorkerLoad::has_capacity) {
                self.start_call(call, worker, session, now);
                return EnqueueOutcome::Run(worker);
            }
            match self.policy.affinity {
                Affinity::Hint => {}
                Affinity::StrictQueue | Affinity::StrictFailFast if load.is_none() => {
                    self.affinities.unbind(session);
                    return EnqueueOutcome::Refused(CallRejection::SessionWorkerUnavailable);
                }
                Affinity::StrictQueue => bound_to = Some(worker),
                Affinity::StrictFailFast => return EnqueueOutcome::Refused(CallRejection::WorkerBusy),
            }
        }
        if bound_to.is_none()
            && let Some(&(_, _, worker)) = self.available.first()
        {
            self.start_call(call, worker, session, now);
            return EnqueueOutcome::Run(worker);
        }
        if self.waiting.len() >= self.policy.max_queue {
            return EnqueueOutcome::Refused(CallRejection::Saturated);
        }
        match bound_to.and_then(|worker| self.workers.get_mut(&worker)) {
            Some(load) => load.bound_calls.insert(call),
            None => self.unbound.insert(call),
        };
        self.deadlines.insert((deadline, call));
        self.waiting.insert(call, QueuedCall { session: session.clone(), deadline, bound_to });
        EnqueueOutcome::Queued
    }

    /// Adds a worker that takes up to `capacity` concurrent calls.
    pub(super) fn add_worker(&mut self, worker: WorkerNumber, capacity: u32, now: Instant) -> Vec<QueueOutcome> {
        self.no_workers = false;
        let tick = self.next_tick();
        let load = WorkerLoad {
            capacity: capacity.max(1),
            in_flight: 0,
            last_tick: tick,
            accepts_calls: true,
            bound_calls: BTreeSet::new(),
        };
        self.available.insert(load.rank(worker));
        self.workers.insert(worker, load);
        let mut outcomes = Vec::new();
        self.assign_waiting(worker, now, &mut outcomes);
        outcomes
    }

    /// The worker finishes its running calls and receives no new ones.
    pub(super) fn drain_worker(&mut self, worker: WorkerNumber) -> Vec<QueueOutcome> {
        let mut outcomes = Vec::new();
        if let Some(load) = self.workers.get_mut(&worker) {
            self.available.remove(&load.rank(worker));
            load.accepts_calls = false;
            for call in std::mem::take(&mut load.bound_calls) {
                self.reject_waiting(call, CallRejection::SessionWorkerUnavailable, &mut outcomes);
            }
        }
        outcomes
    }

    /// Removes a worker. Calls that run on it are still released by their callers.
    pub(super) fn remove_worker(&mut self, worker: WorkerNumber) -> Vec<QueueOutcome> {
        let outcomes = self.drain_worker(worker);
        self.workers.remove(&worker);
        outcomes
    }

    /// Rejects all queued calls because there is no worker and none is starting. New calls are refused until a worker
    /// is added or `accept_waiting` is called.
    pub(super) fn fail_waiting(&mut self) -> Vec<QueueOutcome> {
        let mut outcomes = Vec::new();
        self.no_workers = true;
        let calls: Vec<CallNumber> = self.waiting.keys().copied().collect();
        for call in calls {
            self.reject_waiting(call, CallRejection::NoWorkers, &mut outcomes);
        }
        outcomes
    }

    /// A worker is starting again, so calls may queue.
    pub(super) fn accept_waiting(&mut self) {
        self.no_workers = false;
    }

    /// Ends a call, whether it ran or is withdrawn from the queue.
    pub(super) fn release(&mut self, call: CallNumber, now: Instant) -> Vec<QueueOutcome> {
        let mut outcomes = Vec::new();
        if self.dequeue(call).is_some() {
            self.counts.withdrawn += 1;
            return outcomes;
        }
        let Some(worker) = self.running.remove(&call) else { return outcomes };
        self.counts.finished += 1;
        let Some(load) = self.workers.get_mut(&worker) else { return outcomes };
        self.available.remove(&load.rank(worker));
        load.in_flight = load.in_flight.saturating_sub(1);
        if load.accepts_calls {
            self.available.insert(load.rank(worker));
            self.assign_waiting(worker, now, &mut outcomes);
        }
        outcomes
    }

    /// Rejects the queued calls whose deadline has passed.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<QueueOutcome> {
        let mut outcomes = Vec::new();
        self.expire_into(now, &mut outcomes);
        outcomes
    }

    /// Removes a closed session. Returns the present workers that ran calls of it.
    pub(super) fn forget_session(&mut self, session: &str) -> Vec<WorkerNumber> {
        let mut workers = self.affinities.remove(session);
        workers.retain(|worker| self.workers.contains_key(worker));
        workers
    }

    pub(super) fn counts(&self) -> CallCounts {
        self.counts
    }

    pub(super) fn queued(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn in_flight(&self, worker: WorkerNumber) -> u32 {
        self.workers.get(&worker).map_or(0, |load| load.in_flight)
    }

    /// Number of workers that accept calls.
    pub(super) fn available_workers(&self) -> usize {
        self.workers.values().filter(|load| load.accepts_calls).count()
    }

    /// Assigns queued calls to a worker while it has capacity, oldest first.
    fn assign_waiting(&mut self, worker: WorkerNumber, now: Instant, outcomes: &mut Vec<QueueOutcome>) {
        // An expired call never runs, even if its caller has not noticed the deadline yet.
        self.expire_into(now, outcomes);
        while let Some(load) = self.workers.get(&worker)
            && load.accepts_calls
            && load.has_capacity()
        {
            let first_bound = load.bound_calls.first().copied();
            let Some(call) = first_bound.into_iter().chain(self.unbound.first().copied()).min() else { return };
            let session = match self.waiting.get(&call) {
                Some(waiting) if first_bound == Some(call) => waiting.session.clone(),
                Some(waiting) => {
                    let session = waiting.session.clone();
                    if self.is_bound_elsewhere(call, &session, worker, now, outcomes) {
                        continue;
                    }
                    session
                }
                None => return debug_assert!(false, "a queued call is not waiting"),
            };
            self.dequeue(call);
            self.start_call(call, worker, &session, now);
            outcomes.push(QueueOutcome::Run { call, worker });
        }
    }

    /// While the call was queued, another call of its session may have bound the session to a different worker.
    fn is_bound_elsewhere(
        &mut self,
        call: CallNumber,
        session: &Arc<str>,
        worker: WorkerNumber,
        now: Instant,
        outcomes: &mut Vec<QueueOutcome>,
    ) -> bool {
        if self.policy.affinity == Affinity::Hint {
            return false;
        }
        let Some(other) = self.affinities.worker(session, now).filter(|other| *other != worker) else { return false };
        match self.workers.get_mut(&other).filter(|load| load.accepts_calls) {
            Some(load) if self.policy.affinity == Affinity::StrictQueue => {
                // `other` has no capacity, otherwise this unbound call would already run on it.
                load.bound_calls.insert(call);
                self.unbound.remove(&call);
                if let Some(waiting) = self.waiting.get_mut(&call) {
                    waiting.bound_to = Some(other);
                }
            }
            Some(_) => self.reject_waiting(call, CallRejection::WorkerBusy, outcomes),
            None => {
                self.affinities.unbind(session);
                self.reject_waiting(call, CallRejection::SessionWorkerUnavailable, outcomes);
            }
        }
        true
    }

    fn start_call(&mut self, call: CallNumber, worker: WorkerNumber, session: &Arc<str>, now: Instant) {
        let tick = self.next_tick();
        if let Some(load) = self.workers.get_mut(&worker) {
            self.available.remove(&load.rank(worker));
            load.in_flight += 1;
            load.last_tick = tick;
            if load.has_capacity() {
                self.available.insert(load.rank(worker));
            }
        }
        self.running.insert(call, worker);
        self.affinities.bind(session, worker, now);
    }

    fn reject_waiting(&mut self, call: CallNumber, rejection: CallRejection, outcomes: &mut Vec<QueueOutcome>) {
        let Some(waiting) = self.dequeue(call) else { return };
        match rejection {
            CallRejection::TimedOut => self.counts.timed_out += 1,
            CallRejection::SessionWorkerUnavailable => {
                self.affinities.unbind(&waiting.session);
                self.counts.refused += 1;
            }
            CallRejection::Saturated | CallRejection::WorkerBusy | CallRejection::NoWorkers => self.counts.refused += 1,
        }
        outcomes.push(QueueOutcome::Refused { call, rejection });
    }

    fn expire_into(&mut self, now: Instant, outcomes: &mut Vec<QueueOutcome>) {
        while let Some(&(_, call)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
            self.reject_waiting(call, CallRejection::TimedOut, outcomes);
        }
    }

    fn dequeue(&mut self, call: CallNumber) -> Option<QueuedCall> {
        let waiting = self.waiting.remove(&call)?;
        self.deadlines.remove(&(waiting.deadline, call));
        self.unbound.remove(&call);
        if let Some(load) = waiting.bound_to.and_then(|worker| self.workers.get_mut(&worker)) {
            load.bound_calls.remove(&call);
        }
        Some(waiting)
    }

    fn next_tick(&mut self) -> u64 {
        self.next_tick += 1;
        self.next_tick
    }
}

impl WorkerLoad {
    fn has_capacity(&self) -> bool {
        self.in_flight < self.capacity
    }

    fn rank(&self, worker: WorkerNumber) -> LoadRank {
        (self.in_flight, self.last_tick, worker)
    }
}

#[cfg(test)]
mod tests;
