//! Pools of worker processes: programs, mostly Python, that offer tools over gRPC. The server starts them, watches them,
//! calls them and replaces them.
//!
//! * `dispatch` – who runs where and who waits; synchronous. `pool` – a pool as a `ToolHost` around it.
//! * `call` – one call, from its seat to its answer; `answer`, `request` – what goes over the wire as what the core knows.
//! * `keeper` – keeps one seat of the pool taken; `start` – from nothing to a worker that takes calls; `watch` – what may
//!   happen to it then; `warm` – workers forked from a program that has loaded everything.
//! * `world`, `machine` – processes and sockets; `link` – the connection; `command`, `ready`, `tail` – what a worker is
//!   told, what it announces, what it says.
//! * `unregistered` – tools that workers run and never registered.
//! * `ports` – the block of ports that is theirs; `events` – what workers tell about themselves.
//!
//! A worker is somebody else's program: everything it says is bounded, and it can end at any moment.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use patchboard_core::bridge::{TelemetryBus, WorkerSecret};
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
pub use pinned::PinnedPool;
pub use ports::PortBlock;
pub use unregistered::UnregisteredPolicy;

use crate::launch::LaunchMode;
use folder::RunFolder;
use machine::OsPlatform;
use platform::WorkerPlatform;
use pool::WorkerPool;

/// A pool of the configuration.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Stands before the names of tools that are taken.
    pub name: Arc<str>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// How many workers there should be.
    pub count: u32,
    pub working_folder: PathBuf,
    /// Besides `PATH`, `HOME`, the locale and what the protocol asks for; wins over all of these.
    pub env: BTreeMap<String, SecretString>,
    /// Calls a worker takes at once; `None` for what the worker says, or what is usual.
    pub capacity: Option<u32>,
    pub affinity: Affinity,
    /// How long a call may wait for a worker.
    pub queue_timeout: Duration,
    /// Calls that may wait at once; further ones are refused.
    pub max_queue: usize,
    /// A worker is replaced when it is older.
    pub max_age: Option<Duration>,
    /// A worker is replaced after so many calls.
    pub max_requests: Option<u64>,
    /// A worker is replaced when it and its children hold more bytes.
    pub max_memory: Option<u64>,
    /// From the start of a worker to the word that it is ready.
    pub start_timeout: Duration,
    /// Fork workers from one program that has loaded everything.
    pub is_warm: bool,
    /// What workers may change besides their private folders.
    pub writable: Vec<PathBuf>,
    /// An existing folder that only this pool uses, for compiled code of workers whose script lies where agents may write.
    pub compiled: Option<PathBuf>,
    /// Allocations of a worker process beyond this fail.
    pub memory_limit: Option<u64>,
    /// May workers be called by names that they never registered?
    pub unregistered: UnregisteredPolicy,
    /// For a call that does not say how long it may take.
    pub call_timeout: Duration,
    /// The same for one whose result comes piece by piece.
    pub stream_timeout: Duration,
}

impl PoolOptions {
    /// What the configuration assumes where it says nothing.
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

/// What pools need from the rest of the program.
#[derive(Debug)]
pub struct PoolDeps {
    pub launch: LaunchMode,
    pub callbacks: Arc<dyn CallbackServer>,
    /// Of their lines and their own; the jails of others are closed to them.
    pub ports: PortBlock,
    pub signals: TelemetryBus,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdGenerator>,
    pub tracker: TaskTracker,
    /// Ends all workers.
    pub stop: CancellationToken,
    /// Where a folder for sockets is made. It must not be among what is protected, and short: a socket's path has at
    /// most 107 bytes.
    pub scratch: PathBuf,
    /// May calls that carry pickled values be passed on?
    pub allow_pickle: bool,
}

/// Opens the loopback port a worker calls back on, and makes the secret of the worker; closed when the answer is dropped.
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
    /// Of this module alone, so that its end can be waited for.
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What all pools share.
#[derive(Debug)]
struct PoolContext {
    platform: Arc<dyn WorkerPlatform>,
    callbacks: Arc<dyn CallbackServer>,
    ports: PortBlock,
    signals: TelemetryBus,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGenerator>,
    allow_pickle: bool,
    /// Of this run of the server; every worker has it on its command line.
    run_id: String,
    folder: RunFolder,
    /// Runs on the server's tracker too.
    tasks: SharedTaskTracker,
}

/// Tasks that both this module and the whole server wait for.
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

/// Longer than the grace of a worker that is asked to end, and a second for what follows.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(9);

impl WorkerPools {
    /// Returns at once; workers start in the background. All end when `stop` is cancelled. `Err` when there is no place
    /// for their sockets.
    pub fn start(pools: Vec<PoolOptions>, deps: PoolDeps) -> io::Result<Arc<Self>> {
        let machine = OsPlatform { launch: deps.launch.clone(), tasks: deps.tracker.clone() };
        Self::start_in(Arc::new(machine), pools, deps)
    }

    fn start_in(world: Arc<dyn WorkerPlatform>, pools: Vec<PoolOptions>, deps: PoolDeps) -> io::Result<Arc<Self>> {
        let own = TaskTracker::new();
        let stop = deps.stop.child_token();
        let common = Arc::new(PoolContext {
            platform: world,
            callbacks: deps.callbacks,
            ports: deps.ports,
            signals: deps.signals,
            run_id: run_id(&*deps.clock),
            clock: deps.clock,
            ids: deps.ids,
            allow_pickle: deps.allow_pickle,
            folder: RunFolder::make(&deps.scratch)?,
            tasks: SharedTaskTracker { own: own.clone(), server: deps.tracker },
        });
        let start_one = |(number, options)| {
            let pool = Arc::new(WorkerPool::new(number, options, common.clone()));
            supervisor::start(&pool, &stop);
            pool
        };
        let pools = pools.into_iter().enumerate().map(start_one).collect();
        Ok(Arc::new(Self { pools, tasks: own, stop }))
    }

    /// A host for each pool, in the order of the configuration.
    pub fn hosts(&self) -> Vec<Arc<dyn ToolHost>> {
        let mut hosts: Vec<Arc<dyn ToolHost>> = Vec::with_capacity(self.pools.len());
        for pool in &self.pools {
            hosts.push(pool.clone());
        }
        hosts
    }

    /// Every pool has had a worker that was ready, or has failed to start one.
    pub fn first_start_done(&self) -> impl Future<Output = ()> + Send + use<> {
        let settled: Vec<CancellationToken> = self.pools.iter().map(|pool| pool.first_start_done().clone()).collect();
        async move {
            join_all(settled.iter().map(CancellationToken::cancelled)).await;
        }
    }

    /// Has every pool all its workers within that time?
    pub async fn wait_until_ready(&self, timeout: Duration) -> bool {
        let waiting = join_all(self.pools.iter().map(|pool| pool.wait_until_full()));
        tokio::time::timeout(timeout, waiting).await.is_ok()
    }

    /// Ends all workers and waits for it. Those that do not end when asked are killed.
    pub async fn shut_down(&self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!("workers do not end; they are left to their supervisors");
        }
    }
}

impl WorkerSupervisor for WorkerPools {
    fn report(&self) -> Vec<PoolReport> {
        self.pools.iter().map(|pool| pool.report()).collect()
    }

    fn tools_registered(&self, worker: &WorkerId, tools: Vec<WorkerTool>) {
        if !self.pools.iter().any(|pool| pool.register_tools(worker, &tools)) {
            tracing::debug!(worker.id = %worker, "a worker that is gone says which tools it has");
        }
    }

    fn session_closed(&self, session: &str) {
        for pool in &self.pools {
            pool.end_session(session);
        }
    }

    fn pools_taking_unregistered(&self) -> Vec<Arc<dyn UnregisteredTools>> {
        let open = self.pools.iter().filter(|pool| pool.runs_unregistered() == Some(true));
        open.map(|pool| -> Arc<dyn UnregisteredTools> { Arc::new(unregistered::UnregisteredToolHost(pool.clone())) })
            .collect()
    }
}

/// Seven digits of base 36: the time, and a little of this process to tell two servers apart that start together.
fn run_id(clock: &dyn Clock) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let seconds = clock.now().as_second().unsigned_abs();
    let digit = |number: u64| char::from(DIGITS.get((number % 36) as usize).copied().unwrap_or(b'0'));
    let time = (0..5).rev().map(|place| digit(seconds / 36_u64.pow(place)));
    let process = u64::from(std::process::id());
    time.chain([digit(process / 36), digit(process)]).collect()
}

#[cfg(test)]
mod tests;
