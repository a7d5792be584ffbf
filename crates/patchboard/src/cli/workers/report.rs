//! What the server says about its pools, read from its JSON. What is missing is left empty: an older or newer server is
//! no reason to say nothing at all.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct PoolStatus {
    pub(super) name: String,
    pub(super) ready: u64,
    pub(super) wanted: u64,
    pub(super) queued: u64,
    pub(super) tools: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) timed_out: u64,
    pub(super) refused: u64,
    pub(super) restarts: u64,
    pub(super) recycled: u64,
    pub(super) trouble: Option<String>,
    pub(super) workers: Vec<WorkerStatus>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct WorkerStatus {
    pub(super) id: String,
    pub(super) state: String,
    pub(super) pid: Option<u64>,
    pub(super) in_flight: u64,
    pub(super) capacity: u64,
    pub(super) calls: u64,
    pub(super) memory_bytes: Option<u64>,
    pub(super) since: String,
}

pub(super) fn parse(value: &Value) -> anyhow::Result<PoolStatus> {
    PoolStatus::deserialize(value).map_err(|error| anyhow::anyhow!("the server's answer cannot be read: {error}"))
}
