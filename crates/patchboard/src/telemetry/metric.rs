//! All metrics of the server itself, each named once. Labels come from closed sets.

use metrics::{counter, gauge};

pub(super) fn spans_sent(count: usize) {
    counter!("patchboard_trace_spans_sent_total").increment(count as u64);
}

/// `reason` comes from a closed set: `full`, `refused`.
pub(super) fn spans_dropped(reason: &'static str, count: usize) {
    counter!("patchboard_trace_spans_dropped_total", "reason" => reason).increment(count as u64);
}

/// `kind` comes from a closed set.
pub(super) fn worker_event(kind: &'static str) {
    counter!("patchboard_telemetry_events_total", "kind" => kind).increment(1);
}

pub(super) fn worker_events_missed(count: u64) {
    counter!("patchboard_telemetry_events_missed_total").increment(count);
}

/// Pool names come from the configuration.
pub(super) fn worker_memory(pool: &str, bytes: f64) {
    gauge!("patchboard_worker_sampled_memory_bytes", "pool" => pool.to_owned()).set(bytes);
}

pub(super) fn worker_cpu(pool: &str, percent: f64) {
    gauge!("patchboard_worker_sampled_cpu_percent", "pool" => pool.to_owned()).set(percent);
}
