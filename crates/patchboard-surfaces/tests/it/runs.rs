//! The runs surface on real sockets, over a board in memory and a model that follows a script.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use patchboard_core::agent::AgentSpec;
use patchboard_core::model::{ModelEvent, StopReason};
use patchboard_core::reloadable::Reloadable;
use patchboard_core::scripted::{Script, ScriptStep, ScriptedModel, answering, say};
use patchboard_surfaces::auth::AuthGate;
use patchboard_surfaces::guard::OriginGuard;
use patchboard_surfaces::limit::{ClientLimits, RateLimit};
use patchboard_surfaces::listen::{self, Listener};
use patchboard_surfaces::pump::PumpLimits;
use patchboard_surfaces::runs::{self, RunsOptions};
use patchboard_testkit::board::{TestBoard, test_agent};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

mod doors;
mod leaving;
mod pace;

struct Server {
    address: SocketAddr,
    /// Open connections are its tasks, besides the listener.
    connections: TaskTracker,
    _stop: DropGuard,
}

struct Setup {
    token: Option<&'static str>,
    stall: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        Self { token: None, stall: Duration::from_secs(60) }
    }
}

async fn serve(scripts: impl IntoIterator<Item = Script>, setup: Setup) -> Server {
    // Long answers are what some of these tests are about.
    let agent = AgentSpec { max_tokens: 100_000, context_window: 1_000_000, ..test_agent(ScriptedModel::new(scripts)) };
    let board = TestBoard::with_agent(agent).assemble();
    let stop = CancellationToken::new();
    let connections = TaskTracker::new();
    let router = runs::router(
        board,
        RunsOptions {
            gate: AuthGate::new("runs", setup.token.map(SecretString::from), None, Arc::default()),
            guard: OriginGuard { surface: "runs", ..OriginGuard::default() },
            limits: PumpLimits { stall: setup.stall, ..PumpLimits::default() },
            clients: Arc::new(Reloadable::new(ClientLimits {
                rate: RateLimit { per_second: 1e6, burst: 1e6 },
                max_message: 16 * 1024 * 1024,
                sign_in: Duration::from_secs(5),
            })),
            strict_clients: false,
            close_on_error: false,
            draining: stop.clone(),
            tracker: connections.clone(),
        },
    );
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let listener = Listener { surface: "runs", socket, max_connections: 64, local_users: None };
    // The tasks of HTTP connections are not of interest; those of WebSockets are in `connections`.
    let http = TaskTracker::new();
    http.spawn(listen::serve(listener, router, stop.clone(), http.clone()));
    Server { address, connections, _stop: stop.drop_guard() }
}

type Socket = WebSocketStream<TcpStream>;

impl Server {
    async fn connect(&self) -> Socket {
        self.connect_over(TcpStream::connect(self.address).await.unwrap()).await
    }

    async fn connect_over(&self, stream: TcpStream) -> Socket {
        let request = format!("ws://{}/", self.address).into_client_request().unwrap();
        tokio_tungstenite::client_async(request, stream).await.unwrap().0
    }

    /// A client whose kernel takes little, so that not reading is felt at once.
    async fn connect_narrow(&self) -> Socket {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        self.connect_over(socket.connect(self.address).await.unwrap()).await
    }

    /// Waits until only so many connections are open.
    async fn connections_fall_to(&self, count: usize) {
        while self.connections.len() > count {
            // Nobody announces it, and whoever is waited for needs the processor too.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn send(socket: &mut Socket, request: Value) {
    socket.send(Message::text(request.to_string())).await.unwrap();
}

async fn next(socket: &mut Socket) -> Value {
    loop {
        match socket.next().await.unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other @ (Message::Binary(_) | Message::Close(_) | Message::Frame(_)) => panic!("unexpected: {other:?}"),
        }
    }
}

/// Reads a run to its end: its events, checked to be numbered without a gap from `first` on, and the end.
async fn read_run(socket: &mut Socket, first: u64) -> (Vec<Value>, Value) {
    let mut events = Vec::new();
    loop {
        let frame = next(socket).await;
        match frame["type"].as_str() {
            Some("run_stream_event") => {
                assert_eq!(frame["event"]["event_id"], first + events.len() as u64);
                events.push(frame["event"].clone());
            }
            Some("run_end" | "error") => return (events, frame),
            _ => panic!("unexpected: {frame}"),
        }
    }
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// An answer that says something, waits for a permit, and goes on.
fn held(gate: &Arc<Semaphore>) -> Script {
    let text = |text: &str| ScriptStep::Emit(ModelEvent::Text(text.to_owned()));
    let stop = ScriptStep::Emit(ModelEvent::Stop(StopReason::EndOfTurn));
    vec![answering(), text("first "), ScriptStep::Wait(gate.clone()), text("last"), stop]
}

fn run(id: &str) -> Value {
    json!({ "type": "run", "id": id, "message": "hi", "agent": "react" })
}

#[tokio::test]
async fn a_run_from_its_start_to_its_end() {
    let server = serve([say(&["hel", "lo"], 10, 2)], Setup::default()).await;
    let mut client = server.connect().await;
    send(&mut client, json!({ "type": "run", "message": "hi", "agent": "react", "thread_id": "t" })).await;
    let (events, end) = read_run(&mut client, 1).await;
    let expected = [
        "run_start",
        "node_enter",
        "message_chunk",
        "message_chunk",
        "usage",
        "node_exit",
        "values",
        "updates",
        "checkpoint",
    ];
    assert_eq!(types(&events), expected);
    assert_eq!(end["reply"], "hello");
    assert_eq!(end["event_id"], 10);
    assert_eq!(end["total_usage"]["total_tokens"], 12);
    let id = end["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("run-"));

    send(&mut client, json!({ "type": "user_messages", "id": "m", "thread_id": "t" })).await;
    let stored = next(&mut client).await;
    let said: Vec<_> =
        stored["messages"].as_array().unwrap().iter().map(|one| (&one["role"], &one["content"])).collect();
    assert_eq!(said, [(&json!("user"), &json!("hi")), (&json!("assistant"), &json!("hello"))]);
    assert_eq!(stored["has_more"], false);

    // Another connection may read it again, from wherever it likes.
    let mut other = server.connect().await;
    send(&mut other, json!({ "type": "attach", "id": id, "after": 4 })).await;
    let (again, same_end) = read_run(&mut other, 5).await;
    assert_eq!(again, events[4..]);
    assert_eq!(same_end, end);
}

#[tokio::test]
async fn a_connection_stays_alive_during_a_run() {
    let gate = Arc::new(Semaphore::new(0));
    let server = serve([held(&gate)], Setup::default()).await;
    let mut client = server.connect().await;
    send(&mut client, run("r1")).await;
    while next(&mut client).await["event"]["type"] != "message_chunk" {}
    send(&mut client, json!({ "type": "ping", "id": "p" })).await;
    assert_eq!(next(&mut client).await, json!({ "type": "pong", "id": "p" }));
    client.send(Message::Ping("x".into())).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Pong("x".into()));
    client.send(Message::binary(r#"{"type":"tools_list","id":"t"}"#)).await.unwrap();
    assert_eq!(next(&mut client).await["type"], "tools_list");
    send(&mut client, run("r2")).await;
    send(&mut client, json!({ "type": "cancel", "id": "r2" })).await;
    assert_eq!(next(&mut client).await, json!({ "type": "error", "id": "r2", "error": "run cancelled" }));
    gate.add_permits(1);
    let mut last = next(&mut client).await;
    while last["type"] == "run_stream_event" {
        last = next(&mut client).await;
    }
    assert_eq!(last["reply"], "first last");
}

#[tokio::test]
async fn a_cancelled_run_says_so() {
    let gate = Arc::new(Semaphore::new(0));
    let server = serve([held(&gate), say(&["next"], 1, 1)], Setup::default()).await;
    let mut client = server.connect().await;
    send(&mut client, run("r1")).await;
    send(&mut client, run("r2")).await;
    while next(&mut client).await["event"]["type"] != "message_chunk" {}
    send(&mut client, json!({ "type": "cancel", "id": "r1" })).await;
    let mut last = next(&mut client).await;
    while last["type"] == "run_stream_event" {
        last = next(&mut client).await;
    }
    assert_eq!(last, json!({ "type": "error", "id": "r1", "error": "run cancelled" }));
    let (_, end) = read_run(&mut client, 1).await;
    assert_eq!((&end["id"], &end["reply"]), (&json!("r2"), &json!("next")));
}
