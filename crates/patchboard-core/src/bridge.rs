//! Programs on the board: their sessions, the tools of their workers, their variables and their telemetry. Must not
//! know the transport by which programs connect.
//!
//! - `sessions`: the table of sessions; `session_lifecycle`: opening and ending of sessions, with cleanup.
//! - `tools`: wraps a pool's tools with session ids, caching and telemetry; `cache`: the results that may be reused.
//! - `unregistered`: tools that workers run without having registered them.
//! - `secret`: the secret by which a worker and the server authenticate each other; [`variables`]: the variables of a
//!   session, and the tools for them; [`telemetry_events`]: events for current subscribers.

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

/// As many folders as programs' calls commonly work in at once.
const MAX_CACHED_TOOL_SETS: usize = 8;

/// How long a call of a tool that is not there waits for pools that are still starting.
const POOL_START_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct BridgeOptions {
    pub session_ttl: Duration,
    pub max_sessions: usize,
    /// Tools of the server that programs may call besides those offered to every one.
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
    /// Told when a session that was over is cleaned up.
    cleanup_done: Notify,
    /// Never locked before `sessions`.
    cache: Mutex<ResultCache>,
    /// What there was, and what of it programs may reach, newest first.
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

    /// Waits for pools that are still starting, but not for long. `false` when none are.
    pub(crate) async fn wait_for_pools(&self) -> bool {
        let Some(startup) = self.0.workers.as_ref().and_then(|workers| workers.startup_complete()) else {
            return false;
        };
        // Whoever has not come by then is found when it has.
        drop(tokio::time::timeout(POOL_START_TIMEOUT, startup).await);
        true
    }

    pub(crate) fn workers(&self) -> Vec<PoolReport> {
        self.0.workers.as_ref().map(|workers| workers.report()).unwrap_or_default()
    }

    /// What of `all` programs may reach. Everything they call leads through this, whatever it calls in turn.
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

    /// May programs see it? What policy denies them is not there for them.
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

/// A program's session among all sessions.
pub(crate) fn session_key(id: &str) -> SessionKey {
    SessionKey::bridge(id)
}

pub(crate) fn session_not_found(id: &str) -> BoardError {
    sessions::not_found(id)
}
