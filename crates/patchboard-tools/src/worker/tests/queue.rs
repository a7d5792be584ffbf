//! Calls that have to wait.

use std::time::Duration;

use futures_util::future::join_all;
use patchboard_core::tool::{CallMetadata, ToolFault};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::bench::{Bench, fault};
use crate::worker::Affinity;

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_too_long_never_ran() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    let busy: Vec<_> = (0..2).map(|_| bench.begin("s", "wait")).collect();
    bench.stub.saw(2).await;
    let began = Instant::now();
    let output = bench.call("echo", Value::Null).await;
    assert_eq!((fault(&output), began.elapsed().as_secs()), (Some(ToolFault::QueueTimeout), 10));
    assert_eq!(&*output.content, "queue_timeout: no worker of `py` was free in time; the call never ran");
    // Its own time may be shorter.
    let call_metadata =
        CallMetadata { session: "s".into(), timeout: Some(Duration::from_secs(1)), ..CallMetadata::default() };
    let output = bench.send("echo", Value::Null, call_metadata, CancellationToken::new()).await;
    assert_eq!((fault(&output), began.elapsed().as_secs()), (Some(ToolFault::QueueTimeout), 11));
    bench.stub.gate.add_permits(2);
    assert!(join_all(busy).await.into_iter().all(|output| !output.unwrap().is_error));
    assert_eq!(bench.stub.seen.lock().unwrap().len(), 2);
    let report = bench.report();
    assert_eq!((report.timed_out, report.queued, report.succeeded), (2, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_and_says_so() {
    let bench = Bench::whole(|pool| (pool.count, pool.max_queue) = (1, 3)).await;
    let mut telemetry = bench.telemetry.subscribe();
    let calls: Vec<_> = (0..5).map(|_| bench.begin("s", "wait")).collect();
    bench.stub.saw(2).await;
    while bench.report().queued < 3 {
        tokio::task::yield_now().await;
    }
    let output = bench.call("echo", Value::Null).await;
    assert_eq!(fault(&output), Some(ToolFault::Saturated));
    assert!(output.content.starts_with("pool_saturated"), "{output:?}");
    bench.stub.gate.add_permits(5);
    assert!(join_all(calls).await.into_iter().all(|output| !output.unwrap().is_error));
    assert_eq!(bench.report().refused, 1);
    let mut names = Vec::new();
    while let Ok(signal) = telemetry.try_recv() {
        // Nothing here names a session: those say themselves whether they want to be told of.
        assert!(signal.correlation.is_none() && signal.metadata.iter().all(|(key, _)| &**key != "session_id"));
        names.push(signal.name.to_string());
    }
    assert!(names.contains(&"pool.saturated".to_owned()) && names.contains(&"pool.call.dispatched".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_while_waiting_leaves_no_trace() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    let busy: Vec<_> = (0..2).map(|_| bench.begin("s", "wait")).collect();
    bench.stub.saw(2).await;
    let waiting = bench.begin("s", "echo");
    while bench.report().queued < 1 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    assert!(waiting.await.is_err());
    assert_eq!(bench.report().queued, 0);
    bench.stub.gate.add_permits(2);
    join_all(busy).await;
    assert_eq!(bench.stub.seen.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_worker_has_more_than_it_takes_and_all_have_some() {
    let bench = Bench::whole(|_| {}).await;
    let calls: Vec<_> = (0..20).map(|number| bench.begin(&format!("s{number}"), "wait")).collect();
    bench.stub.saw(4).await;
    let loads = |bench: &Bench| bench.report().workers.iter().map(|worker| worker.in_flight).collect::<Vec<_>>();
    assert_eq!(loads(&bench), [2, 2]);
    bench.stub.gate.add_permits(20);
    assert!(join_all(calls).await.into_iter().all(|output| !output.unwrap().is_error));
    let seen = bench.stub.seen.lock().unwrap().clone();
    let on_first = seen.iter().filter(|seen| seen.worker == 0).count();
    assert!(seen.len() == 20 && (5..16).contains(&on_first), "{on_first}");
}

#[tokio::test(start_paused = true)]
async fn a_strict_session_stays_with_its_worker() {
    for (affinity, expected) in [(Affinity::StrictQueue, None), (Affinity::StrictFailFast, Some(ToolFault::WorkerBusy))]
    {
        let bench = Bench::whole(|pool| pool.affinity = affinity).await;
        let busy: Vec<_> = (0..2).map(|_| bench.begin("s", "wait")).collect();
        bench.stub.saw(2).await;
        let third = bench.begin("s", "echo");
        // Others find the other worker free.
        assert!(!bench.call_in("other", "echo").await.is_error);
        if let Some(expected) = expected {
            let output = third.await.unwrap();
            assert_eq!(fault(&output), Some(expected));
            assert!(output.content.starts_with("worker_busy"), "{output:?}");
            continue;
        }
        bench.stub.gate.add_permits(2);
        join_all(busy).await;
        assert!(!third.await.unwrap().is_error);
        let seen = bench.stub.seen.lock().unwrap().clone();
        let of_session = seen.iter().filter(|seen| seen.request.session_id == "s").map(|seen| seen.worker);
        let workers: Vec<usize> = of_session.collect();
        assert_eq!(workers, [workers[0]; 3]);
    }
}
