//! Real requests on a real socket, to a board of scripted parts.

use std::net::SocketAddr;
use std::sync::Mutex;

use futures_util::future::BoxFuture;
use patchboard_core::board::BoardParts;
use patchboard_core::in_memory::InMemoryStore;
use patchboard_core::model::ToolCall;
use patchboard_core::port::ToolHost;
use patchboard_core::port::ToolScope;

use patchboard_core::reloadable::Reloadable;
use patchboard_core::store::Store;
use patchboard_core::tool::{ToolEffect, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use patchboard_testkit::board::TestBoard;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::limit::{ClientLimits, RateLimit};
use crate::listen::{self, Listener};

#[derive(Debug, Default)]
struct Tools {
    called: Mutex<Vec<(String, Value)>>,
    started: Notify,
    stopped: Notify,
}

impl ToolHost for Tools {
    fn kind(&self) -> ToolKind {
        ToolKind::BuiltIn
    }

    fn tools(&self, _folder: Option<&std::path::Path>) -> Arc<[ToolSpec]> {
        let spec = |name: &str, effect, unknown_outcome| ToolSpec {
            name: name.into(),
            description: format!("it {name}").into(),
            input_schema: json!({"type": "object"}).into(),
            effect,
            unknown_outcome,
            timeout: None,
            kind: ToolKind::BuiltIn,
            traits: None,
        };
        Arc::new([
            spec("echoes", ToolEffect::ReadOnly, UnknownOutcomePolicy::Retry),
            spec("fails", ToolEffect::ReadOnly, UnknownOutcomePolicy::Retry),
            spec("hangs", ToolEffect::ReadOnly, UnknownOutcomePolicy::Retry),
            spec("repeats", ToolEffect::Writes, UnknownOutcomePolicy::Retry),
            spec("writes", ToolEffect::Writes, UnknownOutcomePolicy::Ask),
        ])
    }

    fn call<'a>(
        &'a self,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        self.called.lock().unwrap().push((call.name.to_string(), arguments.clone()));
        Box::pin(async move {
            match &*call.name {
                "fails" => ToolOutput::error("no luck"),
                "hangs" => {
                    self.started.notify_one();
                    stop.cancelled().await;
                    self.stopped.notify_one();
                    ToolOutput::error("cancelled")
                }
                _ => ToolOutput::ok(arguments.to_string()),
            }
        })
    }
}

struct Bench {
    address: SocketAddr,
    tools: Arc<Tools>,
    store: Arc<InMemoryStore>,
    stop: CancellationToken,
}

const OPERATOR: &str = "the operator's token";

impl Bench {
    async fn new() -> Self {
        Self::with(None, RateLimit { per_second: 1e6, burst: 1e6 }).await
    }

    async fn with(token: Option<&str>, rate: RateLimit) -> Self {
        let tools = Arc::new(Tools::default());
        let store = Arc::new(InMemoryStore::new());
        let tracker = TaskTracker::new();
        let options = McpOptions {
            gate: Arc::new(AuthGate::new("gateway", token.map(Into::into), Some(OPERATOR.into()), Arc::default())),
            guard: OriginGuard { surface: "gateway", ..OriginGuard::default() },
            clients: Arc::new(Reloadable::new(ClientLimits {
                rate,
                max_message: 64 * 1024,
                sign_in: Duration::from_secs(5),
            })),
            version: "1.2.3",
            tracker: tracker.clone(),
        };
        let router = router(board(store.clone(), tools.clone()), options);
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let stop = CancellationToken::new();
        let listener = Listener { surface: "gateway", socket, max_connections: 100, local_users: None };
        tracker.spawn(listen::serve(listener, router, stop.clone(), tracker.clone()));
        Self { address, tools, store, stop }
    }

    /// Sends a request; its answer ends with the connection.
    async fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // Of version 1.0, so that bodies come as they are.
        let mut head = format!("{method} /mcp HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
        stream
    }

    async fn ask(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.send(method, headers, body).await;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        Answer::read(&text)
    }

    async fn post(&self, headers: &[(&str, &str)], message: Value) -> Answer {
        let mut all = vec![("Content-Type", "application/json"), ("Accept", BOTH)];
        all.extend(headers);
        self.ask("POST", &all, &message.to_string()).await
    }

    async fn begin(&self, headers: &[(&str, &str)]) -> String {
        let answer = self.post(headers, initialize("2025-11-25")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("mcp-session-id").unwrap().to_owned()
    }

    /// In a session of its own.
    async fn call(&self, headers: &[(&str, &str)], name: &str, arguments: Value) -> Value {
        let session = self.begin(headers).await;
        let mut all = vec![("Mcp-Session-Id", session.as_str())];
        all.extend(headers);
        self.post(&all, call(7, name, arguments)).await.message()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The one message of it, as JSON or as an event.
    fn message(&self) -> Value {
        let text = match self.header("content-type") {
            Some("text/event-stream") => {
                self.body.strip_prefix("event: message\ndata: ").and_then(|text| text.strip_suffix("\n\n")).unwrap()
            }
            _ => &self.body,
        };
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

const BOTH: &str = "application/json, text/event-stream";

fn initialize(version: &str) -> Value {
    let params =
        json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn call(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

fn board(store: Arc<InMemoryStore>, tools: Arc<Tools>) -> Board {
    let change = |parts: &mut BoardParts| {
        parts.store = store;
        parts.tools = vec![tools];
        parts.limits.inputs.approval = Duration::from_millis(1);
    };
    TestBoard::new([]).with(change).assemble()
}

#[tokio::test]
async fn a_session_begins_with_a_version_both_speak() {
    let bench = Bench::new().await;
    for (requested, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let answer = bench.post(&[], initialize(requested)).await;
        let result = json!({
            "protocolVersion": agreed,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "patchboard", "title": "Patchboard", "version": "1.2.3"},
        });
        assert_eq!(answer.message(), json!({"jsonrpc": "2.0", "id": 1, "result": result}));
        assert_eq!(answer.header("mcp-session-id").map(str::len), Some(32));
    }
    let odd = bench.post(&[], request(1, "initialize", json!({}))).await;
    assert_eq!((odd.status, &odd.message()["error"]["code"]), (200, &json!(-32602)));
    assert_eq!(odd.header("mcp-session-id"), None);
}

#[tokio::test]
async fn tools_are_listed_with_what_they_do() {
    let bench = Bench::new().await;
    let session = bench.begin(&[]).await;
    let session = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let answer = bench.post(&session, request("list", "tools/list", json!({}))).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let message = answer.message();
    assert_eq!(message["id"], "list");
    let tools = message["result"]["tools"].as_array().unwrap();
    let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    let echoes = json!({
        "name": "echoes",
        "description": "it echoes",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": true},
    });
    assert_eq!(tool("echoes"), &echoes);
    assert_eq!(tool("writes")["annotations"], json!({"readOnlyHint": false}));
    assert_eq!(tool("repeats")["annotations"], json!({"readOnlyHint": false, "idempotentHint": true}));
    assert_eq!(message["result"].get("nextCursor"), None);
    for cursor in [json!("x"), json!(5), json!("y".repeat(5000))] {
        let answer = bench.post(&session, request(2, "tools/list", json!({ "cursor": cursor }))).await;
        assert_eq!(answer.message()["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn a_call_is_answered_with_the_tool_s_output() {
    let bench = Bench::new().await;
    let answer = bench.call(&[], "echoes", json!({"a": [1, "ü"]})).await;
    let result = json!({"content": [{"type": "text", "text": "{\"a\":[1,\"ü\"]}"}], "isError": false});
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 7, "result": result}));
    let answer = bench.call(&[], "fails", json!({})).await;
    assert_eq!(answer["result"], json!({"content": [{"type": "text", "text": "no luck"}], "isError": true}));
    let answer = bench.call(&[], "nothing", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = bench.call(&[], "echoes", json!(5)).await;
    assert_eq!(answer["error"]["code"], -32602);
    assert_eq!(bench.tools.called.lock().unwrap().len(), 2);
    let audit = bench.store.audit(10, None).await.unwrap();
    let calls: Vec<_> = audit.items.iter().map(|row| (&*row.surface, &*row.principal, &*row.subject)).collect();
    assert_eq!(calls, [("mcp", "local", "fails"), ("mcp", "local", "echoes")]);
}

#[tokio::test]
async fn the_answer_comes_in_the_form_that_is_accepted() {
    let bench = Bench::new().await;
    let session = bench.begin(&[]).await;
    for (accept, message, form) in [
        (Some(BOTH), call(1, "echoes", json!({})), "text/event-stream"),
        (Some(BOTH), request(1, "ping", json!({})), "application/json"),
        (Some("application/json"), call(1, "echoes", json!({})), "application/json"),
        (Some("text/event-stream"), request(1, "ping", json!({})), "text/event-stream"),
        (Some("text/event-stream"), request(1, "nope", json!({})), "text/event-stream"),
        (Some("*/*"), call(1, "echoes", json!({})), "text/event-stream"),
        (None, call(1, "echoes", json!({})), "application/json"),
    ] {
        let mut headers = vec![("Content-Type", "application/json; charset=utf-8"), ("Mcp-Session-Id", &session)];
        headers.extend(accept.map(|accept| ("Accept", accept)));
        let answer = bench.ask("POST", &headers, &message.to_string()).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(form)), "{message} {accept:?}");
        assert_eq!(answer.message()["id"], 1);
    }
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_refused() {
    let bench = Bench::new().await;
    let session = bench.begin(&[]).await;
    let own = ("Mcp-Session-Id", session.as_str());
    let json_type = ("Content-Type", "application/json");
    let ping = request(1, "ping", json!({})).to_string();
    let big = request(1, "ping", json!({"x": "y".repeat(70_000)})).to_string();
    type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, &'a str, u16);
    let cases: Vec<Case<'_>> = vec![
        ("POST", vec![json_type, own], &ping, 200),
        ("POST", vec![own], &ping, 415),
        ("POST", vec![("Content-Type", "text/plain"), own], &ping, 415),
        ("POST", vec![json_type, own, ("Accept", "text/html")], &ping, 406),
        ("POST", vec![json_type, own, ("MCP-Protocol-Version", "1.0")], &ping, 400),
        ("POST", vec![json_type], &ping, 400),
        ("POST", vec![json_type, ("Mcp-Session-Id", "0")], &ping, 404),
        ("POST", vec![json_type, own], &big, 413),
        ("POST", vec![json_type, own], "{", 400),
        ("POST", vec![json_type, own, ("Origin", "https://evil.example")], &ping, 403),
        ("POST", vec![json_type, own, ("Authorization", "Bearer wrong")], &ping, 401),
        ("POST", vec![json_type, own, ("Authorization", "Basic eDp5")], &ping, 401),
        ("GET", vec![own, ("Accept", "text/event-stream")], "", 405),
        ("PUT", vec![own], "", 405),
        ("DELETE", vec![], "", 400),
        ("DELETE", vec![("Mcp-Session-Id", "0")], "", 404),
    ];
    for (method, headers, body, status) in cases {
        let answer = bench.ask(method, &headers, body).await;
        assert_eq!(answer.status, status, "{method} {headers:?} {answer:?}");
    }
}

#[tokio::test]
async fn a_message_that_is_none_gets_an_error() {
    let bench = Bench::new().await;
    let session = bench.begin(&[]).await;
    for (message, code) in [
        ("", -32700),
        ("nonsense", -32700),
        ("[]", -32600),
        ("null", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": 1}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": {}, "method": "ping"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": 5}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}"#, -32600),
        (r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#, -32600),
    ] {
        let headers = [("Content-Type", "application/json"), ("Mcp-Session-Id", session.as_str())];
        let answer = bench.ask("POST", &headers, message).await;
        assert_eq!(answer.status, 400, "{message}");
        let body = answer.message();
        assert_eq!((&body["id"], &body["error"]["code"]), (&Value::Null, &json!(code)), "{message}");
    }
    let session = [("Mcp-Session-Id", session.as_str())];
    let unknown = bench.post(&session, request(1, "prompts/list", json!({}))).await;
    assert_eq!((unknown.status, &unknown.message()["error"]["code"]), (200, &json!(-32601)));
    for quiet in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/unheard-of", "params": {}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4711}}),
        json!({"jsonrpc": "2.0", "id": 5, "result": {}}),
    ] {
        let answer = bench.post(&session, quiet).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""));
    }
}

#[tokio::test]
async fn a_cancelled_call_stops_and_is_not_answered() {
    let bench = Bench::new().await;
    let session = bench.begin(&[]).await;
    let session = [("Mcp-Session-Id", session.as_str())];
    let hanging = async {
        let answer = bench.post(&session, call("hang", "hangs", json!({}))).await;
        (answer.status, answer.body)
    };
    let cancelling = async {
        bench.tools.started.notified().await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "hang"}});
        assert_eq!(bench.post(&session, cancel).await.status, 202);
        bench.tools.stopped.notified().await;
    };
    let (answer, ()) = tokio::join!(hanging, cancelling);
    assert_eq!(answer, (200, String::new()));
}

#[tokio::test]
async fn a_call_is_cancelled_with_its_connection_and_with_its_session() {
    let bench = Bench::new().await;
    let session = bench.begin(&[]).await;
    let own = ("Mcp-Session-Id", session.as_str());
    let headers = [("Content-Type", "application/json"), ("Accept", BOTH), own];
    let stream = bench.send("POST", &headers, &call(1, "hangs", json!({})).to_string()).await;
    bench.tools.started.notified().await;
    drop(stream);
    bench.tools.stopped.notified().await;

    let stream = bench.send("POST", &headers, &call(1, "hangs", json!({})).to_string()).await;
    bench.tools.started.notified().await;
    assert_eq!(bench.ask("DELETE", &[own], "").await.status, 204);
    bench.tools.stopped.notified().await;
    drop(stream);
    assert_eq!(bench.post(&[own], request(1, "ping", json!({}))).await.status, 404, "the session is over");
}

#[tokio::test]
async fn where_a_token_is_needed_nothing_is_done_without_it() {
    let bench = Bench::with(Some("let me in"), RateLimit { per_second: 1e6, burst: 1e6 }).await;
    for wrong in [None, Some("Bearer wrong"), Some("let me in")] {
        let headers: Vec<_> = wrong.map(|token| ("Authorization", token)).into_iter().collect();
        let answer = bench.post(&headers, initialize("2025-11-25")).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{wrong:?}");
    }
    let client = [("Authorization", "Bearer let me in")];
    assert!(bench.call(&client, "echoes", json!({})).await.get("result").is_some());
    // A session is usable only by the principal that began it.
    let session = bench.begin(&client).await;
    let operator = ("Authorization", "Bearer the operator's token");
    let answer = bench.post(&[operator, ("Mcp-Session-Id", &session)], request(1, "ping", json!({}))).await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn the_operator_s_client_writes_and_others_have_to_be_approved() {
    let bench = Bench::new().await;
    let answer = bench.call(&[], "writes", json!({})).await;
    assert_eq!(answer["result"]["isError"], true, "nobody was there to approve it: {answer}");
    assert!(bench.tools.called.lock().unwrap().is_empty());
    let operator = [("Authorization", "Bearer the operator's token")];
    let answer = bench.call(&operator, "writes", json!({"a": 1})).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert_eq!(*bench.tools.called.lock().unwrap(), [("writes".to_owned(), json!({"a": 1}))]);
}

#[tokio::test]
async fn a_client_asks_again_on_the_same_connection() {
    let bench = Bench::new().await;
    let session = bench.begin(&[]).await;
    let mut stream = TcpStream::connect(bench.address).await.unwrap();
    let head = |accept: &str, body: &str, more: &str| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
             Mcp-Session-Id: {session}\r\nContent-Length: {}\r\n{more}\r\n",
            body.len()
        )
    };
    let ping = request(1, "ping", json!({})).to_string();
    let echo = call(2, "echoes", json!({})).to_string();
    // A stream of events has its own end, so the connection need not end with it.
    let requests = [
        head(JSON_CONTENT_TYPE, &ping, "") + &ping,
        head(BOTH, &echo, "") + &echo,
        // The last one says so itself.
        head(JSON_CONTENT_TYPE, &ping, "Connection: close\r\n") + &ping,
    ];
    stream.write_all(requests.concat().as_bytes()).await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3, "{answers}");
    assert_eq!(answers.matches("connection: close").count(), 1, "{answers}");
    // What is too large is not read to its end, and cannot be skipped.
    let (mut answers, mut sending) = TcpStream::connect(bench.address).await.unwrap().into_split();
    let large = " ".repeat(1024 * 1024);
    sending.write_all(head(JSON_CONTENT_TYPE, &large, "").as_bytes()).await.unwrap();
    let mut refused = String::new();
    // Whether all of it is taken does not matter.
    let (_, read) = tokio::join!(sending.write_all(large.as_bytes()), answers.read_to_string(&mut refused));
    read.unwrap();
    assert!(refused.starts_with("HTTP/1.1 413 ") && refused.contains("connection: close"), "{refused}");
}

#[tokio::test]
async fn requests_have_a_rate_but_pings_do_not() {
    let bench = Bench::with(None, RateLimit { per_second: 0.001, burst: 2.0 }).await;
    let session = bench.begin(&[]).await;
    let session = [("Mcp-Session-Id", session.as_str())];
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let answer = bench.post(&session, call(1, "echoes", json!({}))).await;
        statuses.push((answer.status, answer.message().get("result").is_some()));
    }
    assert_eq!(statuses, [(200, true), (200, true), (429, false)]);
    assert_eq!(bench.post(&session, request(1, "ping", json!({}))).await.status, 200);
}

proptest::proptest! {
    #[test]
    fn every_body_is_read_or_refused(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        if let Err(problem) = wire::parse_message(&body) {
            proptest::prop_assert!(wire::error(&Value::Null, &problem)["error"]["code"].is_i64());
        }
    }

    #[test]
    fn every_request_of_the_right_shape_is_read(id in -1_000_000_i64.., method in ".*", text in ".*") {
        let message = request(id, &method, json!({"text": text}));
        let expected = RpcMessage::Request { id: id.into(), method, params: json!({"text": text}) };
        proptest::prop_assert_eq!(wire::parse_message(message.to_string().as_bytes()).unwrap(), expected);
    }
}
