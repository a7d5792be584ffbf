//! A machine made for tests, and the workers on it: real servers at the other end of a pipe in memory.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use patchboard_core::port::{BoxStream, WorkerSupervisor};
use patchboard_core::worker::{WorkerId, WorkerTool};
use patchboard_proto::pb::bridge_service_server::{BridgeService, BridgeServiceServer};
use patchboard_proto::{pb, value};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::worker::WorkerPools;
use crate::worker::output_tail::StdioTail;
use crate::worker::platform::{LaunchSpec, WorkerPlatform, WorkerProcess, WorkerStream};
use crate::worker::ready_file::WorkerAddress;

/// How the next workers that are started behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Works,
    /// Says something, and ends.
    Fails,
    /// Is never ready.
    Hangs,
}

/// What all workers have in common, and what they saw.
#[derive(Debug)]
pub(super) struct Stub {
    pub(super) start: Mutex<Start>,
    /// Says what it has and how much it takes, as SDK workers do; else it registers.
    pub(super) is_modern: AtomicBool,
    /// Registers none of its tools.
    pub(super) is_silent: AtomicBool,
    /// Says that it shows its secret.
    pub(super) shows_secret: AtomicBool,
    pub(super) capacity: AtomicU64,
    pub(super) memory: AtomicU64,
    /// Does what it is asked when it is asked to end.
    pub(super) is_polite: AtomicBool,
    /// Calls of `wait` end when there is one.
    pub(super) gate: Semaphore,
    pub(super) orders: Mutex<Vec<Vec<String>>>,
    pub(super) environments: Mutex<Vec<BTreeMap<String, String>>>,
    pub(super) workers: Mutex<Vec<Arc<StubWorker>>>,
    /// How many others were there when each one was started.
    pub(super) neighbours: Mutex<Vec<usize>>,
    /// Each request of a tool, in the order they came.
    pub(super) seen: Mutex<Vec<Seen>>,
    pub(super) sessions_over: Mutex<Vec<String>>,
    pub(super) events: Mutex<Vec<pb::TelemetryEvent>>,
    /// Told whenever a worker hears something.
    pub(super) heard: Notify,
    pub(super) pools: Mutex<Weak<WorkerPools>>,
    addresses: Mutex<HashMap<String, mpsc::UnboundedSender<DuplexStream>>>,
}

#[derive(Debug)]
pub(super) struct StubWorker {
    pub(super) number: usize,
    pub(super) id: String,
    /// The process is there until then.
    pub(super) ended: CancellationToken,
    /// Answers no heartbeat.
    pub(super) is_deaf: AtomicBool,
    /// Answers every heartbeat with an error.
    pub(super) is_broken: AtomicBool,
    pub(super) heartbeats: AtomicU64,
    pub(super) cancelled_streams: AtomicU64,
    stub: Arc<Stub>,
}

#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) worker: usize,
    pub(super) request: pb::ExecuteToolRequest,
    pub(super) headers: MetadataMap,
}

impl Stub {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Mutex::new(Start::Works),
            is_modern: true.into(),
            is_silent: false.into(),
            shows_secret: false.into(),
            capacity: 2.into(),
            memory: 1000.into(),
            is_polite: true.into(),
            gate: Semaphore::new(0),
            orders: Mutex::default(),
            environments: Mutex::default(),
            workers: Mutex::default(),
            neighbours: Mutex::default(),
            seen: Mutex::default(),
            sessions_over: Mutex::default(),
            events: Mutex::default(),
            heard: Notify::new(),
            pools: Mutex::new(Weak::new()),
            addresses: Mutex::default(),
        })
    }

    pub(super) fn worker(&self, number: usize) -> Arc<StubWorker> {
        self.workers.lock().unwrap()[number].clone()
    }

    pub(super) fn starts(&self) -> usize {
        self.orders.lock().unwrap().len()
    }

    /// Waits until so many tool requests have come.
    pub(super) async fn saw(&self, count: usize) {
        loop {
            let heard = self.heard.notified();
            if self.seen.lock().unwrap().len() >= count {
                return;
            }
            heard.await;
        }
    }

    fn tools() -> BTreeMap<String, pb::ToolSpec> {
        let parameter = |name: &str| pb::ParameterSpec { name: name.to_owned(), ..Default::default() };
        let tool = |name: &str, streams: bool| pb::ToolSpec {
            name: name.to_owned(),
            description: format!("does {name}"),
            parameters: vec![parameter("value")],
            supports_streaming: streams,
            ..Default::default()
        };
        let plain = ["echo", "fail", "wait", "bytes", "nothing", "refuse", "garbage"].map(|name| tool(name, false));
        let streams = ["count", "endless", "broken", "no_final", "words"].map(|name| tool(name, true));
        plain.into_iter().chain(streams).map(|tool| (tool.name.clone(), tool)).collect()
    }
}

#[derive(Debug)]
struct StubProcess {
    worker: Arc<StubWorker>,
    tail: StdioTail,
}

impl WorkerPlatform for Arc<Stub> {
    fn launch(&self, spec: LaunchSpec) -> BoxFuture<'_, Result<Box<dyn WorkerProcess>, String>> {
        async move {
            let variable = |name: &str| spec.environment[name].expose_secret().to_owned();
            let environment = spec.environment.iter();
            let environment = environment.map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
            self.environments.lock().unwrap().push(environment.collect());
            self.orders.lock().unwrap().push(spec.arguments.clone());
            let worker = {
                let mut workers = self.workers.lock().unwrap();
                let others = workers.iter().filter(|worker| !worker.ended.is_cancelled()).count();
                self.neighbours.lock().unwrap().push(others);
                let worker = Arc::new(StubWorker {
                    number: workers.len(),
                    id: variable("PATCHBOARD_WORKER_ID"),
                    ended: CancellationToken::new(),
                    is_deaf: false.into(),
                    is_broken: false.into(),
                    heartbeats: 0.into(),
                    cancelled_streams: 0.into(),
                    stub: self.clone(),
                });
                workers.push(worker.clone());
                worker
            };
            let tail = StdioTail::default();
            let start = *self.start.lock().unwrap();
            match start {
                Start::Works => {
                    let address = format!("/stub/{}", worker.number);
                    self.addresses.lock().unwrap().insert(address.clone(), worker.clone().serve());
                    let proof = if self.shows_secret.load(Ordering::SeqCst) { "secret=shown\n" } else { "" };
                    let text = format!("unix:{address}\npid=4711\n{proof}");
                    std::fs::write(variable("SNAKEPIT_READY_FILE"), text).unwrap();
                }
                Start::Fails => {
                    tail.clone().drain("stub".into(), &b"Traceback\nno module named `tools`\n"[..]).await;
                    worker.ended.cancel();
                }
                Start::Hangs => {}
            }
            Ok(Box::new(StubProcess { worker, tail }) as Box<dyn WorkerProcess>)
        }
        .boxed()
    }

    fn connect<'a>(&'a self, address: &'a WorkerAddress) -> BoxFuture<'a, io::Result<Box<dyn WorkerStream>>> {
        let WorkerAddress::Unix(path) = address else { panic!("{address}") };
        let (ours, theirs) = tokio::io::duplex(1024 * 1024);
        let addresses = self.addresses.lock().unwrap();
        let taken = addresses[path.to_str().unwrap()].send(theirs);
        async move {
            taken.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            Ok(Box::new(ours) as Box<dyn WorkerStream>)
        }
        .boxed()
    }

    fn memory(&self, _pid: u32) -> BoxFuture<'_, Option<u64>> {
        std::future::ready(Some(self.memory.load(Ordering::SeqCst))).boxed()
    }
}

impl WorkerProcess for StubProcess {
    fn pid(&self) -> Option<u32> {
        Some(1)
    }

    fn wait(&mut self) -> BoxFuture<'_, String> {
        async {
            self.worker.ended.cancelled().await;
            "signal: 9 (SIGKILL)".to_owned()
        }
        .boxed()
    }

    fn request_stop(&mut self) -> BoxFuture<'_, ()> {
        if self.worker.stub.is_polite.load(Ordering::SeqCst) {
            self.worker.ended.cancel();
        }
        std::future::ready(()).boxed()
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        self.worker.ended.cancel();
        std::future::ready(()).boxed()
    }

    fn take_stdin(&mut self) -> Option<pipe::Sender> {
        None
    }

    fn output_tail(&self) -> StdioTail {
        self.tail.clone()
    }
}

impl Drop for StubProcess {
    fn drop(&mut self) {
        self.worker.ended.cancel();
    }
}

impl StubWorker {
    /// Takes connections until the process ends, and breaks them off then.
    fn serve(self: Arc<Self>) -> mpsc::UnboundedSender<DuplexStream> {
        let (connector, mut incoming_connections) = mpsc::unbounded_channel::<DuplexStream>();
        let (inner, incoming) = mpsc::unbounded_channel::<io::Result<DuplexStream>>();
        let ended = self.ended.clone();
        spawn(async move {
            while let Some(mut outside) = incoming_connections.recv().await {
                let (mut inside, served) = tokio::io::duplex(1024 * 1024);
                inner.send(Ok(served)).unwrap();
                let ended = ended.clone();
                spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut outside, &mut inside) => {}
                        () = ended.cancelled() => {}
                    }
                });
            }
        });
        let incoming = stream::unfold(incoming, |mut incoming| async { Some((incoming.recv().await?, incoming)) });
        let service = BridgeServiceServer::from_arc(self);
        spawn(async move {
            tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        connector
    }

    fn note(&self, request: Request<pb::ExecuteToolRequest>) -> pb::ExecuteToolRequest {
        let (headers, _, request) = request.into_parts();
        self.stub.seen.lock().unwrap().push(Seen { worker: self.number, request: request.clone(), headers });
        self.stub.heard.notify_waiters();
        request
    }
}

#[expect(clippy::disallowed_methods, reason = "goes with the test's runtime")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

fn argument(request: &pb::ExecuteToolRequest) -> Value {
    request.parameters.get("value").map_or(Value::Null, |any| value::decode(any, value::ParameterKind::Other).unwrap())
}

fn chunk(number: usize, data: impl Into<Bytes>, is_final: bool) -> Result<pb::ToolChunk, Status> {
    let metadata = BTreeMap::from([("n".to_owned(), number.to_string())]);
    Ok(pb::ToolChunk { chunk_id: format!("c-{number}"), data: data.into(), is_final, metadata })
}

const MISSING: &str = r#"{"type":"AttributeError","message":"Tool 'missing' not found in Tools"}"#;
const ERROR: &str = r#"{"type":"ValueError","message":"too small","stacktrace":["a"],"traceback":"long","context":{}}"#;

#[tonic::async_trait]
impl BridgeService for StubWorker {
    async fn ping(&self, request: Request<pb::PingRequest>) -> Result<Response<pb::PingResponse>, Status> {
        let message = format!("Pong from Python: {}", request.into_inner().message);
        Ok(Response::new(pb::PingResponse { message, server_time: None }))
    }

    async fn initialize_session(
        &self,
        _: Request<pb::InitializeSessionRequest>,
    ) -> Result<Response<pb::InitializeSessionResponse>, Status> {
        let is_modern = self.stub.is_modern.load(Ordering::SeqCst);
        let available_tools = if is_modern { Stub::tools() } else { BTreeMap::new() };
        let answer = pb::InitializeSessionResponse { success: true, available_tools, ..Default::default() };
        let mut answer = Response::new(answer);
        if is_modern {
            let capacity = self.stub.capacity.load(Ordering::SeqCst).to_string();
            answer.metadata_mut().insert("x-patchboard-capacity", capacity.parse().unwrap());
        }
        Ok(answer)
    }

    async fn cleanup_session(
        &self,
        request: Request<pb::CleanupSessionRequest>,
    ) -> Result<Response<pb::CleanupSessionResponse>, Status> {
        self.stub.sessions_over.lock().unwrap().push(format!("{} {}", self.number, request.into_inner().session_id));
        self.stub.heard.notify_waiters();
        Ok(Response::new(pb::CleanupSessionResponse { success: true, resources_cleaned: 1 }))
    }

    async fn get_session(&self, _: Request<pb::GetSessionRequest>) -> Result<Response<pb::GetSessionResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn heartbeat(&self, _: Request<pb::HeartbeatRequest>) -> Result<Response<pb::HeartbeatResponse>, Status> {
        self.heartbeats.fetch_add(1, Ordering::SeqCst);
        self.stub.heard.notify_waiters();
        if self.is_deaf.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(Status::internal("broken"));
        }
        Ok(Response::new(pb::HeartbeatResponse { server_time: None, session_valid: true }))
    }

    async fn execute_tool(
        &self,
        request: Request<pb::ExecuteToolRequest>,
    ) -> Result<Response<pb::ExecuteToolResponse>, Status> {
        if request.get_ref().tool_name == "__patchboard_probe__" {
            let tools = Stub::tools().into_values().map(|tool| WorkerTool {
                name: tool.name.into(),
                description: tool.description.into(),
                input_schema: Arc::new(json!({"type": "object"})),
                parameters: Vec::new(),
                streams: tool.supports_streaming,
                metadata: BTreeMap::new(),
            });
            if !self.stub.is_silent.load(Ordering::SeqCst) {
                let pools = self.stub.pools.lock().unwrap().upgrade().unwrap();
                pools.tools_registered(&WorkerId(self.id.as_str().into()), tools.collect());
            }
            let answer = pb::ExecuteToolResponse { error_message: "AttributeError".to_owned(), ..Default::default() };
            return Ok(Response::new(answer));
        }
        let request = self.note(request);
        let ok = |result: &Value| pb::ExecuteToolResponse {
            success: true,
            result: Some(value::encode(result)),
            ..Default::default()
        };
        Ok(Response::new(match request.tool_name.as_str() {
            "echo" => ok(&argument(&request)),
            "wait" => {
                self.stub.gate.acquire().await.unwrap().forget();
                ok(&json!(self.number))
            }
            "fail" => pb::ExecuteToolResponse { error_message: ERROR.to_owned(), ..Default::default() },
            "bytes" => {
                let metadata = BTreeMap::from([("content_type".to_owned(), "image/png".to_owned())]);
                let binary_result = request.binary_parameters.get("value").cloned().unwrap_or_default();
                pb::ExecuteToolResponse { success: true, metadata, binary_result, ..Default::default() }
            }
            "nothing" => pb::ExecuteToolResponse { success: true, ..Default::default() },
            "garbage" => {
                let result = Some(value::encode_json("{broken"));
                pb::ExecuteToolResponse { success: true, result, ..Default::default() }
            }
            "add" => ok(&argument(&request)),
            "missing" => pb::ExecuteToolResponse { error_message: MISSING.to_owned(), ..Default::default() },
            "refuse" => return Err(Status::invalid_argument("not like this")),
            _ => ok(&json!({"error": "Streaming tool called on non-streaming endpoint."})),
        }))
    }

    type ExecuteStreamingToolStream = BoxStream<Result<pb::ToolChunk, Status>>;

    async fn execute_streaming_tool(
        &self,
        request: Request<pb::ExecuteToolRequest>,
    ) -> Result<Response<Self::ExecuteStreamingToolStream>, Status> {
        let request = self.note(request);
        let chunks: BoxStream<_> = match request.tool_name.as_str() {
            "count" => {
                let after = stream::iter([chunk(4, "late", false)]);
                Box::pin(stream::iter((1..4).map(|number| chunk(number, number.to_string(), number == 3))).chain(after))
            }
            "words" => {
                Box::pin(stream::iter([chunk(1, "Hel", false), chunk(2, "lo", false), chunk(3, r#"{"a":1}"#, true)]))
            }
            "no_final" => Box::pin(stream::iter([chunk(1, "1", false), chunk(2, r#""two""#, false)])),
            "missing" => Box::pin(stream::iter([Err(Status::internal(MISSING))])),
            "broken" => Box::pin(stream::iter([chunk(1, "1", false), Err(Status::internal(ERROR))])),
            _ => {
                let worker = Cancelled(self.stub.worker(self.number));
                Box::pin(stream::unfold((worker, 0), |(worker, number)| async move {
                    worker.0.stub.heard.notify_waiters();
                    Some((chunk(number, vec![7; 100_000], false), (worker, number + 1)))
                }))
            }
        };
        Ok(Response::new(chunks))
    }

    async fn register_tools(
        &self,
        _: Request<pb::RegisterToolsRequest>,
    ) -> Result<Response<pb::RegisterToolsResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_exposed_elixir_tools(
        &self,
        _: Request<pb::GetExposedElixirToolsRequest>,
    ) -> Result<Response<pb::GetExposedElixirToolsResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn execute_elixir_tool(
        &self,
        _: Request<pb::ExecuteElixirToolRequest>,
    ) -> Result<Response<pb::ExecuteElixirToolResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    type StreamTelemetryStream = BoxStream<Result<pb::TelemetryEvent, Status>>;

    async fn stream_telemetry(
        &self,
        request: Request<tonic::Streaming<pb::TelemetryControl>>,
    ) -> Result<Response<Self::StreamTelemetryStream>, Status> {
        let mut controls = request.into_inner();
        let first = controls.message().await?.and_then(|control| control.control);
        let expected = pb::telemetry_control::Control::Toggle(pb::TelemetryToggle { enabled: true });
        assert_eq!(first, Some(expected));
        // One event for each stream that is opened, then the stream breaks off.
        let event = self.stub.events.lock().unwrap().pop();
        let Some(event) = event else { return Ok(Response::new(Box::pin(stream::pending()))) };
        Ok(Response::new(Box::pin(stream::iter([Ok(event), Err(Status::unavailable("off"))]))))
    }
}

/// Counts streams whose reader was dropped.
struct Cancelled(Arc<StubWorker>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        self.0.cancelled_streams.fetch_add(1, Ordering::SeqCst);
        self.0.stub.heard.notify_waiters();
    }
}

/// Longer than any timer of a pool that is well.
pub(super) const WHILE: Duration = Duration::from_secs(100);
