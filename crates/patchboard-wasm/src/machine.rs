//! The engine for guests: compiler, memory, threads of its own, and an epoch ticker that makes guests yield. Created
//! with the first plugin; knows nothing of plugins beyond running a call.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::engine::{admission, config, ticker};
use crate::rights::PluginLimits;
use crate::state::CallState;
use crate::telemetry::CallMetrics;

mod cache;

use cache::CompileCache;

/// Guests have a lower priority than the server's own threads.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
/// More threads would only cost memory: guest calls are few and short.
const MAX_THREADS: usize = 8;
/// Threads for concurrent compilations.
const COMPILER_THREADS: usize = 2;
/// A guest occupies a thread for a whole tick; with tokio's defaults, timers and new calls would wait for dozens of
/// ticks.
const POLLS_BETWEEN_EVENTS: u32 = 4;

#[derive(Clone)]
pub(crate) struct PluginMachine {
    shared: Arc<MachineShared>,
}

struct MachineShared {
    engine: Engine,
    linker: Linker<CallState>,
    limits: PluginLimits,
    slots: admission::CallSlots,
    ticker: ticker::EpochTicker,
    cache: Option<CompileCache>,
    metrics: CallMetrics,
    /// `None` only during drop.
    runtime: Option<Runtime>,
    handle: Handle,
}

impl PluginMachine {
    /// `cache` is the folder for compiled code.
    pub(crate) fn start(limits: PluginLimits, cache: Option<PathBuf>) -> Result<Self, String> {
        let engine = config::engine(&limits).map_err(|error| format!("cannot set up the plugin machine: {error:#}"))?;
        Self::with_engine(engine, limits, cache)
    }

    /// Like `start`, without pooled memory.
    #[cfg(test)]
    pub(crate) fn start_on_demand(limits: PluginLimits) -> Result<Self, String> {
        let engine = Engine::new(&config::on_demand(&limits)).map_err(|error| format!("{error:#}"))?;
        Self::with_engine(engine, limits, None)
    }

    fn with_engine(engine: Engine, limits: PluginLimits, cache: Option<PathBuf>) -> Result<Self, String> {
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)
            .and_then(|()| crate::imports::add_to_linker(&mut linker))
            .map_err(|error| format!("cannot set up what plugins import: {error:#}"))?;
        let no_thread = |error: std::io::Error| format!("cannot start the threads of plugins: {error}");
        let runtime = runtime().map_err(no_thread)?;
        let inner = MachineShared {
            ticker: ticker::EpochTicker::start(engine.clone()).map_err(no_thread)?,
            slots: admission::CallSlots::new(limits.calls),
            cache: cache.map(|folder| CompileCache::new(folder, &engine)),
            metrics: CallMetrics::new(),
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            engine,
            linker,
            limits,
        };
        Ok(Self { shared: Arc::new(inner) })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn linker(&self) -> &Linker<CallState> {
        &self.shared.linker
    }

    pub(crate) fn limits(&self) -> &PluginLimits {
        &self.shared.limits
    }

    pub(crate) fn cache(&self) -> Option<&CompileCache> {
        self.shared.cache.as_ref()
    }

    pub(crate) fn metrics(&self) -> &CallMetrics {
        &self.shared.metrics
    }

    pub(crate) fn slots(&self) -> &admission::CallSlots {
        &self.shared.slots
    }

    pub(crate) fn tick(&self) -> ticker::TickGuard {
        self.shared.ticker.tick()
    }

    /// Plugins are compiled and guests run on these threads, except for the inline slice in `PluginMachine::run`.
    pub(crate) fn threads(&self) -> &Handle {
        &self.shared.handle
    }
}

impl std::fmt::Debug for PluginMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginMachine").field("limits", &self.shared.limits).finish_non_exhaustive()
    }
}

impl Drop for MachineShared {
    fn drop(&mut self) {
        // Dropping a runtime blocks on its threads, which must not happen on one of them.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    let numbers = AtomicUsize::new(0);
    let threads = available_parallelism().map_or(2, std::num::NonZeroUsize::get).clamp(2, MAX_THREADS);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(COMPILER_THREADS)
        .thread_keep_alive(Duration::from_secs(1))
        .thread_name_fn(move || format!("wasm-{}", numbers.fetch_add(1, Ordering::Relaxed)))
        .on_thread_start(lower_priority)
        .event_interval(POLLS_BETWEEN_EVENTS)
        .global_queue_interval(POLLS_BETWEEN_EVENTS)
        .enable_time()
        .enable_io()
        .build()
}

/// On Linux the nice value applies per thread; elsewhere it would apply to the whole server.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "plugin threads stay at the server's priority");
    }
}
