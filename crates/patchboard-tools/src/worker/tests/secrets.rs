//! What keeps workers from each other: their secrets and their ports.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;

use super::bench::Bench;
use super::stub::{Start, Stub, WHILE};
use crate::worker::PortBlock;

#[tokio::test(start_paused = true)]
async fn every_call_of_a_worker_shows_the_secret_that_only_it_was_told() {
    let bench = Bench::whole(|_| {}).await;
    join_all((0..8).map(|number| bench.call("echo", number.into()))).await;
    let environments = bench.stub.environments.lock().unwrap().clone();
    let told: Vec<_> = environments.iter().map(|all| all["PATCHBOARD_WORKER_SECRET"].clone()).collect();
    assert_eq!((told.len(), told.iter().collect::<HashSet<_>>().len()), (2, 2), "{told:?}");
    let seen = bench.stub.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 8);
    for call in seen {
        let shown = call.headers.get("x-patchboard-worker-secret").unwrap();
        assert_eq!(shown.as_bytes(), told[call.worker].as_bytes(), "{call:?}");
    }
    // The workers did not announce that they send theirs in return.
    assert!(bench.secrets.lock().unwrap().iter().all(|secret| !secret.is_required()));
}

#[tokio::test(start_paused = true)]
async fn once_a_worker_of_a_pool_shows_its_secret_all_that_follow_have_to() {
    let stub = Stub::new();
    stub.shows_secret.store(true, Ordering::SeqCst);
    let bench = Bench::on(stub, |pool| pool.count = 1);
    assert!(bench.pools.wait_until_ready(WHILE).await);
    assert!(bench.secrets.lock().unwrap()[0].is_required());
    // The next one never comes so far as to say it.
    *bench.stub.start.lock().unwrap() = Start::Hangs;
    bench.stub.worker(0).ended.cancel();
    while bench.stub.starts() < 2 {
        tokio::time::sleep(WHILE / 100).await;
    }
    assert!(bench.secrets.lock().unwrap()[1].is_required());
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_a_port_is_not_started_and_its_pool_says_why() {
    let bench = Bench::with(Stub::new(), PortBlock::choose(3, &[]).unwrap(), |_| {});
    bench.pools.first_start_done().await;
    while bench.report().last_error.is_none() || bench.stub.starts() == 0 {
        tokio::time::sleep(WHILE / 100).await;
    }
    let trouble = bench.report().last_error.unwrap();
    assert!(trouble.contains("all 3 ports of `bridge.private_ports` are in use"), "{trouble}");
    assert_eq!(bench.stub.starts(), 1, "the other one never was");
    // What the first one has is free when it has gone.
    bench.stub.worker(0).ended.cancel();
    while bench.stub.starts() < 2 {
        tokio::time::sleep(WHILE / 100).await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_worker_is_told_ports_of_its_own() {
    let ports = PortBlock::choose(8, &[]).unwrap();
    let bench = Bench::with(Stub::new(), ports.clone(), |_| {});
    assert!(bench.pools.wait_until_ready(WHILE).await);
    let orders = bench.stub.orders.lock().unwrap().clone();
    let mut told = Vec::new();
    for arguments in &orders {
        let after = |flag: &str| {
            let place = arguments.iter().position(|argument| argument == flag).unwrap();
            arguments[place + 1].rsplit(':').next().unwrap().parse::<u16>().unwrap()
        };
        told.extend([after("--port"), after("--elixir-address")]);
    }
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), 4, "{orders:?}");
    assert!(told.iter().all(|port| ports.ports().contains(port)), "{told:?}");
}
