//! The metrics of this crate.

use metrics::{Counter, Gauge, Histogram};

const WORKERS_READY: &str = "patchboard_workers_ready";
const WORKERS_WANTED: &str = "patchboard_workers_wanted";
const QUEUE_LENGTH: &str = "patchboard_worker_queue_length";
const QUEUE_DURATION: &str = "patchboard_worker_queue_duration_seconds";
const CALLS_TOTAL: &str = "patchboard_worker_calls_total";
const WORKERS_REPLACED: &str = "patchboard_workers_replaced_total";
const EVENTS_DROPPED: &str = "patchboard_worker_events_dropped_total";

/// Metrics of one pool; handles are looked up once, so that a call only increments them.
#[derive(Clone)]
pub(crate) struct PoolMetrics {
    pub(crate) ready: Gauge,
    pub(crate) queued: Gauge,
    /// Queueing time of calls that had to wait.
    pub(crate) queue_seconds: Histogram,
    pub(crate) succeeded: Counter,
    /// The tool itself failed.
    pub(crate) failed: Counter,
    /// The tool gave no response.
    pub(crate) lost: Counter,
    pub(crate) timed_out: Counter,
    pub(crate) queue_timeout: Counter,
    pub(crate) refused: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) crashed: Counter,
    pub(crate) recycled: Counter,
    pub(crate) events_dropped: Counter,
}

impl std::fmt::Debug for PoolMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PoolMeters")
    }
}

impl PoolMetrics {
    /// `pool` must be a name of the configuration.
    pub(crate) fn new(pool: &str, target: u32) -> Self {
        let pool = pool.to_owned();
        let call = |outcome: &'static str| metrics::counter!(CALLS_TOTAL, "pool" => pool.clone(), "outcome" => outcome);
        let replaced = |why: &'static str| metrics::counter!(WORKERS_REPLACED, "pool" => pool.clone(), "reason" => why);
        metrics::gauge!(WORKERS_WANTED, "pool" => pool.clone()).set(f64::from(target));
        Self {
            ready: metrics::gauge!(WORKERS_READY, "pool" => pool.clone()),
            queued: metrics::gauge!(QUEUE_LENGTH, "pool" => pool.clone()),
            queue_seconds: metrics::histogram!(QUEUE_DURATION, "pool" => pool.clone()),
            succeeded: call("succeeded"),
            failed: call("failed"),
            lost: call("lost"),
            timed_out: call("timed_out"),
            queue_timeout: call("queue_timeout"),
            refused: call("refused"),
            cancelled: call("cancelled"),
            crashed: replaced("crashed"),
            recycled: replaced("recycled"),
            events_dropped: metrics::counter!(EVENTS_DROPPED, "pool" => pool.clone()),
        }
    }
}
