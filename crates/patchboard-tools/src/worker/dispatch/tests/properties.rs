//! Whatever happens in whatever order.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Ask {
        session: u8,
        timeout: u8,
    },
    /// The call of that number among those under way, counted round.
    Release(usize),
    Ready {
        capacity: u32,
    },
    Drain(usize),
    Gone(usize),
    Pass(u8),
    Expire,
    LoseHope,
    Forget(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_u8, 1..30_u8).prop_map(|(session, timeout)| Step::Ask { session, timeout }),
        5 => any::<usize>().prop_map(Step::Release),
        2 => (1..4_u32).prop_map(|capacity| Step::Ready { capacity }),
        1 => any::<usize>().prop_map(Step::Drain),
        1 => any::<usize>().prop_map(Step::Gone),
        2 => (0..10_u8).prop_map(Step::Pass),
        1 => Just(Step::Expire),
        1 => Just(Step::LoseHope),
        1 => (0..6_u8).prop_map(Step::Forget),
    ]
}

/// What the checker knows.
struct InvariantChecker {
    dispatch: CallDispatcher,
    affinity: Affinity,
    now: Instant,
    workers: BTreeMap<u64, (u32, bool)>,
    next_worker: u64,
    waiting: BTreeMap<CallNumber, (Arc<str>, Instant)>,
    running: BTreeMap<CallNumber, u64>,
    ended: BTreeSet<CallNumber>,
    asked: u64,
}

impl InvariantChecker {
    fn new(affinity: Affinity) -> Self {
        Self {
            dispatch: CallDispatcher::new(QueuePolicy { affinity, max_queue: 8 }),
            affinity,
            now: Instant::now(),
            workers: BTreeMap::new(),
            next_worker: 1,
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            ended: BTreeSet::new(),
            asked: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Ask { session, timeout } => self.ask(session, timeout),
            Step::Release(number) => {
                let in_flight: Vec<CallNumber> = self.waiting.keys().chain(self.running.keys()).copied().collect();
                if let Some(&call) = in_flight.get(number % in_flight.len().max(1)) {
                    self.waiting.remove(&call);
                    self.running.remove(&call);
                    self.ended.insert(call);
                    let outcomes = self.dispatch.release(call, self.now);
                    self.hear(&outcomes);
                }
            }
            Step::Ready { capacity } => {
                let worker = self.next_worker;
                self.next_worker += 1;
                self.workers.insert(worker, (capacity, true));
                let outcomes = self.dispatch.add_worker(WorkerNumber(worker), capacity, self.now);
                self.hear(&outcomes);
            }
            Step::Drain(number) => {
                if let Some(worker) = self.pick(number) {
                    self.workers.entry(worker).and_modify(|(_, is_open)| *is_open = false);
                    let outcomes = self.dispatch.drain_worker(WorkerNumber(worker));
                    self.hear(&outcomes);
                }
            }
            Step::Gone(number) => {
                if let Some(worker) = self.pick(number) {
                    self.workers.remove(&worker);
                    let outcomes = self.dispatch.remove_worker(WorkerNumber(worker));
                    self.hear(&outcomes);
                }
            }
            Step::Pass(seconds) => self.now += Duration::from_secs(u64::from(seconds)),
            Step::Expire => {
                let outcomes = self.dispatch.expire(self.now);
                self.hear(&outcomes);
                assert!(self.waiting.values().all(|(_, deadline)| *deadline > self.now), "somebody waits for ever");
            }
            Step::LoseHope if self.workers.values().any(|(_, is_open)| *is_open) => {}
            Step::LoseHope => {
                let outcomes = self.dispatch.fail_waiting();
                self.hear(&outcomes);
                assert!(self.waiting.is_empty());
            }
            Step::Forget(session) => {
                let seen = self.dispatch.forget_session(&format!("s{session}"));
                assert!(seen.iter().all(|worker| self.workers.contains_key(&worker.0)));
            }
        }
        self.check();
    }

    fn ask(&mut self, session: u8, timeout: u8) {
        let session: Arc<str> = format!("s{session}").into();
        let deadline = self.now + Duration::from_secs(u64::from(timeout));
        let has_waited = self.waiting.len();
        let (call, outcome) = self.dispatch.enqueue(&session, deadline, self.now);
        self.asked += 1;
        match outcome {
            EnqueueOutcome::Run(worker) => {
                self.running.insert(call, worker.0);
            }
            EnqueueOutcome::Queued => {
                assert!(has_waited < 8);
                self.waiting.insert(call, (session, deadline));
            }
            EnqueueOutcome::Refused(rejection) => {
                assert_eq!(
                    rejection == CallRejection::Saturated,
                    has_waited >= 8 && rejection == CallRejection::Saturated
                );
                self.ended.insert(call);
            }
        }
    }

    fn hear(&mut self, outcomes: &[QueueOutcome]) {
        let mut last_run: HashMap<u64, CallNumber> = HashMap::new();
        for outcome in outcomes {
            match *outcome {
                QueueOutcome::Run { call, worker } => {
                    let (_, deadline) = self.waiting.remove(&call).expect("only who waits is given a worker");
                    assert!(deadline > self.now, "a call ran although its time was up");
                    assert!(self.workers.get(&worker.0).is_some_and(|(_, is_open)| *is_open));
                    assert!(last_run.insert(worker.0, call).is_none_or(|before| before < call), "out of order");
                    if self.affinity == Affinity::Hint {
                        let is_first = self.waiting.keys().all(|other| *other > call);
                        assert!(is_first, "somebody older still waits for any worker");
                    }
                    self.running.insert(call, worker.0);
                }
                QueueOutcome::Refused { call, rejection } => {
                    let (_, deadline) = self.waiting.remove(&call).expect("only who waits is refused");
                    assert_eq!(
                        rejection == CallRejection::TimedOut,
                        deadline <= self.now && rejection == CallRejection::TimedOut
                    );
                    self.ended.insert(call);
                }
            }
        }
    }

    fn check(&self) {
        let mut loads: HashMap<u64, u32> = HashMap::new();
        for worker in self.running.values() {
            *loads.entry(*worker).or_default() += 1;
        }
        for (worker, (capacity, is_open)) in &self.workers {
            let load = loads.get(worker).copied().unwrap_or_default();
            assert!(load <= *capacity, "more than a worker takes");
            assert_eq!(self.dispatch.in_flight(WorkerNumber(*worker)), load);
            let may_wait = self.affinity != Affinity::Hint || self.waiting.is_empty();
            assert!(!is_open || load == *capacity || may_wait, "somebody waits although there is room");
        }
        let counts = self.dispatch.counts();
        let over = counts.finished + counts.timed_out + counts.refused + counts.withdrawn;
        assert_eq!(counts.requested, self.asked);
        assert_eq!(over, self.ended.len() as u64);
        assert_eq!(self.dispatch.queued(), self.waiting.len());
        assert_eq!(self.asked, over + (self.waiting.len() + self.running.len()) as u64, "a call is lost");
        assert!(
            self.dispatch.deadlines.len() == self.waiting.len() && self.dispatch.running.len() == self.running.len()
        );
        let queued: usize = self.dispatch.workers.values().map(|place| place.bound_calls.len()).sum();
        assert_eq!(queued + self.dispatch.unbound.len(), self.waiting.len());
    }

    fn pick(&self, number: usize) -> Option<u64> {
        self.workers.keys().nth(number % self.workers.len().max(1)).copied()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_nobody_is_overloaded(
        affinity in prop_oneof![Just(Affinity::Hint), Just(Affinity::StrictQueue), Just(Affinity::StrictFailFast)],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut checker = InvariantChecker::new(affinity);
        for step in &steps {
            checker.take(step);
        }
    }
}
