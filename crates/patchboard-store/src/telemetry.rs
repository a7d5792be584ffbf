//! All metrics of the store; each name occurs only here.

use std::time::Duration;

use metrics::{counter, histogram};

pub(crate) fn group_committed(batches: usize, took: Duration) {
    counter!("patchboard_store_batches_total").increment(batches as u64);
    histogram!("patchboard_store_commit_duration_seconds").record(took.as_secs_f64());
}

pub(crate) fn commits_failed(batches: usize) {
    counter!("patchboard_store_commit_failures_total").increment(batches as u64);
}

/// A commit had to wait for space in the write queue.
pub(crate) fn queue_full() {
    counter!("patchboard_store_queue_full_total").increment(1);
}
