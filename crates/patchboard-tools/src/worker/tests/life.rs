//! Workers come and go.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use patchboard_core::bridge::MeasuredValue;
use patchboard_core::port::WorkerSupervisor;
use patchboard_core::tool::ToolFault;
use patchboard_core::worker::{PoolReport, WorkerState};
use patchboard_proto::pb;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::bench::{Bench, fault};
use super::stub::{Start, Stub, WHILE};
use crate::worker::Affinity;

/// Time passes while nothing else happens.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(10 * WHILE, waiting).await.is_ok(), "waited in vain until {what}");
}

#[tokio::test(start_paused = true)]
async fn a_killed_worker_takes_only_its_own_calls_along() {
    let bench = Bench::whole(|_| {}).await;
    let calls: Vec<_> = (0..12).map(|number| bench.begin(&format!("s{number}"), "wait")).collect();
    bench.stub.saw(4).await;
    let killed = Instant::now();
    bench.stub.worker(0).ended.cancel();
    until("a third one has come", || bench.stub.workers.lock().unwrap().len() == 3).await;
    bench.stub.gate.add_permits(12);
    let outputs = join_all(calls).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let lost: Vec<_> = outputs.iter().filter(|output| output.is_error).collect();
    assert_eq!(lost.len(), 2, "{lost:?}");
    for output in lost {
        assert_eq!(fault(output), Some(ToolFault::Unavailable));
        assert!(output.content.ends_with("went away during the call"), "{output:?}");
    }
    assert!(bench.pools.wait_until_ready(WHILE).await);
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
    let report = bench.report();
    assert_eq!((report.restarts, report.succeeded, report.failed, report.last_error), (1, 10, 2, None));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_idle_costs_nobody_anything() {
    let bench = Bench::whole(|_| {}).await;
    for round in 0..5 {
        let last = bench.stub.workers.lock().unwrap().len() - 1;
        bench.stub.worker(last).ended.cancel();
        // Until its connection has broken, anything that is sent to it is lost.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let outputs = join_all((0..4).map(|_| bench.call("echo", json!(round)))).await;
        assert!(outputs.iter().all(|output| !output.is_error), "{outputs:?}");
        assert!(bench.pools.wait_until_ready(WHILE).await);
    }
    assert_eq!(bench.report().restarts, 5);
}

#[tokio::test(start_paused = true)]
async fn one_that_dies_again_and_again_is_started_less_and_less_often() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    let mut pauses = Vec::new();
    for round in 0..6 {
        let died = Instant::now();
        bench.stub.worker(round).ended.cancel();
        until("the next one has come", || bench.stub.workers.lock().unwrap().len() == round + 2).await;
        pauses.push(died.elapsed().as_millis());
        assert!(bench.pools.wait_until_ready(WHILE).await);
    }
    for (pause, expected) in pauses.iter().zip([0, 200, 400, 800, 1600, 3200]) {
        assert!((expected..expected + 60).contains(pause), "{pauses:?}");
    }
    // Well for a minute, it is started at once again.
    tokio::time::sleep(Duration::from_secs(61)).await;
    let died = Instant::now();
    bench.stub.worker(6).ended.cancel();
    until("the next one has come", || bench.stub.workers.lock().unwrap().len() == 8).await;
    assert!(died.elapsed() < Duration::from_millis(60), "{:?}", died.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_cannot_start_says_why_and_keeps_nobody_waiting() {
    let stub = Stub::new();
    *stub.start.lock().unwrap() = Start::Fails;
    let bench = Bench::on(stub, |_| {});
    tokio::time::timeout(Duration::from_secs(1), bench.pools.first_start_done()).await.unwrap();
    until("both have failed", || bench.report().last_error.is_some() && bench.stub.starts() >= 2).await;
    assert_eq!(
        bench.report().last_error.as_deref(),
        Some("it ended before it was ready, with signal: 9 (SIGKILL): Traceback | no module named `tools`")
    );
    // The pool has no tools yet, so none can be called; once it has, calls do not queue in vain.
    *bench.stub.start.lock().unwrap() = Start::Works;
    assert!(bench.pools.wait_until_ready(WHILE).await);
    assert!(!bench.call("echo", json!(1)).await.is_error);
    assert_eq!(bench.report().last_error, None);
    *bench.stub.start.lock().unwrap() = Start::Fails;
    let before = bench.stub.starts();
    for worker in bench.stub.workers.lock().unwrap().clone() {
        worker.ended.cancel();
    }
    let has_failed =
        |report: PoolReport| report.last_error.is_some_and(|trouble| trouble.starts_with("it ended before"));
    until("it has given up hope", || bench.stub.starts() >= before + 4 && has_failed(bench.report())).await;
    let began = Instant::now();
    let output = bench.call("echo", json!(1)).await;
    assert_eq!((fault(&output), began.elapsed()), (Some(ToolFault::Unavailable), Duration::ZERO));
    let text = "no_workers_available: `py` has no worker, the call never ran: it ended before it was ready, with";
    assert!(output.content.starts_with(text), "{output:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_never_ready_is_given_up() {
    let stub = Stub::new();
    *stub.start.lock().unwrap() = Start::Hangs;
    let bench = Bench::on(stub, |pool| (pool.count, pool.start_timeout) = (1, Duration::from_secs(7)));
    bench.pools.first_start_done().await;
    assert_eq!(
        bench.report().last_error.as_deref(),
        Some("it was not ready within 7 s; `start_timeout` of the pool sets that")
    );
    assert!(bench.stub.worker(0).ended.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn calls_wait_while_workers_are_on_their_way() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    bench.stub.worker(0).ended.cancel();
    until("it is known to be gone", || bench.report().restarts == 1).await;
    assert!(!bench.call("echo", json!(1)).await.is_error);
}

#[tokio::test(start_paused = true)]
async fn three_missed_heartbeats_are_too_many_and_two_are_not() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    let mut telemetry = bench.telemetry.subscribe();
    let worker = bench.stub.worker(0);
    let beats = |number: u64| {
        let worker = worker.clone();
        async move { until("it has been asked", || worker.heartbeats.load(Ordering::SeqCst) >= number).await }
    };
    beats(3).await;
    worker.is_deaf.store(true, Ordering::SeqCst);
    let heard = worker.heartbeats.load(Ordering::SeqCst);
    beats(heard + 2).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    worker.is_deaf.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((bench.stub.starts(), bench.report().restarts), (1, 0));

    worker.is_deaf.store(true, Ordering::SeqCst);
    let waiting = bench.begin("s", "wait");
    bench.stub.saw(1).await;
    let output = waiting.await.unwrap();
    assert_eq!(fault(&output), Some(ToolFault::Unavailable));
    until("it is gone", || worker.ended.is_cancelled() && bench.states() == [WorkerState::Ready]).await;
    assert!(!bench.call("echo", json!(1)).await.is_error);
    // The other one was there before this one went.
    assert_eq!((bench.report().restarts, bench.stub.neighbours.lock().unwrap().clone()), (1, vec![0, 1]));
    let mut misses = 0;
    while let Ok(signal) = telemetry.try_recv() {
        misses += usize::from(&*signal.name == "heartbeat.timeout");
    }
    assert_eq!(misses, 5);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_answers_heartbeats_with_errors_is_replaced_after_three() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    let worker = bench.stub.worker(0);
    let beats = |number: u64| {
        let worker = worker.clone();
        async move { until("it has been asked", || worker.heartbeats.load(Ordering::SeqCst) >= number).await }
    };
    // Two in a row are not enough, however often.
    for round in 0..3 {
        worker.is_broken.store(true, Ordering::SeqCst);
        beats(3 * round + 2).await;
        worker.is_broken.store(false, Ordering::SeqCst);
        beats(3 * round + 3).await;
    }
    assert_eq!((bench.stub.starts(), bench.report().restarts), (1, 0));
    worker.is_broken.store(true, Ordering::SeqCst);
    until("it is gone", || worker.ended.is_cancelled() && bench.states() == [WorkerState::Ready]).await;
    assert_eq!(worker.heartbeats.load(Ordering::SeqCst), 12);
    assert_eq!((bench.stub.starts(), bench.report().restarts), (2, 1));
    assert!(!bench.call("echo", json!(1)).await.is_error);
}

#[tokio::test(start_paused = true)]
async fn a_worn_out_worker_finishes_its_calls_after_the_next_one_has_come() {
    let bench = Bench::whole(|pool| (pool.count, pool.max_requests) = (1, Some(3))).await;
    let waiting = bench.begin("s", "wait");
    bench.stub.saw(1).await;
    for _ in 0..3 {
        assert!(!bench.call("echo", json!(1)).await.is_error);
    }
    until("the next one has come", || bench.states() == [WorkerState::Draining, WorkerState::Ready]).await;
    let old = bench.stub.worker(0);
    assert!(!old.ended.is_cancelled());
    assert!(!bench.call("echo", json!(1)).await.is_error);
    assert_eq!(bench.stub.seen.lock().unwrap().last().unwrap().worker, 1);
    bench.stub.gate.add_permits(1);
    assert!(!waiting.await.unwrap().is_error);
    until("the old one has ended", || old.ended.is_cancelled()).await;
    let report = bench.report();
    assert_eq!((report.recycled, report.restarts, report.workers.len()), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_replaced_when_it_is_old_or_heavy() {
    let bench = Bench::whole(|pool| pool.max_age = Some(Duration::from_secs(1000))).await;
    tokio::time::sleep(Duration::from_secs(890)).await;
    assert_eq!(bench.report().recycled, 0);
    until("both are replaced", || bench.report().recycled == 2).await;
    assert_eq!(bench.report().restarts, 0);

    let bench = Bench::whole(|pool| (pool.count, pool.max_memory) = (1, Some(5000))).await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(bench.report().recycled, 0);
    bench.stub.memory.store(6000, Ordering::SeqCst);
    until("it is replaced", || bench.report().recycled >= 1).await;
    bench.stub.memory.store(1000, Ordering::SeqCst);
    until("the new one is alone", || bench.states() == [WorkerState::Ready]).await;
}

/// What cannot be replaced goes on.
#[tokio::test(start_paused = true)]
async fn there_are_never_fewer_workers_because_one_is_worn_out() {
    let bench = Bench::whole(|pool| (pool.count, pool.max_requests) = (1, Some(1))).await;
    *bench.stub.start.lock().unwrap() = Start::Fails;
    assert!(!bench.call("echo", json!(1)).await.is_error);
    until("another one was tried", || bench.stub.starts() >= 3).await;
    assert!(!bench.call("echo", json!(2)).await.is_error);
    assert_eq!(bench.stub.seen.lock().unwrap().last().unwrap().worker, 0);
    *bench.stub.start.lock().unwrap() = Start::Works;
    until("it is replaced", || bench.report().recycled >= 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_strict_session_hears_that_its_worker_is_gone() {
    let bench = Bench::whole(|pool| pool.affinity = Affinity::StrictQueue).await;
    assert!(!bench.call("echo", json!(1)).await.is_error);
    let its_own = bench.stub.seen.lock().unwrap()[0].worker;
    bench.stub.worker(its_own).ended.cancel();
    until("it is replaced", || bench.report().restarts == 1).await;
    let output = bench.call("echo", json!(1)).await;
    assert_eq!(fault(&output), Some(ToolFault::Unavailable));
    assert!(output.content.starts_with("session_worker_unavailable"), "{output:?}");
    assert!(!bench.call("echo", json!(1)).await.is_error);
}

#[tokio::test(start_paused = true)]
async fn what_workers_tell_is_passed_on_and_asked_for_again() {
    let stub = Stub::new();
    let event = |number: i64| pb::TelemetryEvent {
        event_parts: ["tool", "execution", "stop"].map(str::to_owned).to_vec(),
        measurements: [(
            "duration".to_owned(),
            pb::TelemetryValue { value: Some(pb::telemetry_value::Value::IntValue(number)) },
        )]
        .into(),
        metadata: [("worker_id".to_owned(), "somebody else".to_owned()), ("tool".to_owned(), "echo".to_owned())].into(),
        timestamp_ns: 1_794_744_000_000_000_001,
        correlation_id: "c".repeat(230),
    };
    *stub.events.lock().unwrap() = vec![event(2), event(1)];
    let bench = Bench::on(stub, |pool| pool.count = 1);
    let mut telemetry = bench.telemetry.subscribe();
    let mut told = Vec::new();
    while told.len() < 2 {
        let signal = telemetry.recv().await.unwrap();
        if &*signal.name == "tool.execution.stop" {
            told.push(signal);
        }
    }
    assert_eq!(told[0].measures, [("duration".into(), MeasuredValue::Int(1))]);
    assert_eq!(told[1].measures, [("duration".into(), MeasuredValue::Int(2))]);
    let notes: Vec<(&str, &str)> = told[0].metadata.iter().map(|(key, value)| (&**key, &**value)).collect();
    let expected = [("tool", "echo"), ("python_pid", "4711"), ("worker_id", "py_worker_0_1"), ("pool_name", "py")];
    assert_eq!((notes, told[0].correlation.as_deref()), (expected.to_vec(), Some("c".repeat(230).as_str())));
    assert_eq!(told[0].at.as_nanosecond(), 1_794_744_000_000_000_001);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_is_the_end_of_its_workers() {
    for is_polite in [true, false] {
        let bench = Bench::whole(|_| {}).await;
        bench.stub.is_polite.store(is_polite, Ordering::SeqCst);
        let waiting = bench.begin("s", "wait");
        bench.stub.saw(1).await;
        let began = Instant::now();
        bench.pools.shut_down().await;
        assert_eq!(began.elapsed().as_secs(), if is_polite { 0 } else { 6 });
        assert!(bench.stub.workers.lock().unwrap().iter().all(|worker| worker.ended.is_cancelled()));
        assert_eq!(fault(&waiting.await.unwrap()), Some(ToolFault::Unavailable));
        assert!(bench.report().workers.is_empty());
        bench.stop.cancel();
        bench.tracker.close();
        tokio::time::timeout(WHILE, bench.tracker.wait()).await.unwrap();
        assert_eq!(fault(&bench.call("echo", Value::Null).await), Some(ToolFault::Unavailable));
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_restarted_finishes_its_calls() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    let waiting = bench.begin("s", "wait");
    bench.stub.saw(1).await;
    let name = bench.report().name.clone();
    let worker = bench.report().workers[0].id.0.clone();
    assert_eq!(bench.pools.restart("nope", None), None);
    assert_eq!(bench.pools.restart(&name, Some("nope")), Some(vec![]));
    assert_eq!(bench.pools.restart(&name, Some(&worker)), Some(vec![worker.clone()]));
    until("the next one has come", || bench.states() == [WorkerState::Draining, WorkerState::Ready]).await;
    let old = bench.stub.worker(0);
    assert!(!old.ended.is_cancelled());
    bench.stub.gate.add_permits(1);
    assert!(!waiting.await.unwrap().is_error);
    until("the old one has ended", || old.ended.is_cancelled()).await;
    until("it is forgotten", || bench.report().workers.len() == 1).await;
    assert_ne!(bench.report().workers[0].id.0, worker);
    assert_eq!((bench.report().recycled, bench.report().restarts), (1, 0));
    // What it wrote can still be read.
    assert_eq!(bench.pools.lines(&worker, 0), Some(vec![]));
    assert_eq!(bench.pools.lines("nope", 0), None);
}
