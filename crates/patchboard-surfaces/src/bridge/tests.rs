//! A tonic client on real sockets, against a board in memory with a scripted pool.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use patchboard_core::board::BoardParts;
use patchboard_core::bridge::TelemetryBus;
use patchboard_core::in_memory::InMemoryStore;
use patchboard_core::model::ToolCall;
use patchboard_core::port::ToolScope;
use patchboard_core::port::{ToolHost, WorkerSupervisor};
use patchboard_core::scripted::ManualClock;
use patchboard_core::store::Store;
use patchboard_core::tool::ToolKind;
use patchboard_core::tool::{
    CallMetadata, StructuredOutput, ToolChunk, ToolEffect, ToolFault, ToolOutput, ToolSpec, ToolTraits,
    UnknownOutcomePolicy,
};
use patchboard_core::worker::{PoolReport, WorkerId, WorkerTool};

use patchboard_proto::pb::bridge_service_client::BridgeServiceClient;
use patchboard_proto::{Any, pb, value};
use patchboard_testkit::board::TestBoard;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::*;

mod calls;
mod doors;
mod sessions;
mod streams;

const OPERATOR: &str = "the operator's token";
/// When the board's clock stands still, in seconds since 1970.
const NOW: i64 = 1_794_744_000;

type Client = BridgeServiceClient<Channel>;

/// A pool and what was asked of it.
#[derive(Debug, Default)]
struct Pool {
    called: Mutex<Vec<Arc<CallMetadata>>>,
    registered: Mutex<Vec<(WorkerId, Vec<WorkerTool>)>>,
    over: Mutex<Vec<String>>,
    pieces: AtomicUsize,
    started: Notify,
    stopped: Notify,
}

impl Pool {
    fn last(&self) -> Arc<CallMetadata> {
        self.called.lock().unwrap().last().unwrap().clone()
    }

    fn calls(&self) -> usize {
        self.called.lock().unwrap().len()
    }

    async fn work(
        &self,
        call_metadata: &CallMetadata,
        name: &str,
        arguments: &Value,
        stop: CancellationToken,
    ) -> ToolOutput {
        let data = |data: StructuredOutput| ToolOutput::ok("").with_structured(data);
        match name {
            "echo" | "text" => {
                let json = Some(arguments.to_string().into());
                data(StructuredOutput { json, ..StructuredOutput::default() })
            }
            "bytes" => {
                let metadata = BTreeMap::from([("content_type".to_owned(), "application/octet-stream".to_owned())]);
                data(StructuredOutput {
                    binary: call_metadata.binary.get("data").cloned(),
                    metadata,
                    ..StructuredOutput::default()
                })
            }
            "large" => {
                let size = usize::try_from(arguments["size"].as_u64().unwrap()).unwrap();
                data(StructuredOutput { binary: Some(vec![7; size].into()), ..StructuredOutput::default() })
            }
            "fails" => ToolOutput::error(r#"{"type":"ValueError","message":"no"}"#),
            "faults" => {
                let fault = match arguments["how"].as_str().unwrap() {
                    "unavailable" => ToolFault::Unavailable,
                    "queue_timeout" => ToolFault::QueueTimeout,
                    "saturated" => ToolFault::Saturated,
                    "busy" => ToolFault::WorkerBusy,
                    "invalid" => ToolFault::Invalid,
                    _ => ToolFault::Internal,
                };
                ToolOutput::fault(fault, "said so")
            }
            "hangs" => {
                let _told = Told(&self.stopped);
                self.started.notify_one();
                stop.cancelled().await;
                ToolOutput::fault(ToolFault::Cancelled, "cancelled")
            }
            "pieces" => self.hand_over(call_metadata, arguments, stop).await,
            other => ToolOutput::error(format!("unknown: {other}")),
        }
    }

    /// So many pieces of that size, then an end as it is asked for.
    async fn hand_over(&self, call_metadata: &CallMetadata, arguments: &Value, stop: CancellationToken) -> ToolOutput {
        let number = |key: &str| arguments[key].as_u64().unwrap_or(0);
        let sender = call_metadata.chunks.as_ref().unwrap();
        for at in 1..=number("count") {
            let chunk = ToolChunk {
                id: format!("pieces-{at}").into(),
                data: vec![b'x'; usize::try_from(number("size")).unwrap()].into(),
                is_final: arguments["final"] == true && at == number("count"),
                metadata: BTreeMap::new(),
            };
            tokio::select! {
                sent = sender.send(chunk) => if sent.is_err() { break },
                () = stop.cancelled() => break,
            }
            self.pieces.fetch_add(1, Ordering::SeqCst);
        }
        if arguments["waits"] == true {
            self.started.notify_one();
            stop.cancelled().await;
        }
        if stop.is_cancelled() {
            self.stopped.notify_one();
            return ToolOutput::fault(ToolFault::Cancelled, "cancelled");
        }
        match arguments["fails"].as_str() {
            Some("tool") => ToolOutput::error(r#"{"type":"RuntimeError"}"#),
            Some(_) => ToolOutput::fault(ToolFault::Unavailable, "the worker died"),
            None => ToolOutput::ok(""),
        }
    }
}

/// Says that something is over, however it ended.
struct Told<'a>(&'a Notify);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl ToolHost for Pool {
    fn kind(&self) -> ToolKind {
        ToolKind::Worker
    }

    fn qualifier(&self) -> Option<&str> {
        Some("py")
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        let spec = |name: &str, streams: bool| ToolSpec {
            name: name.into(),
            description: format!("it {name}").into(),
            input_schema: json!({"type": "object", "properties": {"text": {"type": "string"}}}).into(),
            effect: ToolEffect::Writes,
            unknown_outcome: UnknownOutcomePolicy::Ask,
            timeout: None,
            kind: ToolKind::Worker,
            traits: Some(Arc::new(ToolTraits { streams, ..ToolTraits::default() })),
        };
        let plain = ["bytes", "echo", "fails", "faults", "hangs", "large", "text"];
        plain.into_iter().map(|name| spec(name, false)).chain([spec("pieces", true)]).collect()
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let call_metadata = scope.call_metadata.clone().unwrap();
        self.called.lock().unwrap().push(call_metadata.clone());
        Box::pin(async move { self.work(&call_metadata, &call.name, arguments, stop).await })
    }
}

impl WorkerSupervisor for Pool {
    fn report(&self) -> Vec<PoolReport> {
        Vec::new()
    }

    fn tools_registered(&self, worker: &WorkerId, tools: Vec<WorkerTool>) {
        self.registered.lock().unwrap().push((worker.clone(), tools));
    }

    fn session_closed(&self, session: &str) {
        self.over.lock().unwrap().push(session.to_owned());
    }
}

/// Tools of the server's own.
#[derive(Debug)]
struct Own;

impl ToolHost for Own {
    fn kind(&self) -> ToolKind {
        ToolKind::BuiltIn
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        let spec = |name: &str, effect| ToolSpec {
            name: name.into(),
            description: format!("it {name}").into(),
            input_schema: json!({"type": "object", "properties": {"text": {"type": "string"}}}).into(),
            effect,
            unknown_outcome: UnknownOutcomePolicy::Retry,
            timeout: None,
            kind: ToolKind::BuiltIn,
            traits: None,
        };
        let read_only = ["looks", "stumbles"].map(|name| spec(name, ToolEffect::ReadOnly));
        read_only.into_iter().chain([spec("writes", ToolEffect::Writes)]).collect()
    }

    fn call<'a>(
        &'a self,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let output = match &*call.name {
            "stumbles" => ToolOutput::error("no luck"),
            _ => ToolOutput::ok(format!("saw {arguments}")),
        };
        Box::pin(std::future::ready(output))
    }
}

struct Setup {
    token: Option<&'static str>,
    tls: Option<ReloadableTls>,
    limits: BridgeLimits,
    allow_pickle: bool,
    settled: BoxFuture<'static, ()>,
    sessions: patchboard_core::bridge::BridgeOptions,
    drain_timeout: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            token: None,
            tls: None,
            limits: BridgeLimits::default(),
            allow_pickle: false,
            settled: Box::pin(std::future::ready(())),
            sessions: patchboard_core::bridge::BridgeOptions::default(),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

struct Bench {
    bridge: Bridge,
    address: SocketAddr,
    pool: Arc<Pool>,
    store: Arc<InMemoryStore>,
    signals: TelemetryBus,
    draining: CancellationToken,
    /// The server's tasks.
    tracker: TaskTracker,
    /// Those of its clients.
    clients: TaskTracker,
}

impl Bench {
    async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    async fn with(setup: Setup) -> Self {
        let (pool, store, signals) =
            (Arc::new(Pool::default()), Arc::new(InMemoryStore::new()), TelemetryBus::default());
        let clock = Arc::new(ManualClock::default());
        let change = |parts: &mut BoardParts| {
            parts.store = store.clone();
            parts.clock = clock.clone();
            parts.tools = vec![Arc::new(Own)];
            parts.pools = vec![pool.clone()];
            parts.workers = Some(pool.clone());
            parts.telemetry = signals.clone();
            parts.bridge = setup.sessions;
        };
        let board = TestBoard::new([]).with(change).assemble();
        let (draining, tracker) = (CancellationToken::new(), TaskTracker::new());
        let options = BridgeOptions {
            local_users: LocalUsers::new([]),
            gate: AuthGate::new(SURFACE, setup.token.map(Into::into), Some(OPERATOR.into()), Arc::default()),
            guard: OriginGuard { surface: SURFACE, ..OriginGuard::default() },
            node: "bench".into(),
            clock,
            limits: setup.limits,
            allow_pickle: setup.allow_pickle,
            workers_ready: setup.settled,
            draining: draining.clone(),
            drain_timeout: setup.drain_timeout,
            tracker: tracker.clone(),
        };
        let bridge = Bridge::new(board, options);
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tracker.spawn(bridge.clone().serve_public(socket, setup.tls));
        Self { bridge, address, pool, store, signals, draining, tracker, clients: TaskTracker::new() }
    }

    async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    async fn client(&self) -> Client {
        client(self.channel().await)
    }

    /// In an open session named `s`.
    async fn in_session(&self) -> Client {
        let mut client = self.client().await;
        open(&mut client, "s").await;
        client
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.draining.cancel();
    }
}

fn client(channel: Channel) -> Client {
    let limit = 200 * 1024 * 1024;
    BridgeServiceClient::new(channel).max_decoding_message_size(limit).max_encoding_message_size(limit)
}

async fn open(client: &mut Client, session: &str) -> pb::InitializeSessionResponse {
    client.initialize_session(opening(session)).await.unwrap().into_inner()
}

fn opening(session: &str) -> pb::InitializeSessionRequest {
    pb::InitializeSessionRequest { session_id: session.to_owned(), ..Default::default() }
}

fn call(tool: &str, arguments: Value) -> pb::ExecuteToolRequest {
    let Value::Object(arguments) = arguments else { panic!("not an object") };
    pb::ExecuteToolRequest {
        session_id: "s".to_owned(),
        tool_name: tool.to_owned(),
        parameters: arguments.iter().map(|(name, argument)| (name.clone(), value::encode(argument))).collect(),
        ..Default::default()
    }
}

fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn result(response: &pb::ExecuteToolResponse) -> Value {
    assert!(response.success, "{response:?}");
    let any = response.result.as_ref().unwrap();
    assert_eq!(any.type_url, "type.snakepit.bridge/json");
    serde_json::from_slice(&any.value).unwrap()
}

/// Code and words of a refusal.
fn refusal<T: fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.unwrap_err();
    (status.code(), status.message().to_owned())
}
