//! Servers behind HTTP: a real listener, with the answers scripted.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use patchboard_core::tool::ToolOutput;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::stub::{Bench, Stub, until};
use crate::mcp::McpTransport;
use crate::mcp::http::MAX_MESSAGE;
use patchboard_testkit::http_stub::ClosedPort;

struct Site {
    stub: Arc<Stub>,
    sessions: AtomicUsize,
    /// The session that is served now; another one is unknown.
    session: Mutex<String>,
    streams: AtomicBool,
    huge: AtomicBool,
    heads: Mutex<Vec<(Method, HeaderMap)>>,
}

async fn serve(State(site): State<Arc<Site>>, method: Method, headers: HeaderMap, body: String) -> Response {
    site.heads.lock().unwrap().push((method.clone(), headers.clone()));
    if headers.get("authorization").is_none_or(|token| token != "Bearer let me in") {
        return (StatusCode::UNAUTHORIZED, "who are you?").into_response();
    }
    if method != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let message: Value = serde_json::from_str(&body).unwrap();
    let is_first = message["method"] == "initialize";
    if is_first {
        let session = format!("session-{}", site.sessions.fetch_add(1, Ordering::SeqCst) + 1);
        *site.session.lock().unwrap() = session;
    } else if headers.get("mcp-session-id").is_none_or(|id| *id != **site.session.lock().unwrap()) {
        return StatusCode::NOT_FOUND.into_response();
    }
    if site.huge.load(Ordering::SeqCst) && message["method"] == "tools/call" {
        return ([("content-type", "application/json")], "x".repeat(MAX_MESSAGE + 1)).into_response();
    }
    let session = [("mcp-session-id", site.session.lock().unwrap().clone())];
    let answers = site.stub.answers(&message);
    match answers.as_slice() {
        [] => StatusCode::ACCEPTED.into_response(),
        [answer] if !site.streams.load(Ordering::SeqCst) => {
            (session, [("content-type", "application/json")], answer.clone()).into_response()
        }
        answers => {
            let events: String = answers.iter().map(|answer| format!(": hm\r\n\r\ndata: {answer}\r\n\r\n")).collect();
            (session, [("content-type", "text/event-stream")], events).into_response()
        }
    }
}

async fn site(tools: &[&str]) -> (Arc<Site>, String, CancellationToken) {
    let site = Arc::new(Site {
        stub: Stub::new(tools),
        sessions: AtomicUsize::new(0),
        session: Mutex::default(),
        streams: AtomicBool::new(false),
        huge: AtomicBool::new(false),
        heads: Mutex::default(),
    });
    let router = axum::Router::new().route("/mcp", any(serve)).with_state(site.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    TaskTracker::new().spawn(async move {
        axum::serve(listener, router).with_graceful_shutdown(stopped).await.unwrap();
    });
    (site, url, stop)
}

fn reach(url: &str) -> McpTransport {
    McpTransport::Http { url: url.to_owned(), token: Some("let me in".into()) }
}

#[tokio::test]
async fn tools_are_called_over_http_answered_whole_or_as_events() {
    let (site, url, _stop) = site(&["echo", "fails"]).await;
    let bench = Bench::reaching(reach(&url), Arc::default());
    bench.ready(&["srv.echo", "srv.fails"]).await;
    assert_eq!(bench.call("srv.echo", json!({"a": 1})).await, ToolOutput::ok("echo {\"a\":1}"));
    site.streams.store(true, Ordering::SeqCst);
    assert_eq!(bench.call("srv.echo", json!({"a": 2})).await, ToolOutput::ok("echo {\"a\":2}"));
    assert_eq!(bench.call("srv.fails", json!({})).await, ToolOutput::error("no luck"));
    bench.end().await;
    until(|| site.heads.lock().unwrap().iter().any(|(method, _)| method == Method::DELETE)).await;
    let heads = site.heads.lock().unwrap();
    let posts = || heads.iter().filter(|(method, _)| method == Method::POST);
    assert!(posts().skip(1).all(|(_, head)| head["mcp-session-id"] == "session-1"));
    assert!(posts().skip(1).all(|(_, head)| head["mcp-protocol-version"] == "2025-11-25"));
    assert!(posts().all(|(_, head)| head["accept"] == "application/json, text/event-stream"));
}

#[tokio::test]
async fn an_expired_session_is_a_new_beginning_and_its_tools_are_looked_at() {
    let (site, url, _stop) = site(&["echo", "other"]).await;
    let bench = Bench::reaching(reach(&url), Arc::default());
    bench.ready(&["srv.echo", "srv.other"]).await;
    *site.session.lock().unwrap() = "forgotten".to_owned();
    site.stub.tools.lock().unwrap()[1]["description"] = "something else now".into();
    let output = bench.call("srv.echo", json!({})).await;
    assert!(output.is_error, "{output:?}");
    bench.ready(&["srv.echo"]).await;
    assert_eq!(site.sessions.load(Ordering::SeqCst), 2);
    assert_eq!(bench.call("srv.echo", json!({})).await, ToolOutput::ok("echo {}"));
    bench.end().await;
}

#[tokio::test]
async fn a_huge_answer_is_refused() {
    let (site, url, _stop) = site(&["echo"]).await;
    let bench = Bench::reaching(reach(&url), Arc::default());
    bench.ready(&["srv.echo"]).await;
    site.huge.store(true, Ordering::SeqCst);
    let output = bench.call("srv.echo", json!({})).await;
    assert!(output.is_error && output.content.contains("longer than"), "{output:?}");
    site.huge.store(false, Ordering::SeqCst);
    until(|| !bench.tools().is_empty()).await;
    assert_eq!(bench.call("srv.echo", json!({})).await, ToolOutput::ok("echo {}"));
    bench.end().await;
}

#[tokio::test]
async fn a_wrong_token_and_a_server_that_is_not_there_are_told_about() {
    let check = async |reach: McpTransport, expected: &str| {
        let bench = Bench::reaching(reach, Arc::default());
        let mut said = bench.call("srv.any", json!({})).await.content;
        while said.ends_with("it is starting") {
            tokio::task::yield_now().await;
            said = bench.call("srv.any", json!({})).await.content;
        }
        assert!(said.contains(expected), "{said}");
        bench.end().await;
    };
    let (_site, url, _stop) = site(&["echo"]).await;
    check(McpTransport::Http { url, token: Some("wrong".into()) }, "401").await;
    let closed = ClosedPort::take();
    check(reach(&format!("http://127.0.0.1:{}/mcp", closed.port())), "Connection refused").await;
}
