//! Parses reports of pools and workers.

use patchboard_core::worker::{PoolReport, WorkerId, WorkerReport, WorkerState};
use serde_json::Value;

use super::{Read, each, noon, number, text_of};

pub(super) fn pool(json: &Value) -> Read<PoolReport> {
    Ok(PoolReport {
        name: text_of(&json["name"]).into(),
        workers: each(&json["workers"], worker)?,
        target_workers: small(&json["wanted"])?,
        queued: small(&json["queued"])?,
        tools: small(&json["tools"])?,
        succeeded: number(&json["succeeded"]),
        failed: number(&json["failed"]),
        timed_out: number(&json["timed_out"]),
        refused: number(&json["refused"]),
        restarts: number(&json["restarts"]),
        recycled: number(&json["recycled"]),
        last_error: json["trouble"].as_str().map(Into::into),
    })
}

fn worker(json: &Value) -> Read<WorkerReport> {
    Ok(WorkerReport {
        id: WorkerId(text_of(&json["id"]).into()),
        state: match text_of(&json["state"]) {
            "starting" => WorkerState::Starting,
            "ready" => WorkerState::Ready,
            "draining" => WorkerState::Draining,
            "backing_off" => WorkerState::BackingOff,
            other => return Err(format!("no worker is `{other}`")),
        },
        pid: json["pid"].is_u64().then(|| small(&json["pid"])).transpose()?,
        in_flight: small(&json["in_flight"])?,
        capacity: small(&json["capacity"])?,
        calls: number(&json["calls"]),
        memory_bytes: json["memory"].as_u64(),
        since: noon()?,
        address: json["address"].as_str().map(Into::into),
    })
}

fn small(json: &Value) -> Read<u32> {
    u32::try_from(number(json)).map_err(|_| format!("too large: {json}"))
}
