//! Pools of worker processes: external programs, mostly Python, that offer tools over gRPC. The server starts, watches,
//! calls and replaces them.
//!
//! * `dispatch` – assigns calls to workers and queues them; synchronous. `pool` – one pool, as a `ToolHost` around the
//!   dispatcher.
//! * `call` – one call, from its permit to its output; `request`, `response` – conversion between wire messages and
//!   core types.
//! * `supervisor` – keeps one slot of the pool filled; `start` – brings a worker up until it takes calls; `watch` –
//!   waits for the event that ends it; `fork_server` – workers forked from a program that has preloaded everything.
//! * `platform`, `machine` – processes and sockets; `connection` – the gRPC connection; `command`, `ready_file`,
//!   `output_tail` – the command line and environment of a worker, its announcement, its standard output and error.
//! * `unregistered` – calls of tools that workers run but never registered.
//! * `ports` – the block of ports reserved for workers; `events` – telemetry sent by workers.
//!
//! A worker is third-party code: everything it sends is bounded, and it can exit at any moment.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use patchboard_core::bridge::{TelemetryBus, WorkerSecret};
use patchboard_core::extensions::WorkerLine;
use patchboard_core::port::{Clock, IdGenerator, ToolHost, UnregisteredTools, WorkerSupervisor};
use patchboard_core::worker::{PoolReport, WorkerId, WorkerTool};
use secrecy::SecretString;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

mod call;
mod command;
mod connection;
mod dispatch;
mod events;
pub(crate) mod folder;
mod fork_server;
mod machine;
mod output_tail;
mod pinned;
mod platform;
mod pool;
mod ports;
mod ready_file;
mod request;
mod response;
mod start;
mod stream;
mod supervisor;
mod tools;
mod unregistered;
mod watch;

pub use dispatch::Affinity;
pub use pinned::ApprovedPool;
pub use ports::PortBlock;
pub use unregistered::UnregisteredPolicy;

use crate::launch::LaunchMode;
use folder::SocketFolder;
use machine::OsPlatform;
use platform::WorkerPlatform;
use pool::WorkerPool;

/// One `[[pool]]` of the configuration.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Also the prefix of tools whose plain name is already taken.
    pub name: Arc<str>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Number of workers to keep running.
    pub count: u32,
    pub working_folder: PathBuf,
    /// Added to `PATH`, `HOME`, the locale and the variables of the protocol; overrides all of these.
    pub env: BTreeMap<String, SecretString>,
    /// Concurrent calls per worker; `None` uses what the worker reports, else the default.
    pub capacity: Option<u32>,
    pub affinity: Affinity,
    /// The longest time a call may wait for a worker.
    pub queue_timeout: Duration,
    /// Queued calls; further calls are refused.
    pub max_queue: usize,
    /// A worker older than this is replaced.
    pub max_age: Option<Duration>,
    /// A worker is replaced after this many calls.
    pub max_requests: Option<u64>,
    /// A worker is replaced when its process tree uses more bytes than this.
    pub max_memory: Option<u64>,
    /// The longest time from the start of a worker until it reports that it is ready.
    pub start_timeout: Duration,
    /// Fork workers from one program that has preloaded everything.
    pub is_warm: bool,
    /// Paths that workers may write to besides their private folders.
    pub writable: Vec<PathBuf>,
    /// An existing folder that only this pool uses, for the bytecode cache of workers whose script lies where agents
    /// may write.
    pub compiled: Option<PathBuf>,
    /// Allocations of a worker process beyond this many bytes fail.
    pub memory_limit: Option<u64>,
    /// Whether workers may be called by tool names that they never registered.
    pub unregistered: UnregisteredPolicy,
    /// Timeout of a call that specifies none.
    pub call_timeout: Duration,
    /// Timeout of a streaming call that specifies none.
    pub stream_timeout: Duration,
}

impl PoolOptions {
    /// The defaults of the configuration.
    pub fn new(name: impl Into<Arc<str>>, command: Vec<String>, working_folder: PathBuf) -> Self {
        Self {
            name: name.into(),
            command,
            count: 1,
            working_folder,
            env: BTreeMap::new(),
            capacity: None,
            affinity: Affinity::Hint,
            queue_timeout: Duration::from_secs(10),
            max_queue: 1000,
            max_age: None,
            max_requests: None,
            max_memory: None,
            start_timeout: Duration::from_secs(30),
            is_warm: false,
            writable: Vec::new(),
            compiled: None,
            memory_limit: None,
            unregistered: UnregisteredPolicy::default(),
            call_timeout: Duration::from_millis(298_800),
            stream_timeout: Duration::from_secs(900),
        }
    }
}

/// Dependencies of the pools.
#[derive(Debug)]
pub struct PoolDeps {
    pub launch: LaunchMode,
    pub callbacks: Arc<dyn CallbackServer>,
    /// Ports for callbacks and workers; other jails cannot use them.
    pub ports: PortBlock,
    pub telemetry: TelemetryBus,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdGenerator>,
    pub tracker: TaskTracker,
    /// Ends all workers.
    pub stop: CancellationToken,
    /// The parent of the folder that holds the sockets. It must not lie beneath a protected path, and must be short:
    /// the path of a Unix socket has at most 107 bytes.
    pub scratch: PathBuf,
    /// Whether calls that carry pickled values are forwarded.
    pub allow_pickle: bool,
}

/// Opens the loopback port that a worker calls back on and creates the worker's secret. The port is closed when the
/// returned listener is dropped.
pub trait CallbackServer: Send + Sync + fmt::Debug {
    fn open<'a>(&'a self, worker: &'a WorkerId, port: u16) -> BoxFuture<'a, io::Result<CallbackListener>>;
}

#[derive(Debug)]
pub struct CallbackListener {
    pub address: SocketAddr,
    pub secret: WorkerSecret,
    pub close_guard: DropGuard,
}

/// All configured pools.
#[derive(Debug)]
pub struct WorkerPools {
    pools: Vec<Arc<WorkerPool>>,
    /// Tasks of this module alone, so that `shut_down` can wait for them.
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// State shared by all pools.
#[derive(Debug)]
struct PoolContext {
    platform: Arc<dyn WorkerPlatform>,
    callbacks: Arc<dyn CallbackServer>,
    ports: PortBlock,
    telemetry: TelemetryBus,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGenerator>,
    allow_pickle: bool,
    /// Identifies this run of the server; part of every worker's command line.
    run_id: String,
    folder: SocketFolder,
    /// Tasks spawned here also count for the server's tracker.
    tasks: SharedTaskTracker,
}

/// Spawns tasks that both this module and the whole server wait for.
#[derive(Debug, Clone)]
struct SharedTaskTracker {
    own: TaskTracker,
    server: TaskTracker,
}

impl SharedTaskTracker {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.server.spawn(self.own.track_future(task));
    }
}

/// Longer than the grace period of a worker that is asked to exit, plus a second for the cleanup after it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(9);

impl WorkerPools {
    /// Returns at once; workers start in the background. All end when `stop` is cancelled. Fails if the folder for
    /// their sockets cannot be created.
    pub fn start(pools: Vec<PoolOptions>, deps: PoolDeps) -> io::Result<Arc<Self>> {
        let platform = OsPlatform { launch: deps.launch.clone(), tasks: deps.tracker.clone() };
        Self::start_in(Arc::new(platform), pools, deps)
    }

    fn start_in(platform: Arc<dyn WorkerPlatform>, pools: Vec<PoolOptions>, deps: PoolDeps) -> io::Result<Arc<Self>> {
        let own = TaskTracker::new();
        let stop = deps.stop.child_token();
        let context = Arc::new(PoolContext {
            platform,
            callbacks: deps.callbacks,
            ports: deps.ports,
            telemetry: deps.telemetry,
            run_id: run_id(&*deps.clock),
            clock: deps.clock,
            ids: deps.ids,
            allow_pickle: deps.allow_pickle,
            folder: SocketFolder::make(&deps.scratch)?,
            tasks: SharedTaskTracker { own: own.clone(), server: deps.tracker },
        });
        let start_one = |(number, options)| {
            let pool = Arc::new(WorkerPool::new(number, options, context.clone()));
            supervisor::start(&pool, &stop);
            pool
        };
        let pools = pools.into_iter().enumerate().map(start_one).collect();
        Ok(Arc::new(Self { pools, tasks: own, stop }))
    }

    /// One tool host per pool, in the order of the configuration.
    pub fn hosts(&self) -> Vec<Arc<dyn ToolHost>> {
        let mut hosts: Vec<Arc<dyn ToolHost>> = Vec::with_capacity(self.pools.len());
        for pool in &self.pools {
            hosts.push(pool.clone());
        }
        hosts
    }

    /// Completes when every pool has had a ready worker or has failed to start one.
    pub fn first_start_done(&self) -> impl Future<Output = ()> + Send + use<> {
        let first_starts: Vec<CancellationToken> =
            self.pools.iter().map(|pool| pool.first_start_done().clone()).collect();
        async move {
            join_all(first_starts.iter().map(CancellationToken::cancelled)).await;
        }
    }

    /// Returns true if every pool has all its workers within `timeout`.
    pub async fn wait_until_ready(&self, timeout: Duration) -> bool {
        let waiting = join_all(self.pools.iter().map(|pool| pool.wait_until_full()));
        tokio::time::timeout(timeout, waiting).await.is_ok()
    }

    /// Stops all workers and waits until they have ended. Workers that do not exit when asked are killed.
    pub async fn shut_down(&self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!("workers did not exit in time; they are left to their supervisors");
        }
    }
}

impl WorkerSupervisor for WorkerPools {
    fn report(&self) -> Vec<PoolReport> {
        self.pools.iter().map(|pool| pool.report()).collect()
    }

    fn restart(&self, pool: &str, worker: Option<&str>) -> Option<Vec<Arc<str>>> {
        self.pools.iter().find(|known| **known.name() == *pool).map(|pool| pool.restart(worker))
    }

    fn lines(&self, worker: &str, after: u64) -> Option<Vec<WorkerLine>> {
        self.pools.iter().find_map(|pool| pool.lines(worker, after))
    }

    fn tools_registered(&self, worker: &WorkerId, tools: Vec<WorkerTool>) {
        if !self.pools.iter().any(|pool| pool.register_tools(worker, &tools)) {
            tracing::debug!(worker.id = %worker, "tools registered by an unknown worker");
        }
    }

    fn session_closed(&self, session: &str) {
        for pool in &self.pools {
            pool.end_session(session);
        }
    }

    fn pools_taking_unregistered(&self) -> Vec<Arc<dyn UnregisteredTools>> {
        let open = self.pools.iter().filter(|pool| pool.runs_unregistered() == Some(true));
        open.map(|pool| -> Arc<dyn UnregisteredTools> { Arc::new(unregistered::OpenPoolHost(pool.clone())) }).collect()
    }
}

/// Seven base-36 digits: five of the time and two of the process id, which distinguish two servers that start in the
/// same second.
fn run_id(clock: &dyn Clock) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let seconds = clock.now().as_second().unsigned_abs();
    let digit = |number: u64| char::from(DIGITS.get((number % 36) as usize).copied().unwrap_or(b'0'));
    let time = (0..5).rev().map(|position| digit(seconds / 36_u64.pow(position)));
    let process = u64::from(std::process::id());
    time.chain([digit(process / 36), digit(process)]).collect()
}

#[cfg(test)]
mod tests;
