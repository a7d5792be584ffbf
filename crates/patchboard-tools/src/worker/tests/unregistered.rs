//! Tools that workers run and never registered.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use patchboard_core::port::ProgressSink;
use patchboard_core::port::{ToolNameStatus, UnregisteredTools, WorkerSupervisor};
use patchboard_core::tool::{CallMetadata, ToolFault, ToolOutput};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bench::{Bench, fault, json as json_of, send};
use super::stub::Stub;
use crate::worker::{PoolOptions, UnregisteredPolicy};

/// A pool of one worker as the SDK makes none, that registers nothing.
async fn silent(change: impl FnOnce(&mut PoolOptions)) -> Bench {
    let stub = Stub::new();
    stub.is_modern.store(false, Ordering::SeqCst);
    stub.is_silent.store(true, Ordering::SeqCst);
    let bench = Bench::on(stub, |pool| {
        pool.count = 1;
        change(pool);
    });
    assert!(bench.pools.wait_until_ready(Duration::from_secs(10)).await);
    bench
}

fn only(bench: &Bench) -> Arc<dyn UnregisteredTools> {
    bench.pools.pools_taking_unregistered().pop().expect("the pool allows it")
}

async fn call(bench: &Bench, name: &str, value: Value, call_metadata: CallMetadata) -> ToolOutput {
    send(&*only(bench), name, value, call_metadata, ProgressSink::default(), CancellationToken::new()).await
}

fn call_metadata() -> CallMetadata {
    CallMetadata { session: "s".into(), ..CallMetadata::default() }
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_called_by_a_name_it_never_registered() {
    let bench = silent(|_| {}).await;
    assert_eq!(bench.report().tools, 0);
    for name in ["add", "py.add"] {
        assert_eq!(json_of(&call(&bench, name, json!({"a": 1}), call_metadata()).await), json!({"a": 1}));
    }
    let seen: Vec<String> = bench.stub.seen.lock().unwrap().iter().map(|one| one.request.tool_name.clone()).collect();
    assert_eq!(seen, ["add", "add"]);
    // By the way of registered tools it is not there.
    assert_eq!(fault(&bench.call("add", json!(1)).await), Some(ToolFault::NotFound));
    // What gives pieces alone is had as a whole, and piece by piece.
    assert_eq!(json_of(&call(&bench, "no_final", Value::Null, call_metadata()).await), json!([1, "two"]));
    let (sender, mut receiver) = mpsc::channel(10);
    let streamed =
        call(&bench, "no_final", Value::Null, CallMetadata { chunks: Some(sender), ..call_metadata() }).await;
    assert!(!streamed.is_error, "{streamed:?}");
    assert_eq!(&receiver.recv().await.unwrap().data[..], b"1");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_have_it_is_believed_for_a_minute() {
    let bench = silent(|_| {}).await;
    let seen = || bench.stub.seen.lock().unwrap().len();
    let standing = || only(&bench).name_status("missing");
    for (seconds, calls) in [(0, 1), (0, 1), (59, 1), (1, 2)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let output = call(&bench, "py.missing", Value::Null, call_metadata()).await;
        assert_eq!(fault(&output), Some(ToolFault::NotFound));
        assert_eq!((&*output.content, seen()), ("Tool py.missing not found for session s", calls));
        assert_eq!(standing(), ToolNameStatus::Unknown);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(standing(), ToolNameStatus::Untried);
    let (sender, _receiver) = mpsc::channel(10);
    let streamed = call(&bench, "missing", Value::Null, CallMetadata { chunks: Some(sender), ..call_metadata() }).await;
    assert_eq!((fault(&streamed), standing()), (Some(ToolFault::NotFound), ToolNameStatus::Unknown));
    // A tool's own failure is no such word.
    for _ in 0..2 {
        assert!(call(&bench, "fail", Value::Null, call_metadata()).await.content.contains("too small"));
    }
    // The next worker may be of new code.
    bench.stub.worker(0).ended.cancel();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(bench.pools.wait_until_ready(Duration::from_secs(10)).await);
    assert_eq!(standing(), ToolNameStatus::Untried);
}

#[tokio::test(start_paused = true)]
async fn what_is_registered_is_called_as_that() {
    let stub = Stub::new();
    stub.is_modern.store(false, Ordering::SeqCst);
    let bench = Bench::on(stub, |_| {});
    assert!(bench.pools.wait_until_ready(Duration::from_secs(10)).await);
    let open = only(&bench);
    assert_eq!(
        (open.name_status("echo"), open.name_status("add")),
        (ToolNameStatus::Registered, ToolNameStatus::Untried)
    );
    let output = call(&bench, "echo", json!(1), call_metadata()).await;
    assert_eq!((fault(&output), bench.stub.seen.lock().unwrap().len()), (Some(ToolFault::NotFound), 0));
}

#[tokio::test(start_paused = true)]
async fn a_pool_allows_it_or_does_not() {
    use UnregisteredPolicy::{Allow, ByWorker, Deny};
    for (option, is_of_sdk, expected) in [
        (Allow, false, true),
        (Allow, true, true),
        (Deny, false, false),
        (Deny, true, false),
        (ByWorker, false, true),
        (ByWorker, true, false),
    ] {
        let stub = Stub::new();
        stub.shows_secret.store(is_of_sdk, Ordering::SeqCst);
        let bench = Bench::on(stub, |pool| pool.unregistered = option);
        // Before there was a worker, only what is said counts.
        assert_eq!(bench.pools.pools_taking_unregistered().len(), usize::from(option == Allow), "{option:?}");
        assert!(bench.pools.wait_until_ready(Duration::from_secs(10)).await);
        assert_eq!(bench.pools.pools_taking_unregistered().len(), usize::from(expected), "{option:?} {is_of_sdk}");
    }
}
