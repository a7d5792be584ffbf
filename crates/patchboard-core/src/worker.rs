//! Workers and bridge clients: ids, registered tools, sessions, and reports about pools.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::tool::{ToolEffect, ToolKind, ToolSpec, ToolTraits, UnknownOutcomePolicy};

/// One worker process; its replacement has another id.
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

/// A tool as registered by a worker or client. Names, sizes and schemas are validated by the bridge surface.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerTool {
    pub name: Arc<str>,
    pub description: Arc<str>,
    pub input_schema: Arc<serde_json::Value>,
    /// Parameter names in registration order, which a schema does not preserve.
    pub parameters: Vec<Arc<str>>,
    pub streams: bool,
    pub metadata: BTreeMap<String, String>,
}

impl WorkerTool {
    /// The tool's specification. A tool that is not marked `read_only` counts as writing.
    pub fn spec(&self) -> ToolSpec {
        let is_true = |key: &str| self.metadata.get(key).is_some_and(|value| value == "true");
        let timeout = self.metadata.get("timeout_ms").and_then(|text| text.parse().ok()).filter(|&ms: &u64| ms > 0);
        ToolSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
            effect: if is_true("read_only") { ToolEffect::ReadOnly } else { ToolEffect::Writes },
            unknown_outcome: match is_true("read_only") || is_true("idempotent") {
                true => UnknownOutcomePolicy::Retry,
                false => UnknownOutcomePolicy::Ask,
            },
            timeout: timeout.map(Duration::from_millis),
            kind: ToolKind::Worker,
            traits: Some(Arc::new(ToolTraits {
                streams: self.streams,
                parameters: self.parameters.clone(),
                cacheable: is_true("cacheable"),
                metadata: self.metadata.clone(),
            })),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionConfig {
    pub caching: bool,
    /// How long a cached result may be returned.
    pub cache_ttl: Duration,
    /// Publish telemetry events for each call in this session.
    pub telemetry: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionReport {
    pub id: Arc<str>,
    pub metadata: BTreeMap<String, String>,
    pub created_at: Timestamp,
    pub tools: u32,
}

/// State of a pool of workers with the same tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolReport {
    pub name: Arc<str>,
    pub workers: Vec<WorkerReport>,
    /// Target number of workers.
    pub target_workers: u32,
    pub queued: u32,
    pub tools: u32,
    pub succeeded: u64,
    pub failed: u64,
    /// Calls that exceeded their deadline while running, or timed out in the queue and never ran.
    pub timed_out: u64,
    /// Calls refused because the queue was full; they never ran.
    pub refused: u64,
    /// Workers that exited or were replaced because they did not respond.
    pub restarts: u64,
    /// Workers replaced because of their age, number of calls or memory.
    pub recycled: u64,
    /// The last error, in a sentence.
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
    /// Of the whole process tree.
    pub memory_bytes: Option<u64>,
    pub since: Timestamp,
    /// Address of its gRPC server.
    pub address: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkerState {
    Starting,
    Ready,
    /// Finishes its calls and gets no new ones.
    Draining,
    /// Exited; a replacement starts after a delay.
    BackingOff,
}
