use std::sync::atomic::Ordering;
use std::time::Duration;

use patchboard_core::tool::ToolOutput;
use serde_json::json;
use tokio::time::Instant;

use super::stub::{Bench, Stub, tool, until};

#[tokio::test(start_paused = true)]
async fn starting_waits_for_nobody_and_tools_come_with_the_server() {
    let stub = Stub::new(&["echo"]);
    stub.is_mute.store(true, Ordering::SeqCst);
    let bench = Bench::of(&stub);
    assert!(bench.tools().is_empty());
    let early = "the MCP server `srv` is not there now: it is starting";
    assert_eq!(bench.call("srv.echo", json!({})).await, ToolOutput::error(early));
    until(|| !stub.seen("initialize").is_empty()).await;
    let init = &stub.seen("initialize")[0]["params"];
    assert_eq!(init["clientInfo"]["name"], "patchboard");
    assert_eq!(init["protocolVersion"], "2025-11-25");
    // It says nothing for as long as it may, and is better the next time.
    stub.is_mute.store(false, Ordering::SeqCst);
    bench.ready(&["srv.echo"]).await;
    assert_eq!(stub.starts.load(Ordering::SeqCst), 2);
    assert_eq!(stub.seen("notifications/initialized").len(), 1);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_mute_server_is_given_up_in_time() {
    let stub = Stub::new(&["echo"]);
    stub.is_mute.store(true, Ordering::SeqCst);
    let bench = Bench::of(&stub);
    let began = Instant::now();
    until(|| stub.starts.load(Ordering::SeqCst) == 2).await;
    assert_eq!(began.elapsed().as_secs(), 21, "20 s to start, 1 s until the next try");
    let output = bench.call("srv.echo", json!({})).await;
    assert_eq!(&*output.content, "the MCP server `srv` is not there now: it does not introduce itself in time");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_server_is_started_again_with_growing_pauses() {
    let stub = Stub::new(&["echo"]);
    let bench = Bench::of(&stub);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        bench.ready(&["srv.echo"]).await;
        stub.cut();
        bench.ready(&[]).await;
        let lost_at = Instant::now();
        let output = bench.call("srv.echo", json!({})).await;
        assert_eq!(&*output.content, "the MCP server `srv` is not there now: it closed the connection");
        bench.ready(&["srv.echo"]).await;
        pauses.push(lost_at.elapsed().as_secs_f64().round() as u64);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    // A minute of health, and the pauses start from the beginning.
    tokio::time::sleep(Duration::from_secs(61)).await;
    stub.cut();
    bench.ready(&[]).await;
    let lost_at = Instant::now();
    bench.ready(&["srv.echo"]).await;
    assert_eq!(lost_at.elapsed().as_secs_f64().round() as u64, 1);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_under_way_when_the_server_goes_fails() {
    let stub = Stub::new(&["hang"]);
    let bench = Bench::of(&stub);
    bench.ready(&["srv.hang"]).await;
    let cutting = async {
        until(|| !stub.seen("tools/call").is_empty()).await;
        stub.cut();
    };
    let (output, ()) = tokio::join!(bench.call("srv.hang", json!({})), cutting);
    assert_eq!(output, ToolOutput::error("the MCP server `srv` went away during the call"));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_no_ping_is_started_again() {
    let stub = Stub::new(&["echo"]);
    let bench = Bench::of(&stub);
    bench.ready(&["srv.echo"]).await;
    tokio::time::sleep(Duration::from_secs(95)).await;
    assert_eq!(stub.seen("ping").len(), 3);
    assert_eq!(stub.starts.load(Ordering::SeqCst), 1);
    stub.is_mute.store(true, Ordering::SeqCst);
    bench.ready(&[]).await;
    assert_eq!(stub.seen("ping").len(), 6);
    stub.is_mute.store(false, Ordering::SeqCst);
    bench.ready(&["srv.echo"]).await;
    assert_eq!(stub.starts.load(Ordering::SeqCst), 2);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_list_is_read_again_but_not_all_the_time() {
    let stub = Stub::new(&["a", "b"]);
    let bench = Bench::of(&stub);
    bench.ready(&["srv.a", "srv.b"]).await;
    stub.tools.lock().unwrap().pop();
    stub.notify("notifications/tools/list_changed");
    bench.ready(&["srv.a"]).await;
    stub.tools.lock().unwrap().push(tool("b"));
    let before = stub.seen("tools/list").len();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        stub.notify("notifications/tools/list_changed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(bench.tools(), ["srv.a", "srv.b"], "as it was approved");
    let listed = stub.seen("tools/list").len() - before;
    assert!((8..=11).contains(&listed), "{listed} times in ten seconds");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_list_is_followed_page_by_page() {
    let stub = Stub::new(&[]);
    *stub.tools.lock().unwrap() = (10..35).map(|n| tool(&format!("t{n}"))).collect();
    stub.page.store(10, Ordering::SeqCst);
    let bench = Bench::of(&stub);
    until(|| bench.tools().len() == 25).await;
    let cursors: Vec<_> = stub.seen("tools/list").iter().map(|list| list["params"]["cursor"].clone()).collect();
    assert_eq!(cursors, [json!(null), json!("10"), json!("20")]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_tool_costs_only_itself() {
    let stub = Stub::new(&["good"]);
    stub.tools.lock().unwrap().push(json!({"name": "bad", "inputSchema": "anything"}));
    stub.tools.lock().unwrap().push(json!({"name": 5}));
    let bench = Bench::of(&stub);
    bench.ready(&["srv.good"]).await;
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn everything_ends_when_it_should() {
    let stub = Stub::new(&["hang"]);
    let bench = Bench::of(&stub);
    bench.ready(&["srv.hang"]).await;
    let began = Instant::now();
    bench.end().await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let mute = Stub::new(&[]);
    mute.is_mute.store(true, Ordering::SeqCst);
    let bench = Bench::of(&mute);
    until(|| !mute.seen("initialize").is_empty()).await;
    let began = Instant::now();
    bench.end().await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}
