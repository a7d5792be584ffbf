use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::routing::post;
use tokio::io::DuplexStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::*;
use patchboard_testkit::http_stub::ClosedPort;

/// A server that answers `slow` only after it was cancelled, and knows one session.
#[derive(Default)]
struct Site {
    sessions: AtomicUsize,
    seen: Mutex<Vec<String>>,
    cancelled: Notify,
    deleted: Notify,
}

type Reply = axum::response::Response;

async fn answer(State(site): State<Arc<Site>>, headers: HeaderMap, body: String) -> Reply {
    let message: Value = serde_json::from_str(&body).unwrap();
    let method = message["method"].as_str().unwrap_or("answer").to_owned();
    site.seen.lock().unwrap().push(method.clone());
    let id = message["id"].clone();
    let result = json!({ "jsonrpc": "2.0", "id": id, "result": { "method": method, "protocolVersion": "2025-11-25" } });
    let json = |value: &Value| ([("content-type", "application/json")], value.to_string()).into_response();
    if method == "initialize" {
        let number = site.sessions.fetch_add(1, Ordering::SeqCst) + 1;
        return ([(SESSION_HEADER, number.to_string())], json(&result)).into_response();
    }
    assert_eq!(headers[VERSION_HEADER], "2025-11-25");
    assert_eq!(headers["authorization"], "Bearer the token");
    if headers[SESSION_HEADER] != site.sessions.load(Ordering::SeqCst).to_string() {
        return (StatusCode::NOT_FOUND, "no such session").into_response();
    }
    match method.as_str() {
        "slow" => {
            let waiting = async move {
                site.cancelled.notified().await;
                Ok::<_, std::convert::Infallible>(": over\n\n")
            };
            let body = Body::from_stream(futures_util::stream::once(waiting));
            ([("content-type", EVENT_MEDIA)], body).into_response()
        }
        "events" => {
            let told = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "text": "one\ntwo" } });
            ([("content-type", EVENT_MEDIA)], format!(":\n\ndata: {told}\n\nevent: message\ndata: {result}\n\n"))
                .into_response()
        }
        "broken" => ([("content-type", EVENT_MEDIA)], ":\n\n").into_response(),
        "forbidden" => (StatusCode::FORBIDDEN, "not\nyou").into_response(),
        "notifications/cancelled" => {
            site.cancelled.notify_one();
            StatusCode::ACCEPTED.into_response()
        }
        _ if id.is_null() => StatusCode::ACCEPTED.into_response(),
        _ => json(&result),
    }
}

struct Bench {
    site: Arc<Site>,
    input: Option<DuplexStream>,
    output: BufReader<DuplexStream>,
    relaying: tokio::task::JoinHandle<io::Result<()>>,
    stop: CancellationToken,
}

impl Bench {
    async fn new() -> Self {
        let site = Arc::new(Site::default());
        let delete = async |State(site): State<Arc<Site>>| {
            site.deleted.notify_one();
            StatusCode::NO_CONTENT
        };
        let router = axum::Router::new().route("/mcp", post(answer).delete(delete)).with_state(site.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let tasks = TaskTracker::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let (input, theirs) = tokio::io::duplex(1024);
        let (output, output_sender) = tokio::io::duplex(1024);
        let stop = CancellationToken::new();
        let target = RelayTarget { url, token: Some("the token".into()) };
        let relaying = tasks.spawn(relay(target, theirs, output_sender, stop.clone()));
        Self { site, input: Some(input), output: BufReader::new(output), relaying, stop }
    }

    async fn say(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, id: Value, method: &str) {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method }).to_string()).await;
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Has begun a session.
    async fn begun() -> Self {
        let mut bench = Self::new().await;
        bench.ask(json!(0), "initialize").await;
        assert_eq!(bench.hear().await["result"]["method"], "initialize");
        bench
    }

    async fn end(mut self) {
        drop(self.input.take());
        self.relaying.await.unwrap().unwrap();
        self.site.deleted.notified().await;
        let mut rest = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut self.output, &mut rest).await.unwrap();
        assert_eq!(rest, "");
    }
}

#[tokio::test]
async fn requests_are_answered_under_their_ids() {
    let mut bench = Bench::begun().await;
    bench.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    for id in [json!(1), json!("one")] {
        bench.ask(id.clone(), "tools/list").await;
        let answer = bench.hear().await;
        assert_eq!((&answer["id"], &answer["result"]["method"]), (&id, &json!("tools/list")));
    }
    bench.ask(json!(2), "events").await;
    assert_eq!(bench.hear().await["params"]["text"], "one\ntwo");
    assert_eq!(bench.hear().await["result"]["method"], "events");
    bench.end().await;
}

#[tokio::test]
async fn what_goes_wrong_is_an_error_under_the_id() {
    let mut bench = Bench::begun().await;
    bench.ask(json!(1), "forbidden").await;
    let answer = bench.hear().await;
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["error"]["message"], "the server answered with HTTP 403 Forbidden: not\\nyou");
    bench.ask(json!(2), "broken").await;
    assert_eq!(bench.hear().await["error"]["message"], "the server ended the answer before its end");
    bench.say("{ not json").await;
    let answer = bench.hear().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(PARSE_ERROR)));
    bench.say("  ").await;
    bench.ask(json!(3), "still here").await;
    assert_eq!(bench.hear().await["id"], 3);
    bench.end().await;
}

#[tokio::test]
async fn others_are_answered_while_one_waits_and_a_cancelled_one_is_not_answered() {
    let mut bench = Bench::begun().await;
    bench.ask(json!(1), "slow").await;
    bench.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    bench.ask(json!(2), "quick").await;
    assert_eq!(bench.hear().await["id"], 2);
    bench.end().await;
}

#[tokio::test]
async fn a_forgotten_session_begins_anew() {
    let mut bench = Bench::begun().await;
    bench.site.sessions.store(7, Ordering::SeqCst);
    for id in 1..=3 {
        bench.ask(json!(id), "tools/list").await;
    }
    let mut answered = [bench.hear().await, bench.hear().await, bench.hear().await].map(|answer| answer["id"].clone());
    answered.sort_by_key(|id| id.as_u64());
    assert_eq!(answered, [json!(1), json!(2), json!(3)]);
    assert_eq!(bench.site.sessions.load(Ordering::SeqCst), 8, "once for all three");
    bench.end().await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_an_error_for_each_request() {
    let closed = ClosedPort::take();
    let target = RelayTarget { url: format!("http://127.0.0.1:{}/mcp", closed.port()), token: None };
    let (mut input, theirs) = tokio::io::duplex(1024);
    let (output, output_sender) = tokio::io::duplex(1024);
    let relaying = TaskTracker::new().spawn(relay(target, theirs, output_sender, CancellationToken::new()));
    input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}\n").await.unwrap();
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).await.unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().contains("Connection refused"), "{answer}");
    drop(input);
    relaying.await.unwrap().unwrap();
}

#[tokio::test]
async fn it_ends_when_told_to_and_when_nobody_reads() {
    let mut bench = Bench::begun().await;
    bench.ask(json!(1), "slow").await;
    bench.stop.cancel();
    // Time that passes only where nothing but a timer is left to wait for: the farewell to the server, at most.
    tokio::time::pause();
    let began = Instant::now();
    bench.relaying.await.unwrap().unwrap();
    assert!(began.elapsed() < GRACE, "{:?}", began.elapsed());
    tokio::time::resume();

    let mut bench = Bench::begun().await;
    drop(std::mem::replace(&mut bench.output, BufReader::new(tokio::io::duplex(1).0)));
    bench.ask(json!(1), "quick").await;
    assert!(bench.relaying.await.unwrap().is_err());
}

#[tokio::test]
async fn a_line_without_end_costs_bounded_memory() {
    let (mut input, theirs) = tokio::io::duplex(1024 * 1024);
    let writing = TaskTracker::new().spawn(async move {
        for _ in 0..12 {
            input.write_all(&vec![b'x'; 1024 * 1024]).await.unwrap();
        }
        input.write_all(b"\nshort\n\nlast").await.unwrap();
    });
    let mut lines = BoundedLines::new(theirs);
    assert_eq!(lines.next().await.unwrap(), Some(InputLine::TooLong));
    assert_eq!(lines.next().await.unwrap(), Some(InputLine::Whole(b"short".to_vec())));
    assert_eq!(lines.next().await.unwrap(), Some(InputLine::Whole(b"last".to_vec())));
    assert_eq!(lines.next().await.unwrap(), None);
    writing.await.unwrap();
}
