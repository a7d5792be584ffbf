//! The configured worker pools.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use patchboard_config::secrets::random_secret;
use patchboard_config::section::{self, WorkerConfig};
use patchboard_config::{LoadedConfig, Secrets};
use patchboard_core::bridge::{TelemetryBus, WorkerSecret};
use patchboard_core::extensions::WorkerLine;
use patchboard_core::port::{ToolHost, UnregisteredTools, WorkerSupervisor};
use patchboard_core::worker::{PoolReport, WorkerId, WorkerTool};

use patchboard_surfaces::bridge::WorkerListeners;
use patchboard_tools::mcp::{LaunchMode, PinStore};
use patchboard_tools::worker::{
    Affinity, ApprovedPool, CallbackListener, CallbackServer, PoolDeps, PoolOptions, PortBlock, UnregisteredPolicy,
    WorkerPools,
};
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::folders::{ProgramKind, program_folder};
use crate::system::{SystemClock, SystemIds};
use crate::telemetry::Redactor;
use crate::trust::guarded_files::worker_command;

/// The running pools and the listeners for their workers' callbacks.
#[derive(Debug)]
pub(crate) struct RunningPools {
    pub(crate) listeners: WorkerListeners,
    workers: Arc<PooledWorkers>,
    hosts: Vec<Arc<dyn ToolHost>>,
}

/// What pools share with the rest of the server.
pub(super) struct PoolDependencies<'a> {
    pub(super) launch: &'a LaunchMode,
    pub(super) ports: PortBlock,
    pub(super) signals: &'a TelemetryBus,
    pub(super) redactor: &'a Arc<Redactor>,
}

impl RunningPools {
    /// Starts the workers in the background; they wait until the listeners are attached to a bridge, and end with
    /// `stop`.
    pub(super) fn start(
        loaded: &LoadedConfig,
        secrets: &Secrets,
        dependencies: PoolDependencies<'_>,
        pins: Arc<dyn PinStore>,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let config = &loaded.config;
        let PoolDependencies { launch, ports, signals, redactor } = dependencies;
        let listeners = WorkerListeners::default();
        let deps = PoolDeps {
            launch: launch.clone(),
            callbacks: Arc::new(CallbackListenerAdapter(listeners.clone())),
            ports,
            telemetry: signals.clone(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
            tracker: tracker.clone(),
            stop: stop.clone(),
            // Socket paths are limited in length, and workers cannot access the data directory.
            scratch: std::env::temp_dir(),
            allow_pickle: config.bridge.allow_pickle,
        };
        let options = config.workers.iter().map(|worker| pool_options(worker, loaded, secrets));
        let running = WorkerPools::start(options.collect::<anyhow::Result<_>>()?, deps)
            .context("cannot prepare a folder for workers")?;
        let mut pinned = Vec::new();
        let hosts = config.workers.iter().zip(running.hosts()).map(|(worker, pool)| -> Arc<dyn ToolHost> {
            if !worker.pin {
                return pool;
            }
            let host = ApprovedPool::new(worker.name.as_str().into(), pool, pins.clone(), tracker.clone());
            pinned.push(host.clone());
            Arc::new(host)
        });
        let hosts = hosts.collect();
        let workers =
            Arc::new(PooledWorkers { running, pinned, redactor: redactor.clone(), is_settled: Arc::default() });
        let pools = Self { listeners, workers, hosts };
        // Reviews the pins now, so that the first caller need not wait.
        let (settled, stop) = (pools.settled(), stop.clone());
        tracker.spawn(async move { stop.run_until_cancelled(settled).await });
        Ok(pools)
    }

    pub(super) fn hosts(&self) -> Vec<Arc<dyn ToolHost>> {
        self.hosts.clone()
    }

    pub(super) fn workers(&self) -> Arc<dyn WorkerSupervisor> {
        self.workers.clone()
    }

    /// Done when every pool has registered its tools or failed to.
    pub(crate) fn settled(&self) -> BoxFuture<'static, ()> {
        self.workers.settled()
    }

    pub(crate) async fn shut_down(&self) {
        self.workers.running.shut_down().await;
    }
}

/// The worker pools and the pinned hosts that check their tools.
#[derive(Debug)]
struct PooledWorkers {
    running: Arc<WorkerPools>,
    pinned: Vec<ApprovedPool>,
    redactor: Arc<Redactor>,
    is_settled: Arc<AtomicBool>,
}

impl PooledWorkers {
    fn settled(&self) -> BoxFuture<'static, ()> {
        let (settled, pinned, is_settled) =
            (self.running.first_start_done(), self.pinned.clone(), self.is_settled.clone());
        async move {
            settled.await;
            join_all(pinned.iter().map(ApprovedPool::review_tools)).await;
            is_settled.store(true, Ordering::Relaxed);
        }
        .boxed()
    }
}

impl WorkerSupervisor for PooledWorkers {
    fn report(&self) -> Vec<PoolReport> {
        self.running.report()
    }

    fn restart(&self, pool: &str, worker: Option<&str>) -> Option<Vec<Arc<str>>> {
        self.running.restart(pool, worker)
    }

    /// Secrets are removed when lines are read, so that those learned since are too.
    fn lines(&self, worker: &str, after: u64) -> Option<Vec<WorkerLine>> {
        let mut lines = self.running.lines(worker, after)?;
        for line in &mut lines {
            if let Cow::Owned(redacted) = self.redactor.redact_text(&line.text) {
                line.text = redacted;
            }
        }
        Some(lines)
    }

    fn tools_registered(&self, worker: &WorkerId, tools: Vec<WorkerTool>) {
        self.running.tools_registered(worker, tools);
    }

    fn startup_complete(&self) -> Option<BoxFuture<'static, ()>> {
        (!self.is_settled.load(Ordering::Relaxed)).then(|| self.settled())
    }

    fn session_closed(&self, session: &str) {
        self.running.session_closed(session);
    }

    fn pools_taking_unregistered(&self) -> Vec<Arc<dyn UnregisteredTools>> {
        self.running.pools_taking_unregistered()
    }
}

#[derive(Debug)]
struct CallbackListenerAdapter(WorkerListeners);

impl CallbackServer for CallbackListenerAdapter {
    fn open<'a>(&'a self, worker: &'a WorkerId, port: u16) -> BoxFuture<'a, io::Result<CallbackListener>> {
        Box::pin(async move {
            let secret = WorkerSecret::new(random_secret());
            let (address, closer) = self.0.open(worker, port, &secret).await?;
            Ok(CallbackListener { address, secret, close_guard: closer })
        })
    }
}

fn pool_options(worker: &WorkerConfig, loaded: &LoadedConfig, secrets: &Secrets) -> anyhow::Result<PoolOptions> {
    let bridge = &loaded.config.bridge;
    let folder = worker.working_folder.clone().unwrap_or_else(|| loaded.config.runs.working_folder.clone());
    let mut env = secrets.worker_env.get(&worker.name).cloned().unwrap_or_default();
    env.entry("SNAKEPIT_LOG_LEVEL".to_owned()).or_insert_with(|| SecretString::from(worker.log_level.to_string()));
    let compiled = program_folder(&loaded.config.data_dir, ProgramKind::WorkerPool, &worker.name)
        .with_context(|| format!("cannot make a folder for the workers `{}`", worker.name))?;
    Ok(PoolOptions {
        count: worker.count,
        env,
        capacity: worker.capacity,
        affinity: match worker.affinity {
            section::SessionAffinity::Hint => Affinity::Hint,
            section::SessionAffinity::StrictQueue => Affinity::StrictQueue,
            section::SessionAffinity::StrictFailFast => Affinity::StrictFailFast,
        },
        queue_timeout: worker.queue_timeout.unwrap_or(bridge.queue_timeout).into(),
        max_queue: worker.max_queue.unwrap_or(bridge.max_queue) as usize,
        max_age: worker.max_age.map(Into::into),
        max_requests: worker.max_requests,
        max_memory: worker.max_memory.map(|size| size.as_usize() as u64),
        start_timeout: worker.start_timeout.into(),
        is_warm: worker.warm,
        writable: worker.writable.clone(),
        memory_limit: worker.memory_limit.map(|size| size.as_usize() as u64),
        unregistered: match worker.unregistered {
            Some(section::UnregisteredToolPolicy::Allow) => UnregisteredPolicy::Allow,
            Some(section::UnregisteredToolPolicy::Deny) => UnregisteredPolicy::Deny,
            None => UnregisteredPolicy::ByWorker,
        },
        call_timeout: bridge.call_timeout.into(),
        stream_timeout: bridge.stream_timeout.into(),
        compiled: Some(compiled),
        ..PoolOptions::new(worker.name.as_str(), worker_command(worker, loaded), folder)
    })
}
