//! Workers and the programs that use them: ids, the tools they offer, their sessions, and reports about pools.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::tool::{ToolEffect, ToolKind, ToolSpec, ToolTraits, UnknownOutcomePolicy};

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
                true => UnknownOutcomePolicy::Retry,
                false => UnknownOutcomePolicy::Ask,
            },
            timeout: timeout.map(Duration::from_millis),
            kind: ToolKind::Worker,
            traits: Some(Arc::new(ToolTraits {
                streams: self.streams,
                parameters: self.parameters.clone(),
                cacheable: says("cacheable"),
                metadata: self.metadata.clone(),
            })),
        }
    }
}

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
