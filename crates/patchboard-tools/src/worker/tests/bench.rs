//! A pool on the stub machine, and calls to it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use patchboard_core::bridge::{TelemetryBus, WorkerSecret};
use patchboard_core::id::{CallId, MemoryOwner, SessionKey};
use patchboard_core::model::{ToolCall, ToolInput};
use patchboard_core::port::{ProgressSink, ToolScope};
use patchboard_core::port::{ToolHost, WorkerSupervisor};
use patchboard_core::scripted::{CountingIds, ManualClock};
use patchboard_core::tool::{CallMetadata, ToolFault, ToolOutput};
use patchboard_core::worker::{PoolReport, WorkerId, WorkerState};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::stub::Stub;
use crate::launch::LaunchMode;
use crate::worker::{CallbackListener, CallbackServer, PoolDeps, PoolOptions, PortBlock, WorkerPools};

/// No callbacks: workers report directly to the stub. Records the secrets it made.
#[derive(Debug)]
struct StubCallbacks(Secrets);

pub(super) type Secrets = Arc<Mutex<Vec<WorkerSecret>>>;

impl CallbackServer for StubCallbacks {
    fn open<'a>(&'a self, _: &'a WorkerId, port: u16) -> BoxFuture<'a, io::Result<CallbackListener>> {
        let closer = CancellationToken::new().drop_guard();
        let secret = WorkerSecret::new(format!("secret of {port}"));
        self.0.lock().unwrap().push(secret.clone());
        std::future::ready(Ok(CallbackListener { address: ([127, 0, 0, 1], port).into(), secret, close_guard: closer }))
            .boxed()
    }
}

pub(super) struct Bench {
    pub(super) stub: Arc<Stub>,
    pub(super) pools: Arc<WorkerPools>,
    pub(super) host: Arc<dyn ToolHost>,
    pub(super) telemetry: TelemetryBus,
    pub(super) stop: CancellationToken,
    pub(super) tracker: TaskTracker,
    pub(super) secrets: Secrets,
    _scratch: TempDir,
}

impl Bench {
    /// A pool of two workers that take two calls each.
    pub(super) fn new(change: impl FnOnce(&mut PoolOptions)) -> Self {
        Self::on(Stub::new(), change)
    }

    pub(super) fn on(stub: Arc<Stub>, change: impl FnOnce(&mut PoolOptions)) -> Self {
        Self::with(stub, PortBlock::choose(64, &[]).unwrap(), change)
    }

    pub(super) fn with(stub: Arc<Stub>, ports: PortBlock, change: impl FnOnce(&mut PoolOptions)) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let command = ["python", "server.py", "--adapter", "a.B"].map(str::to_owned).to_vec();
        let mut options = PoolOptions::new("py", command, scratch.path().to_owned());
        options.count = 2;
        change(&mut options);
        let (telemetry, stop, tracker) = (TelemetryBus::default(), CancellationToken::new(), TaskTracker::new());
        let secrets = Secrets::default();
        let deps = PoolDeps {
            launch: LaunchMode::Plain,
            callbacks: Arc::new(StubCallbacks(secrets.clone())),
            ports,
            telemetry: telemetry.clone(),
            clock: Arc::new(ManualClock::default()),
            ids: Arc::new(CountingIds::default()),
            tracker: tracker.clone(),
            stop: stop.clone(),
            scratch: scratch.path().to_owned(),
            allow_pickle: false,
        };
        let pools = WorkerPools::start_in(Arc::new(stub.clone()), vec![options], deps).unwrap();
        *stub.pools.lock().unwrap() = Arc::downgrade(&pools);
        let host = pools.hosts().remove(0);
        Self { stub, pools, host, telemetry, stop, tracker, secrets, _scratch: scratch }
    }

    /// The same, when all its workers are there.
    pub(super) async fn whole(change: impl FnOnce(&mut PoolOptions)) -> Self {
        let bench = Self::new(change);
        assert!(bench.pools.wait_until_ready(Duration::from_secs(10)).await);
        bench
    }

    pub(super) fn report(&self) -> PoolReport {
        self.pools.report().remove(0)
    }

    pub(super) fn states(&self) -> Vec<WorkerState> {
        self.report().workers.iter().map(|worker| worker.state).collect()
    }

    pub(super) async fn call(&self, tool: &str, value: Value) -> ToolOutput {
        self.send(
            tool,
            value,
            CallMetadata { session: "s".into(), ..CallMetadata::default() },
            CancellationToken::new(),
        )
        .await
    }

    /// The call of a session.
    pub(super) async fn call_in(&self, session: &str, tool: &str) -> ToolOutput {
        let call_metadata = CallMetadata { session: session.into(), ..CallMetadata::default() };
        self.send(tool, Value::Null, call_metadata, CancellationToken::new()).await
    }

    pub(super) async fn send(
        &self,
        tool: &str,
        value: Value,
        call_metadata: CallMetadata,
        stop: CancellationToken,
    ) -> ToolOutput {
        send(&*self.host, tool, value, call_metadata, ProgressSink::default(), stop).await
    }

    /// A call that goes on by itself.
    pub(super) fn begin(&self, session: &str, tool: &str) -> tokio::task::JoinHandle<ToolOutput> {
        let (host, tool) = (self.host.clone(), tool.to_owned());
        let call_metadata = CallMetadata { session: session.into(), ..CallMetadata::default() };
        #[expect(clippy::disallowed_methods, reason = "goes with the test's runtime")]
        tokio::spawn(async move {
            send(&*host, &tool, Value::Null, call_metadata, ProgressSink::default(), CancellationToken::new()).await
        })
    }
}

pub(super) async fn send(
    host: &dyn ToolHost,
    tool: &str,
    value: Value,
    call_metadata: CallMetadata,
    progress: ProgressSink,
    stop: CancellationToken,
) -> ToolOutput {
    let scope = ToolScope {
        session: SessionKey::conversation("default", "test", "me", "main"),
        owner: MemoryOwner::account("test", "me"),
        folder: None,
        folder_grant: None,
        progress,
        call_metadata: Some(Arc::new(call_metadata)),
    };
    let arguments = if value.is_null() { json!({}) } else { json!({"value": value}) };
    let input = ToolInput::Json(json!({}).into());
    let call = ToolCall { id: CallId("call-1".into()), name: tool.into(), input };
    host.call(&scope, &call, &arguments, stop).await
}

pub(super) fn fault(output: &ToolOutput) -> Option<ToolFault> {
    output.data.as_ref().and_then(|data| data.fault)
}

pub(super) fn json(output: &ToolOutput) -> Value {
    let json: Option<Bytes> = output.data.as_ref().and_then(|data| data.json.clone());
    serde_json::from_slice(&json.unwrap()).unwrap()
}

pub(super) fn metadata(output: &ToolOutput) -> BTreeMap<String, String> {
    output.data.as_ref().unwrap().metadata.clone()
}
