//! Pools of real processes in jails: they are killed, they try the walls, and their server is killed.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use patchboard_core::bridge::{TelemetryBus, WorkerSecret};
use patchboard_core::id::{CallId, MemoryOwner, SessionKey};
use patchboard_core::model::{ToolCall, ToolInput};
use patchboard_core::port::{ProgressSink, ToolScope};
use patchboard_core::port::{ToolHost, WorkerSupervisor};
use patchboard_core::scripted::{CountingIds, ManualClock};
use patchboard_core::tool::{CallMetadata, ToolFault, ToolOutput};
use patchboard_core::worker::{WorkerId, WorkerState};
use patchboard_tools::launch::{JailConfig, LaunchMode};
use patchboard_tools::sandbox::Spawner;
use patchboard_tools::worker::{CallbackListener, CallbackServer, PoolDeps, PoolOptions, PortBlock, WorkerPools};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{Marked, PATIENCE, jailer, lacks_landlock, mark, number_inside, until};

#[derive(Debug)]
struct StubCallbacks;

impl CallbackServer for StubCallbacks {
    fn open<'a>(&'a self, _: &'a WorkerId, _: u16) -> BoxFuture<'a, io::Result<CallbackListener>> {
        let closer = CancellationToken::new().drop_guard();
        Box::pin(std::future::ready(Ok(CallbackListener {
            address: ([127, 0, 0, 1], 9).into(),
            secret: WorkerSecret::new("bits"),
            close_guard: closer,
        })))
    }
}

struct Fixture {
    dir: TempDir,
    mark: String,
    closed_ports: Vec<u16>,
    ports: PortBlock,
}

struct Running {
    pools: Arc<WorkerPools>,
    host: Arc<dyn ToolHost>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["data", "project", "out"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        std::fs::write(dir.path().join("data/token"), "SECRET").unwrap();
        std::fs::write(dir.path().join("project/note"), "what the note says").unwrap();
        Self { dir, mark: mark(), closed_ports: Vec::new(), ports: PortBlock::choose(16, &[]).unwrap() }
    }

    fn path(&self, path: &str) -> String {
        self.dir.path().canonicalize().unwrap().join(path).to_str().unwrap().to_owned()
    }

    async fn start(&self, change: impl FnOnce(&mut PoolOptions)) -> Running {
        let command = [jailer().to_str().unwrap(), "worker", &self.mark].map(str::to_owned).to_vec();
        let mut options = PoolOptions::new("p", command, self.path("project").into());
        options.count = 2;
        options.queue_timeout = PATIENCE;
        options.start_timeout = PATIENCE;
        change(&mut options);
        let jail_config = JailConfig {
            spawner: Spawner::new(jailer()).unwrap(),
            protected: Arc::new([self.path("data").into()]),
            closed_ports: self.closed_ports.clone().into(),
            guard: None,
            worker_ports: self.ports.ports().into(),
        };
        let deps = PoolDeps {
            launch: LaunchMode::Jailed(jail_config),
            callbacks: Arc::new(StubCallbacks),
            ports: self.ports.clone(),
            telemetry: TelemetryBus::default(),
            clock: Arc::new(ManualClock::default()),
            ids: Arc::new(CountingIds::default()),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            scratch: std::env::temp_dir(),
            allow_pickle: false,
        };
        let pools = WorkerPools::start(vec![options], deps).unwrap();
        assert!(pools.wait_until_ready(PATIENCE).await, "{:?}", pools.report());
        let host = pools.hosts().remove(0);
        Running { pools, host }
    }
}

impl Running {
    async fn call(&self, session: &str, tool: &str, value: Value, binary: Option<Bytes>) -> ToolOutput {
        let binary: BTreeMap<String, Bytes> = binary.map(|bytes| ("bytes".to_owned(), bytes)).into_iter().collect();
        let scope = ToolScope {
            session: SessionKey::conversation("default", "test", "me", "main"),
            owner: MemoryOwner::account("test", "me"),
            folder: None,
            folder_grant: None,
            progress: ProgressSink::default(),
            call_metadata: Some(Arc::new(CallMetadata { session: session.into(), binary, ..CallMetadata::default() })),
        };
        let input = ToolInput::Json(json!({}).into());
        let call = ToolCall { id: CallId("call-1".into()), name: tool.into(), input };
        self.host.call(&scope, &call, &json!({"value": value}), CancellationToken::new()).await
    }

    /// What the tool found out.
    async fn told(&self, tool: &str, value: impl Into<Value>) -> Value {
        let output = self.call("s", tool, value.into(), None).await;
        assert!(!output.is_error, "{output:?}");
        serde_json::from_slice(output.data.unwrap().json.as_deref().unwrap()).unwrap()
    }

    fn pids(&self) -> Vec<i32> {
        let report = self.pools.report().remove(0);
        let ready = report.workers.iter().filter(|worker| worker.state == WorkerState::Ready);
        ready.filter_map(|worker| worker.pid?.try_into().ok()).collect()
    }
}

fn fault(output: &ToolOutput) -> Option<ToolFault> {
    output.data.as_ref().and_then(|data| data.fault)
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_under_load_takes_only_its_own_calls_along() {
    for is_warm in [false, true] {
        let fixture = Fixture::new();
        let running = fixture.start(|pool| pool.is_warm = is_warm).await;
        let many = || async {
            let calls = (0..40).map(|number| (format!("s{number}"), json!(number)));
            let calls: Vec<_> = calls.collect();
            let calls = calls.iter().map(|(session, number)| running.call(session, "echo", number.clone(), None));
            join_all(calls).await.iter().all(|output| !output.is_error)
        };
        let killing = async {
            assert!(many().await);
            let workers = running.pools.report().remove(0).workers;
            let holder = workers.iter().find(|worker| worker.in_flight == 1).unwrap();
            let victim = i32::try_from(holder.pid.unwrap()).unwrap();
            kill(victim);
            victim
        };
        let (output, victim) = tokio::join!(running.call("held", "hold", Value::Null, None), killing);
        assert_eq!(fault(&output), Some(ToolFault::Unavailable), "{output:?}");
        let killed = Instant::now();
        assert!(many().await, "warm: {is_warm}");
        // Its call fails with the connection, which may be before its end is heard of.
        until("the pool has heard of it", || !running.pids().contains(&victim)).await;
        assert!(running.pools.wait_until_ready(PATIENCE).await, "{:?}", running.pools.report());
        println!("warm: {is_warm}: whole again {:?} after a worker was killed", killed.elapsed());
        assert!(!running.pids().contains(&victim) && running.pids().len() == 2);
        assert_eq!(running.pools.report()[0].restarts, 1);
        running.pools.shut_down().await;
        until("all are gone", || Marked::find(&fixture.mark).count() == 0).await;
    }
}

#[tokio::test]
async fn a_worker_reads_what_it_needs_and_changes_only_what_it_may() {
    if lacks_landlock(4) {
        return;
    }
    let mut fixture = Fixture::new();
    let (own, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    fixture.closed_ports = vec![port(&own)];
    let out = fixture.path("out");
    let running = fixture.start(|pool| pool.writable = vec![out.into()]).await;
    let denied = io::ErrorKind::PermissionDenied.to_string();
    assert_eq!(running.told("read", fixture.path("project/note")).await, "what the note says");
    assert_eq!(running.told("write", fixture.path("project/new")).await, denied);
    assert_eq!(running.told("write", fixture.path("out/new")).await, "written");
    assert_ne!(running.told("read", fixture.path("data/token")).await, "SECRET");
    assert_ne!(running.told("write", fixture.path("data/token")).await, "written");
    assert_eq!(std::fs::read_to_string(fixture.path("data/token")).unwrap(), "SECRET");
    let script = "echo x > $TMPDIR/f && cat $TMPDIR/f; echo y > /dev/shm/pb-$$ && cat /dev/shm/pb-$$; rm /dev/shm/pb-$$
        pwd; ulimit -c; echo z > /dev/null && echo null";
    let here = fixture.path("project");
    assert_eq!(running.told("run", script).await, format!("x\ny\n{here}\n0\nnull\n"));
    assert_eq!(running.told("connect", port(&own)).await, denied);
    assert_eq!(running.told("connect", port(&other)).await, "connected");
    let names = running.told("run", "env | sed 's/=.*//' | grep -c CARGO").await;
    assert_eq!(names, "0\n");
    running.pools.shut_down().await;
}

#[tokio::test]
async fn a_worker_has_no_port_of_other_workers() {
    if lacks_landlock(4) {
        return;
    }
    for is_warm in [false, true] {
        let fixture = Fixture::new();
        let running = fixture.start(|pool| pool.is_warm = is_warm).await;
        let ports = fixture.ports.ports();
        let denied = io::ErrorKind::PermissionDenied.to_string();
        let mut own = Vec::new();
        for port in ports {
            let (connected, bound) = (running.told("connect", *port).await, running.told("bind", *port).await);
            assert_eq!(connected == denied, bound == denied, "{port}: {connected} {bound}");
            if bound != denied {
                own.push(*port);
            }
        }
        // The stand-in that was asked has its two; those that are forked share what their pool has.
        let expected = if is_warm { 4 } else { 2 };
        assert_eq!(own.len(), expected, "warm: {is_warm}: {own:?} of {ports:?}");
        assert_eq!(running.told("bind", 0).await, "bound");
        running.pools.shut_down().await;
    }
}

#[tokio::test]
async fn a_killed_server_takes_its_workers_along() {
    let fixture = Fixture::new();
    let mut server = tokio::process::Command::new(jailer());
    server.arg("pool").arg(fixture.dir.path()).arg(&fixture.mark).stdout(Stdio::null()).kill_on_drop(true);
    let mut server = server.spawn().unwrap();
    // The server and three workers.
    let marked = Marked::at_least(4, &fixture.mark).await;
    kill(server.id().unwrap().try_into().unwrap());
    let took = marked.ended().await;
    println!("gone {took:?} after their server");
    until("those born meanwhile ended too", || Marked::find(&fixture.mark).count() == 0).await;
    server.wait().await.unwrap();
}

#[tokio::test]
async fn forked_workers_end_with_what_they_were_forked_from() {
    let fixture = Fixture::new();
    let running = fixture.start(|pool| (pool.count, pool.is_warm) = (4, true)).await;
    let pids: Vec<Value> = join_all((0..4).map(|_| running.told("pid", Value::Null))).await;
    let known: Vec<i32> = running.pids().into_iter().map(number_inside).collect();
    assert!(pids.iter().all(|pid| known.iter().any(|known| pid == known)), "{pids:?} {known:?}");
    // Four workers and the program they come from.
    assert_eq!(Marked::find(&fixture.mark).count(), 5);
    let before = running.pids();
    let parent = parent_of(before[0]);
    assert!(before.iter().all(|pid| parent_of(*pid) == parent));
    kill(parent);
    until("all are replaced", || {
        let now = running.pids();
        now.len() == 4 && now.iter().all(|pid| !before.contains(pid))
    })
    .await;
    assert!(running.told("pid", Value::Null).await.is_number());
    running.pools.shut_down().await;
    until("all are gone", || Marked::find(&fixture.mark).count() == 0).await;
}

fn parent_of(pid: i32) -> i32 {
    let Ok(stat) = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) else { return 0 };
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    rest.split_ascii_whitespace().nth(1).and_then(|parent| parent.parse().ok()).unwrap_or_default()
}

#[tokio::test]
async fn large_values_pass_through() {
    let fixture = Fixture::new();
    let running = fixture.start(|pool| pool.count = 1).await;
    let bytes = Bytes::from(vec![7; 16 * 1024 * 1024]);
    let began = Instant::now();
    let output = running.call("s", "echo", Value::Null, Some(bytes.clone())).await;
    println!("16 MiB there and back in {:?}", began.elapsed());
    assert_eq!(output.data.as_ref().unwrap().binary, Some(bytes));
    let began = Instant::now();
    for number in 0..1000 {
        assert!(!running.call("s", "echo", json!(number), None).await.is_error);
    }
    println!("1,000 calls one after the other in {:?}", began.elapsed());
    running.pools.shut_down().await;
}
