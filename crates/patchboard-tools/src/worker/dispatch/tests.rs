use std::time::Duration;

use super::*;

mod properties;

const WAIT: Duration = Duration::from_secs(10);

/// A pool whose clock stands still unless it is moved.
struct TestDispatcher {
    dispatch: CallDispatcher,
    now: Instant,
}

impl TestDispatcher {
    fn new(affinity: Affinity, max_queue: usize) -> Self {
        Self { dispatch: CallDispatcher::new(QueuePolicy { affinity, max_queue }), now: Instant::now() }
    }

    fn ask(&mut self, session: &str) -> (CallNumber, EnqueueOutcome) {
        self.dispatch.enqueue(&session.into(), self.now + WAIT, self.now)
    }

    fn ready(&mut self, worker: u64, capacity: u32) -> Vec<QueueOutcome> {
        self.dispatch.add_worker(WorkerNumber(worker), capacity, self.now)
    }

    fn done(&mut self, call: CallNumber) -> Vec<QueueOutcome> {
        self.dispatch.release(call, self.now)
    }
}

fn runs(worker: u64) -> EnqueueOutcome {
    EnqueueOutcome::Run(WorkerNumber(worker))
}

fn given(call: CallNumber, worker: u64) -> QueueOutcome {
    QueueOutcome::Run { call, worker: WorkerNumber(worker) }
}

fn refused(call: CallNumber, rejection: CallRejection) -> QueueOutcome {
    QueueOutcome::Refused { call, rejection }
}

#[test]
fn calls_wait_for_the_first_worker_and_run_in_their_order() {
    let mut dispatcher = TestDispatcher::new(Affinity::Hint, 10);
    let calls: Vec<CallNumber> = ["a", "b", "c"].map(|session| dispatcher.ask(session).0).to_vec();
    assert_eq!(dispatcher.ready(1, 2), [given(calls[0], 1), given(calls[1], 1)]);
    assert_eq!(dispatcher.done(calls[1]), [given(calls[2], 1)]);
    assert_eq!(dispatcher.dispatch.in_flight(WorkerNumber(1)), 2);
}

#[test]
fn the_least_loaded_worker_is_chosen_and_among_equals_the_one_that_rested_longest() {
    let mut dispatcher = TestDispatcher::new(Affinity::Hint, 10);
    for worker in [1, 2, 3] {
        dispatcher.ready(worker, 4);
    }
    let chosen: Vec<EnqueueOutcome> = ["a", "b", "c", "d"].map(|session| dispatcher.ask(session).1).to_vec();
    assert_eq!(chosen, [runs(1), runs(2), runs(3), runs(1)]);
    let (call, _) = dispatcher.ask("e");
    assert_eq!(dispatcher.done(call), []);
    // Two have one call each; the third was given its last before the second.
    assert_eq!(dispatcher.ask("f").1, runs(3));
}

#[test]
fn a_session_goes_back_to_its_worker_while_it_has_room() {
    let mut dispatcher = TestDispatcher::new(Affinity::Hint, 10);
    dispatcher.ready(1, 2);
    dispatcher.ready(2, 2);
    assert_eq!(
        [dispatcher.ask("a").1, dispatcher.ask("a").1, dispatcher.ask("a").1, dispatcher.ask("a").1],
        [runs(1), runs(1), runs(2), runs(2)]
    );
}

#[test]
fn a_full_queue_refuses() {
    let mut dispatcher = TestDispatcher::new(Affinity::Hint, 2);
    dispatcher.ready(1, 1);
    assert_eq!(dispatcher.ask("a").1, runs(1));
    assert_eq!([dispatcher.ask("b").1, dispatcher.ask("c").1], [EnqueueOutcome::Queued, EnqueueOutcome::Queued]);
    assert_eq!(dispatcher.ask("d").1, EnqueueOutcome::Refused(CallRejection::Saturated));
    assert_eq!(dispatcher.dispatch.counts(), CallCounts { requested: 4, refused: 1, ..CallCounts::default() });
}

#[test]
fn an_expired_call_never_runs() {
    let mut dispatcher = TestDispatcher::new(Affinity::Hint, 10);
    let (late, _) = dispatcher.ask("a");
    dispatcher.now += Duration::from_secs(4);
    let (early, _) = dispatcher.ask("b");
    dispatcher.now += Duration::from_secs(6);
    // A worker becomes ready before `expire` has run.
    assert_eq!(dispatcher.ready(1, 5), [refused(late, CallRejection::TimedOut), given(early, 1)]);
    assert_eq!(dispatcher.dispatch.expire(dispatcher.now + WAIT), []);
    assert_eq!(dispatcher.dispatch.counts(), CallCounts { requested: 2, timed_out: 1, ..CallCounts::default() });
}

#[test]
fn a_released_call_frees_its_place_in_the_queue() {
    let mut dispatcher = TestDispatcher::new(Affinity::Hint, 1);
    let (gone, _) = dispatcher.ask("a");
    assert_eq!(dispatcher.done(gone), []);
    let (next, outcome) = dispatcher.ask("b");
    assert_eq!(outcome, EnqueueOutcome::Queued);
    assert_eq!(dispatcher.ready(1, 5), [given(next, 1)]);
    assert_eq!(dispatcher.dispatch.counts(), CallCounts { requested: 2, withdrawn: 1, ..CallCounts::default() });
}

#[test]
fn a_strict_session_waits_for_its_worker_while_others_go_past() {
    let mut dispatcher = TestDispatcher::new(Affinity::StrictQueue, 10);
    dispatcher.ready(1, 1);
    let (first, _) = dispatcher.ask("a");
    dispatcher.ready(2, 1);
    let (bound, outcome) = dispatcher.ask("a");
    assert_eq!(outcome, EnqueueOutcome::Queued);
    assert_eq!(dispatcher.ask("b").1, runs(2));
    assert_eq!(dispatcher.done(first), [given(bound, 1)]);
}

#[test]
fn a_strict_session_whose_calls_all_waited_still_gets_one_worker() {
    for (affinity, expected) in
        [(Affinity::StrictQueue, None), (Affinity::StrictFailFast, Some(CallRejection::WorkerBusy))]
    {
        let mut dispatcher = TestDispatcher::new(affinity, 10);
        let (first, _) = dispatcher.ask("a");
        let (second, _) = dispatcher.ask("a");
        assert_eq!(dispatcher.ready(1, 1), [given(first, 1)]);
        match expected {
            None => {
                assert_eq!(dispatcher.ready(2, 1), []);
                assert_eq!(dispatcher.done(first), [given(second, 1)]);
            }
            Some(rejection) => assert_eq!(dispatcher.ready(2, 1), [refused(second, rejection)]),
        }
    }
}

#[test]
fn a_strict_session_that_does_not_wait_hears_that_its_worker_is_busy() {
    let mut dispatcher = TestDispatcher::new(Affinity::StrictFailFast, 10);
    dispatcher.ready(1, 1);
    dispatcher.ready(2, 1);
    assert_eq!(
        [dispatcher.ask("a").1, dispatcher.ask("a").1],
        [runs(1), EnqueueOutcome::Refused(CallRejection::WorkerBusy)]
    );
}

#[test]
fn a_strict_session_hears_once_that_its_worker_is_gone() {
    for affinity in [Affinity::StrictQueue, Affinity::StrictFailFast] {
        let mut dispatcher = TestDispatcher::new(affinity, 10);
        dispatcher.ready(1, 1);
        let (first, _) = dispatcher.ask("a");
        dispatcher.ready(2, 2);
        assert_eq!(dispatcher.dispatch.remove_worker(WorkerNumber(1)), []);
        assert_eq!(dispatcher.done(first), []);
        assert_eq!(dispatcher.ask("a").1, EnqueueOutcome::Refused(CallRejection::SessionWorkerUnavailable));
        assert_eq!(dispatcher.ask("a").1, runs(2));
    }
}

#[test]
fn those_that_wait_for_a_worker_alone_do_not_wait_for_its_successor() {
    let mut dispatcher = TestDispatcher::new(Affinity::StrictQueue, 10);
    dispatcher.ready(1, 1);
    dispatcher.ask("a");
    let (bound, _) = dispatcher.ask("a");
    assert_eq!(
        dispatcher.dispatch.drain_worker(WorkerNumber(1)),
        [refused(bound, CallRejection::SessionWorkerUnavailable)]
    );
    assert_eq!(dispatcher.ready(2, 1), []);
    assert_eq!(dispatcher.ask("a").1, runs(2));
}

#[test]
fn a_worker_that_is_leaving_gets_nothing_new() {
    let mut dispatcher = TestDispatcher::new(Affinity::Hint, 10);
    dispatcher.ready(1, 2);
    let (call, _) = dispatcher.ask("a");
    dispatcher.dispatch.drain_worker(WorkerNumber(1));
    let (waiting, outcome) = dispatcher.ask("a");
    assert_eq!((outcome, dispatcher.done(call)), (EnqueueOutcome::Queued, vec![]));
    assert_eq!((dispatcher.dispatch.in_flight(WorkerNumber(1)), dispatcher.dispatch.available_workers()), (0, 0));
    assert_eq!(dispatcher.ready(2, 1), [given(waiting, 2)]);
}

#[test]
fn without_workers_no_call_waits() {
    let mut dispatcher = TestDispatcher::new(Affinity::Hint, 10);
    let (waiting, _) = dispatcher.ask("a");
    assert_eq!(dispatcher.dispatch.fail_waiting(), [refused(waiting, CallRejection::NoWorkers)]);
    assert_eq!(dispatcher.ask("a").1, EnqueueOutcome::Refused(CallRejection::NoWorkers));
    dispatcher.dispatch.accept_waiting();
    assert_eq!(dispatcher.ask("a").1, EnqueueOutcome::Queued);
}

#[test]
fn workers_that_saw_a_session_are_known_until_they_are_gone() {
    let mut dispatcher = TestDispatcher::new(Affinity::Hint, 10);
    for worker in [1, 2, 3] {
        dispatcher.ready(worker, 1);
        dispatcher.ask("a");
    }
    dispatcher.dispatch.remove_worker(WorkerNumber(2));
    assert_eq!(dispatcher.dispatch.forget_session("a"), [WorkerNumber(1), WorkerNumber(3)]);
    assert_eq!(dispatcher.dispatch.forget_session("a"), []);
}
