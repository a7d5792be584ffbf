use patchboard_core::port::ProgressSink;
use patchboard_core::tool::ToolOutput;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::stub::{Bench, Stub, call, scope, until};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_call_is_answered_with_what_the_server_says() {
    let stub = Stub::new(&["echo", "fails", "refuses", "odd"]);
    let bench = Bench::of(&stub);
    bench.ready(&["srv.echo", "srv.fails", "srv.refuses", "srv.odd"]).await;
    assert_eq!(bench.call("srv.echo", json!({"a": 1})).await, ToolOutput::ok("echo {\"a\":1}"));
    assert_eq!(bench.call("srv.fails", json!({})).await, ToolOutput::error("no luck"));
    let refused = "the MCP server `srv` refused the call: not today (-32602)";
    assert_eq!(bench.call("srv.refuses", json!({})).await, ToolOutput::error(refused));
    assert_eq!(bench.call("srv.odd", json!({})).await, ToolOutput::ok("[content of type hologram]\nstill here"));
    let gone = "the MCP server `srv` does not offer `srv.other` any more";
    assert_eq!(bench.call("srv.other", json!({})).await, ToolOutput::error(gone));
    assert_eq!(bench.call("srv.echo", json!([])).await, ToolOutput::error("the arguments are not an object"));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn garbage_on_the_wire_is_passed_over() {
    let stub = Stub::new(&["garbage"]);
    let bench = Bench::of(&stub);
    bench.ready(&["srv.garbage"]).await;
    assert_eq!(bench.call("srv.garbage", json!({})).await, ToolOutput::ok("after all"));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_while_the_tool_works() {
    let stub = Stub::new(&["progress"]);
    let bench = Bench::of(&stub);
    bench.ready(&["srv.progress"]).await;
    let (listener, mut heard) = mpsc::channel(8);
    let (scope, call, arguments) = (scope(ProgressSink::new(listener)), call("srv.progress"), json!({}));
    let calling = bench.host.call(&scope, &call, &arguments, CancellationToken::new());
    let watching = async {
        let told = [heard.recv().await.unwrap(), heard.recv().await.unwrap()];
        stub.finish();
        told
    };
    let (output, told) = tokio::join!(calling, watching);
    assert_eq!(output, ToolOutput::ok("finished"));
    assert_eq!(told, ["1 of 2", "nearly"]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_given_up_and_the_server_is_told() {
    let stub = Stub::new(&["hang"]);
    let bench = Bench::of(&stub);
    bench.ready(&["srv.hang"]).await;
    let began = Instant::now();
    let late = "the MCP server `srv` did not answer within 30 s";
    assert_eq!(bench.call("srv.hang", json!({})).await, ToolOutput::error(late));
    assert_eq!(began.elapsed().as_secs(), 30);
    assert_withdrawn(&stub).await;
    // An answer that comes all the same does no harm.
    stub.finish();
    assert!(!bench.tools().is_empty());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_ends_at_once_and_the_server_is_told() {
    let stub = Stub::new(&["hang"]);
    let bench = Bench::of(&stub);
    bench.ready(&["srv.hang"]).await;
    let stop = CancellationToken::new();
    let cancelling = async {
        until(|| !stub.seen("tools/call").is_empty()).await;
        stop.cancel();
    };
    let began = Instant::now();
    let (output, ()) = tokio::join!(bench.call_until("srv.hang", json!({}), stop.clone()), cancelling);
    assert_eq!(output, ToolOutput::error("cancelled"));
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_withdrawn(&stub).await;
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_nobody_waits_for_is_withdrawn() {
    let stub = Stub::new(&["hang"]);
    let bench = Bench::of(&stub);
    bench.ready(&["srv.hang"]).await;
    tokio::select! {
        _ = bench.call("srv.hang", json!({})) => unreachable!("it hangs"),
        () = until(|| !stub.seen("tools/call").is_empty()) => {}
    }
    assert_withdrawn(&stub).await;
    bench.end().await;
}

async fn assert_withdrawn(stub: &Stub) {
    until(|| !stub.seen("notifications/cancelled").is_empty()).await;
    let calls = stub.seen("tools/call");
    let withdrawn = stub.seen("notifications/cancelled");
    assert_eq!(withdrawn[0]["params"]["requestId"], calls[0]["id"]);
    assert_eq!((calls.len(), withdrawn.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn many_calls_at_once_are_told_apart() {
    let stub = Stub::new(&["echo"]);
    let bench = Bench::of(&stub);
    bench.ready(&["srv.echo"]).await;
    let calls = (0..200).map(|n| bench.call("srv.echo", json!({ "n": n })));
    let outputs = futures_util::future::join_all(calls).await;
    for (n, output) in outputs.into_iter().enumerate() {
        assert_eq!(output, ToolOutput::ok(format!("echo {{\"n\":{n}}}")));
    }
    bench.end().await;
}
