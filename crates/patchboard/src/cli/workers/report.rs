//! The server's pool reports, parsed from JSON. Missing fields are left empty, so that a server of another version can
//! be read.

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
