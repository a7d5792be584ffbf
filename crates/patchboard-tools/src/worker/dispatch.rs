//! Who runs where: a pool's calls, its workers and the queue between them. Synchronous; whoever asks says what time it is.
//!
//! Calls run in the order they came, except that one bound to a worker waits for that worker while others go past it.
//! Nothing here looks through the queue: every step takes time logarithmic in its length.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::time::Instant;

mod bonds;

use bonds::Bonds;

/// A call, in the order they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallNo(u64);

/// A worker; never used again for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WorkerNo(pub(super) u64);

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
pub(super) struct Rules {
    pub(super) affinity: Affinity,
    /// Calls that may wait at once; further ones are refused.
    pub(super) max_queue: usize,
}

/// What becomes of a call at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Run(WorkerNo),
    Queued,
    Refused(Refusal),
}

/// Why a call never ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Refusal {
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
pub(super) enum Outcome {
    Run { call: CallNo, worker: WorkerNo },
    Refused { call: CallNo, why: Refusal },
}

/// `asked` is the sum of all the others, of those that wait and of those that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) asked: u64,
    pub(super) finished: u64,
    pub(super) timed_out: u64,
    /// For any other reason.
    pub(super) refused: u64,
    /// Their callers went away before they ran.
    pub(super) withdrawn: u64,
}

#[derive(Debug)]
pub(super) struct Dispatch {
    rules: Rules,
    places: HashMap<WorkerNo, Place>,
    /// Open workers with room: the least loaded first, and among those the one that was given nothing for longest.
    free: BTreeSet<Rank>,
    /// Those that may go to any worker.
    shared: BTreeSet<CallNo>,
    waiting: HashMap<CallNo, Waiting>,
    deadlines: BTreeSet<(Instant, CallNo)>,
    running: HashMap<CallNo, WorkerNo>,
    bonds: Bonds,
    is_hopeless: bool,
    next_call: u64,
    next_turn: u64,
    counts: Counts,
}

type Rank = (u32, u64, WorkerNo);

#[derive(Debug)]
struct Place {
    capacity: u32,
    in_flight: u32,
    /// When it was last given something.
    turn: u64,
    /// Is it given anything new?
    is_open: bool,
    /// Calls that wait for this worker alone.
    bound: BTreeSet<CallNo>,
}

#[derive(Debug)]
struct Waiting {
    session: Arc<str>,
    deadline: Instant,
    bound_to: Option<WorkerNo>,
}

impl Dispatch {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            places: HashMap::new(),
            free: BTreeSet::new(),
            shared: BTreeSet::new(),
            waiting: HashMap::new(),
            deadlines: BTreeSet::new(),
            running: HashMap::new(),
            bonds: Bonds::default(),
            is_hopeless: false,
            next_call: 0,
            next_turn: 0,
            counts: Counts::default(),
        }
    }

    /// A call that may wait until `deadline`.
    pub(super) fn enqueue(&mut self, session: &Arc<str>, deadline: Instant, now: Instant) -> (CallNo, Verdict) {
        let call = CallNo(self.next_call);
        self.next_call += 1;
        self.counts.asked += 1;
        let verdict = self.judge(call, session, deadline, now);
        if let Verdict::Refused(_) = verdict {
            self.counts.refused += 1;
        }
        (call, verdict)
    }

    fn judge(&mut self, call: CallNo, session: &Arc<str>, deadline: Instant, now: Instant) -> Verdict {
        if self.is_hopeless {
            return Verdict::Refused(Refusal::NoWorkers);
        }
        let mut bound_to = None;
        if let Some(worker) = self.bonds.worker(session, now) {
            let place = self.places.get(&worker).filter(|place| place.is_open);
            if place.is_some_and(Place::has_room) {
                self.start(call, worker, session, now);
                return Verdict::Run(worker);
            }
            match self.rules.affinity {
                Affinity::Hint => {}
                Affinity::StrictQueue | Affinity::StrictFailFast if place.is_none() => {
                    self.bonds.loosen(session);
                    return Verdict::Refused(Refusal::SessionWorkerUnavailable);
                }
                Affinity::StrictQueue => bound_to = Some(worker),
                Affinity::StrictFailFast => return Verdict::Refused(Refusal::WorkerBusy),
            }
        }
        if bound_to.is_none()
            && let Some(&(_, _, worker)) = self.free.first()
        {
            self.start(call, worker, session, now);
            return Verdict::Run(worker);
        }
        if self.waiting.len() >= self.rules.max_queue {
            return Verdict::Refused(Refusal::Saturated);
        }
        match bound_to.and_then(|worker| self.places.get_mut(&worker)) {
            Some(place) => place.bound.insert(call),
            None => self.shared.insert(call),
        };
        self.deadlines.insert((deadline, call));
        self.waiting.insert(call, Waiting { session: session.clone(), deadline, bound_to });
        Verdict::Queued
    }

    /// A worker takes calls, so many at once.
    pub(super) fn worker_ready(&mut self, worker: WorkerNo, capacity: u32, now: Instant) -> Vec<Outcome> {
        self.is_hopeless = false;
        let turn = self.next_turn();
        let place = Place { capacity: capacity.max(1), in_flight: 0, turn, is_open: true, bound: BTreeSet::new() };
        self.free.insert(place.rank(worker));
        self.places.insert(worker, place);
        let mut outcomes = Vec::new();
        self.fill(worker, now, &mut outcomes);
        outcomes
    }

    /// A worker finishes what it has and gets nothing new.
    pub(super) fn worker_draining(&mut self, worker: WorkerNo) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        if let Some(place) = self.places.get_mut(&worker) {
            self.free.remove(&place.rank(worker));
            place.is_open = false;
            for call in std::mem::take(&mut place.bound) {
                self.refuse(call, Refusal::SessionWorkerUnavailable, &mut outcomes);
            }
        }
        outcomes
    }

    /// A worker is no more. Calls that run on it are still reported as finished by those who made them.
    pub(super) fn worker_gone(&mut self, worker: WorkerNo) -> Vec<Outcome> {
        let outcomes = self.worker_draining(worker);
        self.places.remove(&worker);
        outcomes
    }

    /// There is no worker and none is about to come: nobody needs to wait for one. Until the next is ready.
    pub(super) fn lose_hope(&mut self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        self.is_hopeless = true;
        let calls: Vec<CallNo> = self.waiting.keys().copied().collect();
        for call in calls {
            self.refuse(call, Refusal::NoWorkers, &mut outcomes);
        }
        outcomes
    }

    /// A worker is about to come after all.
    pub(super) fn take_heart(&mut self) {
        self.is_hopeless = false;
    }

    /// Whoever made the call is done with it: it ran, or is not wanted any more.
    pub(super) fn release(&mut self, call: CallNo, now: Instant) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        if self.take_waiting(call).is_some() {
            self.counts.withdrawn += 1;
            return outcomes;
        }
        let Some(worker) = self.running.remove(&call) else { return outcomes };
        self.counts.finished += 1;
        let Some(place) = self.places.get_mut(&worker) else { return outcomes };
        self.free.remove(&place.rank(worker));
        place.in_flight = place.in_flight.saturating_sub(1);
        if place.is_open {
            self.free.insert(place.rank(worker));
            self.fill(worker, now, &mut outcomes);
        }
        outcomes
    }

    /// Those that waited too long.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        self.expire_into(now, &mut outcomes);
        outcomes
    }

    /// A session is over. Answers which workers saw it and are still there.
    pub(super) fn forget_session(&mut self, session: &str) -> Vec<WorkerNo> {
        let mut seen = self.bonds.remove(session);
        seen.retain(|worker| self.places.contains_key(worker));
        seen
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn queued(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn in_flight(&self, worker: WorkerNo) -> u32 {
        self.places.get(&worker).map_or(0, |place| place.in_flight)
    }

    /// How many workers take calls.
    pub(super) fn open_workers(&self) -> usize {
        self.places.values().filter(|place| place.is_open).count()
    }

    /// Gives a worker that has room what waits for it, oldest first.
    fn fill(&mut self, worker: WorkerNo, now: Instant, outcomes: &mut Vec<Outcome>) {
        // A call whose time is up never runs, even if its caller has not noticed yet.
        self.expire_into(now, outcomes);
        while let Some(place) = self.places.get(&worker)
            && place.is_open
            && place.has_room()
        {
            let own = place.bound.first().copied();
            let Some(call) = own.into_iter().chain(self.shared.first().copied()).min() else { return };
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
            self.take_waiting(call);
            self.start(call, worker, &session, now);
            outcomes.push(Outcome::Run { call, worker });
        }
    }

    /// Since it began to wait, another call of its session may have bound the session to a worker.
    fn is_bound_elsewhere(
        &mut self,
        call: CallNo,
        session: &Arc<str>,
        worker: WorkerNo,
        now: Instant,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        if self.rules.affinity == Affinity::Hint {
            return false;
        }
        let Some(other) = self.bonds.worker(session, now).filter(|other| *other != worker) else { return false };
        match self.places.get_mut(&other).filter(|place| place.is_open) {
            Some(place) if self.rules.affinity == Affinity::StrictQueue => {
                // It has no room, or nothing would be waiting for just any worker.
                place.bound.insert(call);
                self.shared.remove(&call);
                if let Some(waiting) = self.waiting.get_mut(&call) {
                    waiting.bound_to = Some(other);
                }
            }
            Some(_) => self.refuse(call, Refusal::WorkerBusy, outcomes),
            None => {
                self.bonds.loosen(session);
                self.refuse(call, Refusal::SessionWorkerUnavailable, outcomes);
            }
        }
        true
    }

    fn start(&mut self, call: CallNo, worker: WorkerNo, session: &Arc<str>, now: Instant) {
        let turn = self.next_turn();
        if let Some(place) = self.places.get_mut(&worker) {
            self.free.remove(&place.rank(worker));
            place.in_flight += 1;
            place.turn = turn;
            if place.has_room() {
                self.free.insert(place.rank(worker));
            }
        }
        self.running.insert(call, worker);
        self.bonds.bind(session, worker, now);
    }

    fn refuse(&mut self, call: CallNo, why: Refusal, outcomes: &mut Vec<Outcome>) {
        let Some(waiting) = self.take_waiting(call) else { return };
        match why {
            Refusal::TimedOut => self.counts.timed_out += 1,
            Refusal::SessionWorkerUnavailable => {
                self.bonds.loosen(&waiting.session);
                self.counts.refused += 1;
            }
            Refusal::Saturated | Refusal::WorkerBusy | Refusal::NoWorkers => self.counts.refused += 1,
        }
        outcomes.push(Outcome::Refused { call, why });
    }

    fn expire_into(&mut self, now: Instant, outcomes: &mut Vec<Outcome>) {
        while let Some(&(_, call)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
            self.refuse(call, Refusal::TimedOut, outcomes);
        }
    }

    fn take_waiting(&mut self, call: CallNo) -> Option<Waiting> {
        let waiting = self.waiting.remove(&call)?;
        self.deadlines.remove(&(waiting.deadline, call));
        self.shared.remove(&call);
        if let Some(place) = waiting.bound_to.and_then(|worker| self.places.get_mut(&worker)) {
            place.bound.remove(&call);
        }
        Some(waiting)
    }

    fn next_turn(&mut self) -> u64 {
        self.next_turn += 1;
        self.next_turn
    }
}

impl Place {
    fn has_room(&self) -> bool {
        self.in_flight < self.capacity
    }

    fn rank(&self, worker: WorkerNo) -> Rank {
        (self.in_flight, self.turn, worker)
    }
}

#[cfg(test)]
mod tests;
