//! Who runs where: a pool's calls, its workers and the queue between them. Synchronous; whoever asks says what time it is.
//!
//! Calls run in the order they came, except that one bound to a worker waits for that worker while others go past it.
//! Nothing here looks through the queue: every step takes time logarithmic in its length.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::time::Instant;

mod affinities;

use affinities::Affinities;

/// A call, in the order they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallNumber(u64);

/// A worker; never used again for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WorkerNumber(pub(super) u64);

/// Where the calls of a session go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Affinity {
    /// To the worker of the last one, if it has room.
    #[default]
    Hint,
    /// To one worker only, however long it takes until it has room.
    StrictQueue,
    /// To one worker only, and only if it has room.
    StrictFailFast,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct QueuePolicy {
    pub(super) affinity: Affinity,
    /// Calls that may wait at once; further ones are refused.
    pub(super) max_queue: usize,
}

/// What becomes of a call at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnqueueOutcome {
    Run(WorkerNumber),
    Queued,
    Refused(CallRejection),
}

/// Why a call never ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CallRejection {
    /// Too many wait already.
    Saturated,
    /// The one worker it may go to has no room.
    WorkerBusy,
    /// The one worker it may go to is gone. Said once for each session: its next call gets another worker.
    SessionWorkerUnavailable,
    /// There is no worker and none is about to come.
    NoWorkers,
    /// It waited too long.
    TimedOut,
}

/// What became of a call that waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueOutcome {
    Run { call: CallNumber, worker: WorkerNumber },
    Refused { call: CallNumber, why: CallRejection },
}

/// `asked` is the sum of all the others, of those that wait and of those that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CallCounts {
    pub(super) requested: u64,
    pub(super) finished: u64,
    pub(super) timed_out: u64,
    /// For any other reason.
    pub(super) refused: u64,
    /// Their callers went away before they ran.
    pub(super) withdrawn: u64,
}

#[derive(Debug)]
pub(super) struct CallDispatcher {
    policy: QueuePolicy,
    workers: HashMap<WorkerNumber, WorkerLoad>,
    /// Open workers with room: the least loaded first, and among those the one that was given nothing for longest.
    available: BTreeSet<LoadRank>,
    /// Those that may go to any worker.
    unbound: BTreeSet<CallNumber>,
    waiting: HashMap<CallNumber, QueuedCall>,
    deadlines: BTreeSet<(Instant, CallNumber)>,
    running: HashMap<CallNumber, WorkerNumber>,
    affinities: Affinities,
    no_workers: bool,
    next_call: u64,
    next_turn: u64,
    counts: CallCounts,
}

type LoadRank = (u32, u64, WorkerNumber);

#[derive(Debug)]
struct WorkerLoad {
    capacity: u32,
    in_flight: u32,
    /// When it was last given something.
    last_turn: u64,
    /// Is it given anything new?
    accepts_calls: bool,
    /// Calls that wait for this worker alone.
    bound_calls: BTreeSet<CallNumber>,
}

#[derive(Debug)]
struct QueuedCall {
    session: Arc<str>,
    deadline: Instant,
    bound_to: Option<WorkerNumber>,
}

impl CallDispatcher {
    pub(super) fn new(rules: QueuePolicy) -> Self {
        Self {
            policy: rules,
            workers: HashMap::new(),
            available: BTreeSet::new(),
            unbound: BTreeSet::new(),
            waiting: HashMap::new(),
            deadlines: BTreeSet::new(),
            running: HashMap::new(),
            affinities: Affinities::default(),
            no_workers: false,
            next_call: 0,
            next_turn: 0,
            counts: CallCounts::default(),
        }
    }

    /// A call that may wait until `deadline`.
    pub(super) fn enqueue(
        &mut self,
        session: &Arc<str>,
        deadline: Instant,
        now: Instant,
    ) -> (CallNumber, EnqueueOutcome) {
        let call = CallNumber(self.next_call);
        self.next_call += 1;
        self.counts.requested += 1;
        let verdict = self.admit(call, session, deadline, now);
        if let EnqueueOutcome::Refused(_) = verdict {
            self.counts.refused += 1;
        }
        (call, verdict)
    }

    fn admit(&mut self, call: CallNumber, session: &Arc<str>, deadline: Instant, now: Instant) -> EnqueueOutcome {
        if self.no_workers {
            return EnqueueOutcome::Refused(CallRejection::NoWorkers);
        }
        let mut bound_to = None;
        if let Some(worker) = self.affinities.worker(session, now) {
            let place = self.workers.get(&worker).filter(|place| place.accepts_calls);
            if place.is_some_and(WorkerLoad::has_capacity) {
                self.start_call(call, worker, session, now);
                return EnqueueOutcome::Run(worker);
            }
            match self.policy.affinity {
                Affinity::Hint => {}
                Affinity::StrictQueue | Affinity::StrictFailFast if place.is_none() => {
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
            Some(place) => place.bound_calls.insert(call),
            None => self.unbound.insert(call),
        };
        self.deadlines.insert((deadline, call));
        self.waiting.insert(call, QueuedCall { session: session.clone(), deadline, bound_to });
        EnqueueOutcome::Queued
    }

    /// A worker takes calls, so many at once.
    pub(super) fn add_worker(&mut self, worker: WorkerNumber, capacity: u32, now: Instant) -> Vec<QueueOutcome> {
        self.no_workers = false;
        let turn = self.next_turn();
        let place = WorkerLoad {
            capacity: capacity.max(1),
            in_flight: 0,
            last_turn: turn,
            accepts_calls: true,
            bound_calls: BTreeSet::new(),
        };
        self.available.insert(place.rank(worker));
        self.workers.insert(worker, place);
        let mut outcomes = Vec::new();
        self.assign_waiting(worker, now, &mut outcomes);
        outcomes
    }

    /// A worker finishes what it has and gets nothing new.
    pub(super) fn drain_worker(&mut self, worker: WorkerNumber) -> Vec<QueueOutcome> {
        let mut outcomes = Vec::new();
        if let Some(place) = self.workers.get_mut(&worker) {
            self.available.remove(&place.rank(worker));
            place.accepts_calls = false;
            for call in std::mem::take(&mut place.bound_calls) {
                self.reject_waiting(call, CallRejection::SessionWorkerUnavailable, &mut outcomes);
            }
        }
        outcomes
    }

    /// A worker is no more. Calls that run on it are still reported as finished by those who made them.
    pub(super) fn remove_worker(&mut self, worker: WorkerNumber) -> Vec<QueueOutcome> {
        let outcomes = self.drain_worker(worker);
        self.workers.remove(&worker);
        outcomes
    }

    /// There is no worker and none is about to come: nobody needs to wait for one. Until the next is ready.
    pub(super) fn fail_waiting(&mut self) -> Vec<QueueOutcome> {
        let mut outcomes = Vec::new();
        self.no_workers = true;
        let calls: Vec<CallNumber> = self.waiting.keys().copied().collect();
        for call in calls {
            self.reject_waiting(call, CallRejection::NoWorkers, &mut outcomes);
        }
        outcomes
    }

    /// A worker is about to come after all.
    pub(super) fn accept_waiting(&mut self) {
        self.no_workers = false;
    }

    /// Whoever made the call is done with it: it ran, or is not wanted any more.
    pub(super) fn release(&mut self, call: CallNumber, now: Instant) -> Vec<QueueOutcome> {
        let mut outcomes = Vec::new();
        if self.dequeue(call).is_some() {
            self.counts.withdrawn += 1;
            return outcomes;
        }
        let Some(worker) = self.running.remove(&call) else { return outcomes };
        self.counts.finished += 1;
        let Some(place) = self.workers.get_mut(&worker) else { return outcomes };
        self.available.remove(&place.rank(worker));
        place.in_flight = place.in_flight.saturating_sub(1);
        if place.accepts_calls {
            self.available.insert(place.rank(worker));
            self.assign_waiting(worker, now, &mut outcomes);
        }
        outcomes
    }

    /// Those that waited too long.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<QueueOutcome> {
        let mut outcomes = Vec::new();
        self.expire_into(now, &mut outcomes);
        outcomes
    }

    /// A session is over. Answers which workers saw it and are still there.
    pub(super) fn forget_session(&mut self, session: &str) -> Vec<WorkerNumber> {
        let mut seen = self.affinities.remove(session);
        seen.retain(|worker| self.workers.contains_key(worker));
        seen
    }

    pub(super) fn counts(&self) -> CallCounts {
        self.counts
    }

    pub(super) fn queued(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn in_flight(&self, worker: WorkerNumber) -> u32 {
        self.workers.get(&worker).map_or(0, |place| place.in_flight)
    }

    /// How many workers take calls.
    pub(super) fn available_workers(&self) -> usize {
        self.workers.values().filter(|place| place.accepts_calls).count()
    }

    /// Gives a worker that has room what waits for it, oldest first.
    fn assign_waiting(&mut self, worker: WorkerNumber, now: Instant, outcomes: &mut Vec<QueueOutcome>) {
        // A call whose time is up never runs, even if its caller has not noticed yet.
        self.expire_into(now, outcomes);
        while let Some(place) = self.workers.get(&worker)
            && place.accepts_calls
            && place.has_capacity()
        {
            let own = place.bound_calls.first().copied();
            let Some(call) = own.into_iter().chain(self.unbound.first().copied()).min() else { return };
            let session = match self.waiting.get(&call) {
                Some(waiting) if own == Some(call) => waiting.session.clone(),
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

    /// Since it began to wait, another call of its session may have bound the session to a worker.
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
        match self.workers.get_mut(&other).filter(|place| place.accepts_calls) {
            Some(place) if self.policy.affinity == Affinity::StrictQueue => {
                // It has no room, or nothing would be waiting for just any worker.
                place.bound_calls.insert(call);
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
        let turn = self.next_turn();
        if let Some(place) = self.workers.get_mut(&worker) {
            self.available.remove(&place.rank(worker));
            place.in_flight += 1;
            place.last_turn = turn;
            if place.has_capacity() {
                self.available.insert(place.rank(worker));
            }
        }
        self.running.insert(call, worker);
        self.affinities.bind(session, worker, now);
    }

    fn reject_waiting(&mut self, call: CallNumber, why: CallRejection, outcomes: &mut Vec<QueueOutcome>) {
        let Some(waiting) = self.dequeue(call) else { return };
        match why {
            CallRejection::TimedOut => self.counts.timed_out += 1,
            CallRejection::SessionWorkerUnavailable => {
                self.affinities.unbind(&waiting.session);
                self.counts.refused += 1;
            }
            CallRejection::Saturated | CallRejection::WorkerBusy | CallRejection::NoWorkers => self.counts.refused += 1,
        }
        outcomes.push(QueueOutcome::Refused { call, why });
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
        if let Some(place) = waiting.bound_to.and_then(|worker| self.workers.get_mut(&worker)) {
            place.bound_calls.remove(&call);
        }
        Some(waiting)
    }

    fn next_turn(&mut self) -> u64 {
        self.next_turn += 1;
        self.next_turn
    }
}

impl WorkerLoad {
    fn has_capacity(&self) -> bool {
        self.in_flight < self.capacity
    }

    fn rank(&self, worker: WorkerNumber) -> LoadRank {
        (self.in_flight, self.last_turn, worker)
    }
}

#[cfg(test)]
mod tests;
