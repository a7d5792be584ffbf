//! Programs on the board: their sessions, the tools of their workers, what they keep, and what they tell about
//! themselves. Knows nothing of how they are reached.
//!
//! - `sessions`: who has a session, for how long, with which tools; `life`: what happens when one begins and ends.
//! - `tools`: what calls of worker tools go through besides the one path of every call; `cache`: results that may be
//!   given out again.
//! - `unregistered`: tools of workers that nobody registered.
//! - `secret`: what a worker and the server show each other. `variables`: what a session keeps; `signal`: what is told to whoever listens; `agents`: agents as tools.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::error::BoardError;
use crate::id::SessionKey;
use crate::port::{Clock, Store, WorkerSupervisor};
use crate::tool::policy::is_open_to_programs;
use crate::tool::registry::ToolSet;
use crate::tool::{ApprovalMode, ApprovalPolicy, Glob, ToolEffect, ToolSpec};

pub mod agents;
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
pub(crate) use tools::WorkerTools;
pub(crate) use unregistered::{NameContext, NameForm};
pub(crate) use variables::VariableTools;

use cache::ResultCache;
use sessions::SessionTable;

/// One worker process, from its start to its end; a replacement has another id.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub Arc<str>);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A tool as a program offers it. Names, sizes and schemas are checked where it enters.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerTool {
    pub name: Arc<str>,
    pub description: Arc<str>,
    pub input_schema: Arc<serde_json::Value>,
    /// Names of its parameters in the order it tells them, which a schema does not keep.
    pub parameters: Vec<Arc<str>>,
    pub streams: bool,
    pub metadata: BTreeMap<String, String>,
}

impl WorkerTool {
    /// What the board makes of it. A tool of which nobody says that it only reads may change things.
    pub fn spec(&self) -> ToolSpec {
        let says = |key: &str| self.metadata.get(key).is_some_and(|value| value == "true");
        let timeout = self.metadata.get("timeout_ms").and_then(|text| text.parse().ok()).filter(|&ms: &u64| ms > 0);
        ToolSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
            effect: if says("read_only") { ToolEffect::ReadOnly } else { ToolEffect::Writes },
            unknown_outcome: match says("read_only") || says("idempotent") {
                true => crate::tool::UnknownOutcomePolicy::Retry,
                false => crate::tool::UnknownOutcomePolicy::Ask,
            },
            timeout: timeout.map(Duration::from_millis),
            kind: WORKER_KIND,
            traits: Some(Arc::new(crate::tool::ToolTraits {
                streams: self.streams,
                parameters: self.parameters.clone(),
                cacheable: says("cacheable"),
                metadata: self.metadata.clone(),
            })),
        }
    }
}

/// As many folders as programs' calls commonly work in at once.
const MAX_CACHED_TOOL_SETS: usize = 8;

/// How long a call of a tool that is not there waits for pools that are still starting.
const POOL_START_TIMEOUT: Duration = Duration::from_secs(5);

/// The kind of tools that live in workers.
pub const WORKER_KIND: &str = "worker";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionConfig {
    pub caching: bool,
    /// How long a result may be given out again.
    pub cache_ttl: Duration,
    /// Tell of each call in this session.
    pub telemetry: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionReport {
    pub id: Arc<str>,
    pub metadata: BTreeMap<String, String>,
    pub created_at: Timestamp,
    pub tools: u32,
}

/// A pool of workers that offer the same tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolReport {
    pub name: Arc<str>,
    pub workers: Vec<WorkerReport>,
    /// How many there should be.
    pub target_workers: u32,
    pub queued: u32,
    pub tools: u32,
    pub succeeded: u64,
    pub failed: u64,
    /// Passed their deadline while they ran, or waited too long for a worker and never ran.
    pub timed_out: u64,
    /// Found the queue full and never ran.
    pub refused: u64,
    /// Workers that died or were replaced because they did not answer.
    pub restarts: u64,
    /// Workers replaced because of their age, their work or their size.
    pub recycled: u64,
    /// What went wrong last, in a sentence.
    pub last_error: Option<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerReport {
    pub id: WorkerId,
    pub state: WorkerState,
    pub pid: Option<u32>,
    pub in_flight: u32,
    pub capacity: u32,
    pub calls: u64,
    /// Of its whole process tree.
    pub memory_bytes: Option<u64>,
    pub since: Timestamp,
    /// Where it is called.
    pub address: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkerState {
    Starting,
    Ready,
    /// Finishes what it has and gets nothing new.
    Draining,
    /// Gone; the next one starts after a pause.
    BackingOff,
}

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
        signals: TelemetryBus,
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
            telemetry: signals,
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
        let Some(settling) = self.0.workers.as_ref().and_then(|workers| workers.startup_complete()) else {
            return false;
        };
        // Whoever has not come by then is found when it has.
        drop(tokio::time::timeout(POOL_START_TIMEOUT, settling).await);
        true
    }

    pub(crate) fn workers(&self) -> Vec<PoolReport> {
        self.0.workers.as_ref().map(|workers| workers.report()).unwrap_or_default()
    }

    /// What of `all` programs may reach. Everything they call leads through this, whatever it calls in turn.
    pub(crate) fn exposed_tools(&self, all: &ToolSet, policy: &ApprovalPolicy) -> ToolSet {
        let mut offers = self.0.exposed_cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = offers.iter().find(|(before, _)| before.is_same(all)) {
            return known.clone();
        }
        let reachable = all.filter(|spec| self.is_exposed(spec, policy));
        offers.truncate(MAX_CACHED_TOOL_SETS - 1);
        offers.push_front((all.clone(), reachable.clone()));
        reachable
    }

    /// May programs see it? What policy denies them is not there for them.
    fn is_exposed(&self, spec: &ToolSpec, policy: &ApprovalPolicy) -> bool {
        let is_named = || self.0.options.expose.iter().any(|glob| glob.matches(&spec.name));
        let is_offered = spec.kind == WORKER_KIND || is_open_to_programs(spec) || is_named();
        is_offered && policy.decide(spec, crate::access::Surface::Bridge) != ApprovalMode::Deny
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
