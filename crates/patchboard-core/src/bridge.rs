//! The bridge: sessions of clients, tools of workers, session variables and telemetry. Independent of the transport.
//!
//! - `sessions`: the session table with its expiry and tools; `session_lifecycle`: opening and cleaning up.
//! - `tools`: what worker calls do besides the common executor path; `cache`: reusable results.
//! - `unregistered`: worker tools that were never registered.
//! - `secret`: mutual authentication of a worker and the server; `variables`: per-session variables;
//!   `telemetry_events`: events for subscribers.

use crate::extensions::WorkerLine;
use crate::worker::PoolReport;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::approval::policy::is_open_to_programs;
use crate::approval::policy::{ApprovalMode, ApprovalPolicy};
use crate::error::BoardError;
use crate::executor::registry::ToolSet;
use crate::id::SessionKey;
use crate::port::{Clock, WorkerSupervisor};
use crate::store::Store;
use crate::tool::{Glob, ToolKind, ToolSpec};

mod cache;
mod secret;
mod session_lifecycle;
mod sessions;
pub mod telemetry_events;
mod tools;
mod unregistered;
pub mod variables;

pub use secret::WorkerSecret;
pub(crate) use sessions::{BridgeCaller, clipped};
pub use telemetry_events::{EventFilter, MeasuredValue, TelemetryBus, TelemetryEvent};
pub(crate) use tools::WorkerToolHost;
pub(crate) use unregistered::{NameContext, NameForm};
pub(crate) use variables::VariableToolHost;

use cache::ResultCache;
use sessions::SessionTable;

/// Bridge calls seldom use more working folders than this at once.
const MAX_CACHED_TOOL_SETS: usize = 8;

/// How long a call of an unknown tool waits for pools that are starting.
const POOL_START_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct BridgeOptions {
    pub session_ttl: Duration,
    pub max_sessions: usize,
    /// Server tools that clients may call, besides those that are open to every client.
    pub expose: Vec<Glob>,
}

impl Default for BridgeOptions {
    fn default() -> Self {
        Self { session_ttl: Duration::from_secs(3600), max_sessions: 10_000, expose: Vec::new() }
    }
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Bridge(Arc<BridgeShared>);

#[derive(Debug)]
struct BridgeShared {
    options: BridgeOptions,
    sessions: Mutex<SessionTable>,
    /// Notified when the cleanup of an ended session has finished.
    cleanup_done: Notify,
    /// Lock order: `sessions` before `cache`.
    cache: Mutex<ResultCache>,
    /// Pairs of a full tool set and its exposed subset, newest first.
    exposed_cache: Mutex<VecDeque<(ToolSet, ToolSet)>>,
    variables: variables::VariableStore,
    telemetry: TelemetryBus,
    workers: Option<Arc<dyn WorkerSupervisor>>,
    clock: Arc<dyn Clock>,
}

impl Bridge {
    pub(crate) fn new(
        options: BridgeOptions,
        workers: Option<Arc<dyn WorkerSupervisor>>,
        telemetry: TelemetryBus,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let sessions = SessionTable::new(options.session_ttl, options.max_sessions);
        Self(Arc::new(BridgeShared {
            options,
            sessions: Mutex::new(sessions),
            cleanup_done: Notify::new(),
            cache: Mutex::default(),
            exposed_cache: Mutex::default(),
            variables: variables::VariableStore::new(store, clock.clone()),
            telemetry,
            workers,
            clock,
        }))
    }

    pub(crate) fn telemetry(&self) -> &TelemetryBus {
        &self.0.telemetry
    }

    pub(crate) fn variables(&self) -> &variables::VariableStore {
        &self.0.variables
    }

    /// Waits a bounded time for pools that are starting. Returns `false` at once if none are.
    pub(crate) async fn wait_for_pools(&self) -> bool {
        let Some(startup) = self.0.workers.as_ref().and_then(|workers| workers.startup_complete()) else {
            return false;
        };
        // A pool that starts later is found by later calls.
        drop(tokio::time::timeout(POOL_START_TIMEOUT, startup).await);
        true
    }

    pub(crate) fn restart_workers(&self, pool: &str, worker: Option<&str>) -> Option<Vec<Arc<str>>> {
        self.0.workers.as_ref()?.restart(pool, worker)
    }

    pub(crate) fn worker_lines(&self, worker: &str, after: u64) -> Option<Vec<WorkerLine>> {
        self.0.workers.as_ref()?.lines(worker, after)
    }

    pub(crate) fn workers(&self) -> Vec<PoolReport> {
        self.0.workers.as_ref().map(|workers| workers.report()).unwrap_or_default()
    }

    /// The subset of `all` that clients may reach. Every tool reached from a client's call, nested calls included,
    /// passes this filter.
    pub(crate) fn exposed_tools(&self, all: &ToolSet, policy: &ApprovalPolicy) -> ToolSet {
        let mut cache = self.0.exposed_cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tool_set)) = cache.iter().find(|(cached_from, _)| cached_from.is_same(all)) {
            return tool_set.clone();
        }
        let reachable = all.filter(|spec| self.is_exposed(spec, policy));
        cache.truncate(MAX_CACHED_TOOL_SETS - 1);
        cache.push_front((all.clone(), reachable.clone()));
        reachable
    }

    /// Whether clients may see it. Tools that the policy denies are hidden.
    fn is_exposed(&self, spec: &ToolSpec, policy: &ApprovalPolicy) -> bool {
        let is_named = || self.0.options.expose.iter().any(|glob| glob.matches(&spec.name));
        let is_offered = spec.kind == ToolKind::Worker || is_open_to_programs(spec) || is_named();
        is_offered && policy.decide(spec, crate::caller::Surface::Bridge) != ApprovalMode::Deny
    }

    fn sessions(&self) -> MutexGuard<'_, SessionTable> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> MutexGuard<'_, ResultCache> {
        self.0.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session key of a bridge session.
pub(crate) fn session_key(id: &str) -> SessionKey {
    SessionKey::bridge(id)
}

pub(crate) fn session_not_found(id: &str) -> BoardError {
    sessions::not_found(id)
}
