//! What goes to a worker, and what comes back.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use patchboard_core::tool::{CallMetadata, ToolFault, ToolOutput};
use patchboard_core::worker::WorkerState;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::bench::{Bench, fault, json as json_of, metadata};
use super::stub::Stub;

fn call_metadata() -> CallMetadata {
    CallMetadata { session: "s".into(), ..CallMetadata::default() }
}

fn for_model() -> CallMetadata {
    CallMetadata { for_model: true, ..call_metadata() }
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_started_as_it_expects() {
    let bench = Bench::whole(|pool| drop(pool.env.insert("OMP_NUM_THREADS".to_owned(), "4".into()))).await;
    let orders = bench.stub.orders.lock().unwrap().clone();
    let run = orders[0].last().unwrap().clone();
    // Which ports it is told is another test's.
    let (port, line) = (&orders[0][4], &orders[0][6]);
    let expected = ["server.py", "--adapter", "a.B", "--port", port, "--elixir-address", line];
    assert_eq!(orders[0], [&expected[..], &["--snakepit-run-id", &run]].concat());
    let environments = bench.stub.environments.lock().unwrap().clone();
    let environment = environments.iter().find(|one| one["PATCHBOARD_WORKER_ID"] == "py_worker_0_1").unwrap();
    for (name, value) in [
        ("OMP_NUM_THREADS", "4"),
        ("OPENBLAS_NUM_THREADS", "1"),
        ("SNAKEPIT_OTEL_CONSOLE", "false"),
        ("SNAKEPIT_PROCESS_GROUP", "1"),
        ("SNAKEPIT_PYTHON", "python"),
        ("PATCHBOARD_POOL", "py"),
        ("PATCHBOARD_WORKER_ID", "py_worker_0_1"),
    ] {
        assert_eq!(environment[name], value, "{name}");
    }
    assert!(!environment.keys().any(|name| name.starts_with("CARGO")), "{environment:?}");
    assert_eq!(bench.states(), [WorkerState::Ready; 2]);
    let report = bench.report();
    assert_eq!((report.target_workers, report.tools, report.last_error), (2, 12, None));
    let first = &report.workers[0];
    assert_eq!((first.capacity, first.pid, first.memory_bytes), (2, Some(4711), Some(1000)));
    assert!(first.address.as_deref().is_some_and(|address| address.starts_with("unix:/stub/")));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_says_nothing_is_asked_for_a_tool_it_does_not_have() {
    let stub = Stub::new();
    stub.is_modern.store(false, Ordering::SeqCst);
    let bench = Bench::on(stub, |_| {});
    assert!(bench.pools.wait_until_ready(Duration::from_secs(10)).await);
    assert_eq!(bench.host.tools(None).len(), 12);
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(bench.report().workers[0].capacity as usize, (cores + 4).min(32));
    assert!(bench.host.tools(None).iter().any(|tool| &*tool.name == "count" && tool.streams()));
    // The same list again is the same list.
    let before = bench.host.tools(None);
    bench.call("echo", json!(1)).await;
    assert!(std::sync::Arc::ptr_eq(&before, &bench.host.tools(None)));
}

#[tokio::test(start_paused = true)]
async fn everything_a_call_carries_travels() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    let sent = CallMetadata {
        session: "the-session".into(),
        metadata: BTreeMap::from([("thread_sensitive".to_owned(), "true".to_owned())]),
        binary: BTreeMap::from([("image".to_owned(), Bytes::from_static(b"\x00\xff"))]),
        correlation: Some("corr-1".into()),
        trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
        timeout: Some(Duration::from_millis(1500)),
        ..CallMetadata::default()
    };
    let output =
        bench.send("py.echo", json!({"big": 9007199254740993_u64}), sent.clone(), CancellationToken::new()).await;
    assert_eq!(output.data.as_ref().unwrap().json.as_deref(), Some(&br#"{"big":9007199254740993}"#[..]));
    assert_eq!((output.is_error, &*output.content), (false, ""));
    let metadata = metadata(&output);
    assert_eq!(
        (&*metadata["tool_type"], &*metadata["worker_id"], &*metadata["execution_time"]),
        ("remote", "py_worker_0_1", "0")
    );
    let seen = bench.stub.seen.lock().unwrap()[0].clone();
    assert_eq!((&*seen.request.session_id, &*seen.request.tool_name), ("the-session", "echo"));
    assert_eq!((seen.request.metadata, seen.request.binary_parameters), (sent.metadata, sent.binary));
    let any = &seen.request.parameters["value"];
    assert_eq!(
        (any.type_url.as_str(), &any.value[..]),
        ("type.snakepit.bridge/json", &br#"{"big":9007199254740993}"#[..])
    );
    let header = |name: &str| seen.headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(header("x-snakepit-correlation-id"), "corr-1");
    assert_eq!(header("traceparent"), &*sent.trace.unwrap());
    assert_eq!(header("grpc-timeout"), "1500000u");
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_name_gets_one() {
    let bench = Bench::whole(|_| {}).await;
    bench.call("echo", json!(1)).await;
    let by_metadata = BTreeMap::from([("correlation_id".to_owned(), "from-metadata".to_owned())]);
    bench
        .send("echo", json!(1), CallMetadata { metadata: by_metadata, ..call_metadata() }, CancellationToken::new())
        .await;
    let seen = bench.stub.seen.lock().unwrap().clone();
    let names = seen.iter().map(|seen| seen.headers.get("x-snakepit-correlation-id").unwrap().to_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["sp-000000000000000000000001", "from-metadata"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_answers_is_for_programs_or_for_models() {
    let bench = Bench::whole(|_| {}).await;
    let bytes = || BTreeMap::from([("value".to_owned(), Bytes::from_static(b"PNG"))]);
    let stop = CancellationToken::new;
    // A model reads text.
    for (tool, value, expected) in [
        ("echo", json!("two\nlines"), "two\nlines"),
        ("echo", json!({"a": [1, null]}), r#"{"a":[1,null]}"#),
        ("nothing", Value::Null, "null"),
        ("bytes", Value::Null, "[image/png, 3 bytes]"),
        ("fail", Value::Null, "ValueError: too small"),
    ] {
        let output = bench.send(tool, value, CallMetadata { binary: bytes(), ..for_model() }, stop()).await;
        assert_eq!(&*output.content, expected, "{tool}");
        assert_eq!((output.is_error, fault(&output)), (tool == "fail", None), "{tool}");
    }
    // A program reads data.
    let output = bench.send("bytes", Value::Null, CallMetadata { binary: bytes(), ..call_metadata() }, stop()).await;
    let data = output.data.as_ref().unwrap();
    assert_eq!((data.binary.as_deref(), &data.json), (Some(&b"PNG"[..]), &None));
    assert_eq!(data.metadata["content_type"], "image/png");
    assert_eq!(json_of(&bench.call("nothing", Value::Null).await), Value::Null);
    let failed = bench.call("fail", Value::Null).await;
    assert!(failed.is_error && failed.content.contains("traceback") && fault(&failed).is_none(), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_the_tools_own_failure_is_told_apart() {
    let bench = Bench::whole(|_| {}).await;
    let check = |output: ToolOutput, kind: ToolFault, text: &str| {
        assert_eq!((fault(&output), &*output.content, output.is_error), (Some(kind), text, true));
    };
    check(bench.call("refuse", Value::Null).await, ToolFault::Invalid, "not like this");
    check(bench.call("none", Value::Null).await, ToolFault::NotFound, "Tool none not found for session s");
    let garbage = bench.call("garbage", Value::Null).await;
    assert_eq!(fault(&garbage), Some(ToolFault::Internal));
    let pickled = BTreeMap::from([("binary_format:model".to_owned(), "Pickle".to_owned())]);
    let output = bench
        .send("echo", json!(1), CallMetadata { metadata: pickled, ..call_metadata() }, CancellationToken::new())
        .await;
    let text = "Invalid parameter model: pickled values are not passed on (`[bridge] allow_pickle`)";
    check(output, ToolFault::Invalid, text);
    assert_eq!(bench.stub.seen.lock().unwrap().len(), 2, "what is refused here never gets there");
    let report = bench.report();
    assert_eq!((report.succeeded, report.failed), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_has_only_as_much_time_as_it_was_given() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    let timeout = Some(Duration::from_millis(700));
    let output =
        bench.send("wait", Value::Null, CallMetadata { timeout, ..call_metadata() }, CancellationToken::new()).await;
    assert_eq!((fault(&output), &*output.content), (Some(ToolFault::TimedOut), "the call did not end within 700 ms"));
    let usual = bench.call("wait", Value::Null).await;
    assert_eq!(&*usual.content, "the call did not end within 298800 ms");
    let report = bench.report();
    assert_eq!((report.workers[0].in_flight, report.timed_out, report.failed), (0, 2, 0));
}

/// Its client's clock began earlier than the server's.
#[tokio::test(start_paused = true)]
async fn a_call_given_up_as_its_time_ends_has_passed_its_deadline() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    for (limit, given_up_at, expected) in [
        (1000, 950, ToolFault::TimedOut),
        (1000, 850, ToolFault::Cancelled),
        (100, 95, ToolFault::TimedOut),
        (100, 80, ToolFault::Cancelled),
    ] {
        let (timeout, stop) = (Some(Duration::from_millis(limit)), CancellationToken::new());
        let giving_up = async {
            tokio::time::sleep(Duration::from_millis(given_up_at)).await;
            stop.cancel();
        };
        let sending = bench.send("wait", Value::Null, CallMetadata { timeout, ..call_metadata() }, stop.clone());
        let (output, ()) = tokio::join!(sending, giving_up);
        assert_eq!(fault(&output), Some(expected), "{limit} {given_up_at}");
    }
    assert_eq!((bench.report().timed_out, bench.report().failed), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_ends_at_once() {
    let bench = Bench::whole(|pool| pool.count = 1).await;
    let stop = CancellationToken::new();
    let cancelling = async {
        bench.stub.saw(1).await;
        stop.cancel();
    };
    let (output, ()) = tokio::join!(bench.send("wait", Value::Null, call_metadata(), stop.clone()), cancelling);
    assert_eq!(fault(&output), Some(ToolFault::Cancelled));
    assert_eq!(bench.report().workers[0].in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn workers_that_saw_a_session_hear_of_its_end() {
    use patchboard_core::port::WorkerSupervisor;
    let bench = Bench::whole(|_| {}).await;
    // Two calls at a time on the first worker, so the third goes to the other one.
    let calls: Vec<_> = (0..3).map(|_| bench.begin("s", "wait")).collect();
    bench.stub.saw(3).await;
    bench.call_in("other", "echo").await;
    bench.stub.gate.add_permits(3);
    for call in calls {
        assert!(!call.await.unwrap().is_error);
    }
    bench.pools.session_closed("s");
    bench.pools.session_closed("never heard of");
    let told = async {
        loop {
            let heard = bench.stub.heard.notified();
            if bench.stub.sessions_over.lock().unwrap().len() >= 2 {
                return;
            }
            heard.await;
        }
    };
    told.await;
    let mut over = bench.stub.sessions_over.lock().unwrap().clone();
    over.sort();
    assert_eq!(over, ["0 s", "1 s"]);
}
