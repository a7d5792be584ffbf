//! Sessions that end while something goes on in them, and what comes too late.

use super::*;
use crate::command::{CloseSession, TouchSession};

/// A session whose results may be given out again.
fn open_caching(id: &str) -> OpenSession {
    let config = SessionConfig { caching: true, cache_ttl: Duration::from_secs(3600), telemetry: false };
    OpenSession { id: id.into(), metadata: Default::default(), config: Some(config), worker: None }
}

fn open_by_worker(id: &str) -> OpenSession {
    let worker = Some(WorkerId("py_worker_1".into()));
    OpenSession { id: id.into(), metadata: Default::default(), config: None, worker }
}

fn close(id: &str) -> CloseSession {
    CloseSession { id: id.into() }
}

fn set(session: &str) -> CallInSession {
    call(session, "variable_set", json!({"name": "a", "value": 1}), ToolFilter::ServerTools)
}

async fn variables(bench: &Bench, session: &str) -> Value {
    json_of(&output(bench, &program(), call(session, "variable_list", json!({}), ToolFilter::ServerTools)).await)["variables"]
        .clone()
}

/// Looks after the board's sessions until it is dropped.
fn keep_house(bench: &Bench) -> tokio_util::sync::DropGuard {
    let (board, stop) = (bench.board.clone(), CancellationToken::new());
    let keep = RetentionPolicy { runs: Duration::from_secs(3600), events: Duration::from_secs(3600) };
    let until = stop.clone();
    aside(async move { board.run_housekeeping(keep, until).await });
    stop.drop_guard()
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_after_the_end_is_not_given_to_the_next_session_of_that_name() {
    let (bench, pool) = with_pool(|_| {});
    pool.tools.lock().unwrap().push("slow_pure");
    bench.ask(&program(), open_caching("s")).await.unwrap();
    let slow = || call("s", "slow_pure", json!({}), ToolFilter::All);
    let calling = aside(bench.ask(&program(), slow()));
    let_others_run().await;
    bench.ask(&program(), close("s")).await.unwrap();
    bench.ask(&program(), open_caching("s")).await.unwrap();
    pool.gate.add_permits(10);
    calling.await.unwrap().unwrap();
    for expected in [2, 2] {
        output(&bench, &program(), slow()).await;
        assert_eq!(pool.calls.lock().unwrap().len(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_late_finds_no_session_and_makes_none() {
    let (bench, _pool) = with_pool(|_| {});
    bench.ask(&worker(), open_by_worker("session_1")).await.unwrap();
    bench.ask(&program(), open("s")).await.unwrap();
    bench.ask(&worker(), open_by_worker("s")).await.unwrap();
    assert!(!output(&bench, &worker(), set("s")).await.is_error);
    bench.ask(&program(), close("s")).await.unwrap();
    assert_eq!(refusal(&bench, &worker(), open_by_worker("s")).await, "Session not found: s");
    assert_eq!(refusal(&bench, &worker(), set("s")).await, "Session not found: s");
    bench.ask(&program(), open("s")).await.unwrap();
    assert_eq!(variables(&bench, "s").await, json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_told_of_the_end_and_says_so_in_turn_does_not_end_the_next_one() {
    let (bench, _pool) = with_pool(|_| {});
    bench.ask(&program(), open("s")).await.unwrap();
    bench.ask(&program(), close("s")).await.unwrap();
    bench.ask(&program(), open("s")).await.unwrap();
    output(&bench, &program(), set("s")).await;
    let echoed = bench.ask(&worker(), close("s")).await.unwrap();
    assert_eq!(echoed, 0);
    assert_eq!(variables(&bench, "s").await[0]["name"], "a");
}

#[tokio::test(start_paused = true)]
async fn tools_of_the_server_stop_when_their_session_ends() {
    let (bench, _pool) = with_pool(|_| {});
    bench.ask(&program(), open("s")).await.unwrap();
    let watch = call("s", "variable_watch", json!({"timeout_ms": 60_000}), ToolFilter::ServerTools);
    let watching = aside(bench.ask(&worker(), watch));
    let_others_run().await;
    let began = tokio::time::Instant::now();
    bench.ask(&program(), close("s")).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    let output = watching.await.unwrap().unwrap();
    assert_eq!(json_of(&output)["changes"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_write_under_way_at_the_end_is_not_there_in_the_next_session() {
    let (bench, _pool) = with_pool(|_| {});
    bench.ask(&program(), open("s")).await.unwrap();
    let gate = bench.store.block_commits();
    let setting = aside(bench.ask(&worker(), set("s")));
    let_others_run().await;
    let closing = aside(bench.ask(&program(), close("s")));
    let_others_run().await;
    let opening = aside(bench.ask(&program(), open("s")));
    let_others_run().await;
    assert!(!opening.is_finished(), "the name is not free yet");
    gate.add_permits(1000);
    setting.await.unwrap().unwrap();
    closing.await.unwrap().unwrap();
    opening.await.unwrap().unwrap();
    assert_eq!(variables(&bench, "s").await, json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_too_old_leaves_nothing_to_the_next_one_of_its_name() {
    let (bench, pool) = with_pool(|setup| setup.bridge.session_ttl = Duration::from_secs(60));
    bench.ask(&program(), open_caching("s")).await.unwrap();
    output(&bench, &program(), set("s")).await;
    output(&bench, &program(), call("s", "pure", json!({}), ToolFilter::All)).await;
    // Nobody has swept yet.
    tokio::time::advance(Duration::from_secs(60)).await;
    bench.ask(&program(), open_caching("s")).await.unwrap();
    assert_eq!(*pool.over.lock().unwrap(), ["s"]);
    assert_eq!(variables(&bench, "s").await, json!([]));
    output(&bench, &program(), call("s", "pure", json!({}), ToolFilter::All)).await;
    assert_eq!(pool.calls.lock().unwrap().len(), 2);
    // And the sweep does not take what is the new one's.
    output(&bench, &program(), set("s")).await;
    let _house = keep_house(&bench);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(variables(&bench, "s").await[0]["name"], "a");
}

#[tokio::test(start_paused = true)]
async fn making_room_does_not_cost_a_session_that_came_back_what_it_keeps() {
    let (bench, _pool) = with_pool(|setup| {
        setup.bridge =
            BridgeOptions { session_ttl: Duration::from_secs(60), max_sessions: 2, ..BridgeOptions::default() };
    });
    bench.ask(&program(), open("a")).await.unwrap();
    bench.ask(&program(), open("b")).await.unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    // The first takes both out; the second is back before the sweep.
    bench.ask(&program(), open("c")).await.unwrap();
    bench.ask(&program(), open("a")).await.unwrap();
    output(&bench, &program(), set("a")).await;
    let _house = keep_house(&bench);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(variables(&bench, "a").await[0]["name"], "a");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_longer_than_a_session_lives_keeps_it() {
    let (bench, pool) = with_pool(|setup| setup.bridge.session_ttl = Duration::from_secs(10));
    pool.tools.lock().unwrap().push("slow");
    bench.ask(&program(), open("s")).await.unwrap();
    let _house = keep_house(&bench);
    let metadata =
        CallMetadata { session: "s".into(), timeout: Some(Duration::from_secs(100)), ..CallMetadata::default() };
    let (name, arguments) = ("slow".into(), json!({}).into());
    let slow = CallInSession { name, arguments, filter: ToolFilter::All, metadata };
    let calling = aside(bench.ask(&program(), slow));
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert!(!output(&bench, &worker(), set("s")).await.is_error, "the tool calls back");
    pool.gate.add_permits(1);
    assert!(calling.await.unwrap().is_ok());
    let touched = bench.ask(&program(), TouchSession { id: "s".into() }).await.unwrap();
    assert!(touched);
    assert!(pool.over.lock().unwrap().is_empty());
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert_eq!(*pool.over.lock().unwrap(), ["s"]);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_s_stand_in_stays_while_its_tool_runs() {
    let (bench, pool) = with_pool(|setup| setup.bridge.session_ttl = Duration::from_secs(10));
    pool.tools.lock().unwrap().push("slow");
    let _house = keep_house(&bench);
    let wanted = CallTool {
        name: "slow".into(),
        arguments: json!({}).into(),
        folder: crate::command::FolderChoice::Configured,
        origin: origin("alice"),
    };
    let on_cli = Caller { surface: Surface::Cli, ..operator() };
    let calling = aside(bench.ask(&on_cli, wanted));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let stand_in = pool.calls.lock().unwrap()[0].1.session.clone();
    assert!(!output(&bench, &worker(), set(&stand_in)).await.is_error);
    pool.gate.add_permits(1);
    assert!(calling.await.unwrap().is_ok());
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert_eq!(*pool.over.lock().unwrap(), [&*stand_in]);
    // What it kept is the conversation's and is there.
    let arguments = json!({"name": "a"}).into();
    let get = CallTool {
        name: "variable_get".into(),
        arguments,
        folder: crate::command::FolderChoice::Configured,
        origin: origin("alice"),
    };
    assert!(!output(&bench, &on_cli, get).await.is_error);
}

#[tokio::test(start_paused = true)]
async fn while_the_server_goes_down_workers_finish_what_they_have() {
    let (bench, pool) = with_pool(|_| {});
    pool.tools.lock().unwrap().push("slow");
    bench.ask(&program(), open("s")).await.unwrap();
    let calling = aside(bench.ask(&program(), call("s", "slow", json!({}), ToolFilter::All)));
    let_others_run().await;
    let board = bench.board.clone();
    let draining = aside(async move { board.drain(Duration::from_secs(30)).await });
    let_others_run().await;
    assert_eq!(refusal(&bench, &program(), set("s")).await, BoardError::shutting_down().message);
    let touched = bench.ask(&worker(), TouchSession { id: "s".into() }).await.unwrap();
    assert!(touched);
    assert!(!output(&bench, &worker(), set("s")).await.is_error);
    pool.gate.add_permits(1);
    let called = calling.await.unwrap().unwrap();
    assert!(!called.is_error);
    draining.await.unwrap().unwrap();
    let journal = bench.store.journal();
    let writes = journal.iter().flat_map(|batch| &batch.writes);
    let calls =
        writes.filter(|write| matches!(write, crate::store::StoreWrite::Audit(row) if &*row.action == "tool.call"));
    assert_eq!(calls.count(), 2, "the trail is written before the end");
}
