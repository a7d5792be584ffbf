//! Asynchronous audit trail for calls that do not wait for their audit row: rows are written in batches and in order
//! after the call has returned. Written rows survive the death of the process; those of its last milliseconds may be
//! lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::backoff::BackoffSchedule;
use crate::store::{AuditRow, Store, StoreError, StoreWrite, WriteBatch};

/// Rows queued; past this `add` waits for room.
const MAX_PENDING_ROWS: usize = 8192;
/// Rows written in one batch.
const MAX_BATCH_ROWS: usize = 512;
/// How long rows are collected before a batch is written: one commit for many calls, as a commit costs more than a
/// call.
const BATCH_DELAY: Duration = Duration::from_millis(20);
/// Pauses before a store that fails is tried again. After the last the rows are lost, and the log says how many: calls
/// do not stand still for ever because their record cannot be kept.
const RETRY_PAUSES: BackoffSchedule = BackoffSchedule::listed(&[
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(2),
])
.with_max_retries(4);

/// A cheap-to-clone handle.
#[derive(Debug, Clone)]
pub struct AuditTrail(Arc<TrailState>);

#[derive(Debug)]
struct TrailState {
    store: Arc<dyn Store>,
    tracker: TaskTracker,
    pending: Mutex<PendingRows>,
    space_freed: Notify,
}

#[derive(Debug, Default)]
struct PendingRows {
    rows: Vec<AuditRow>,
    is_being_written: bool,
}

impl AuditTrail {
    /// The writer is a task of `tracker`, so that waiting for the tracker waits for the trail too.
    pub fn new(store: Arc<dyn Store>, tracker: TaskTracker) -> Self {
        let pending = Mutex::default();
        Self(Arc::new(TrailState { store, tracker, pending, space_freed: Notify::new() }))
    }

    pub async fn add(&self, row: AuditRow) {
        loop {
            // Created before the check, so that a notification in between is not missed.
            let space_freed = self.0.space_freed.notified();
            {
                let mut pending = self.pending();
                if pending.rows.len() < MAX_PENDING_ROWS {
                    pending.rows.push(row);
                    if !pending.is_being_written {
                        pending.is_being_written = true;
                        let guard = WriterGuard(self.clone());
                        self.0.tracker.spawn(async move { guard.0.write().await });
                    }
                    return;
                }
            }
            space_freed.await;
        }
    }

    async fn write(&self) {
        loop {
            if self.pending().rows.len() < MAX_BATCH_ROWS {
                tokio::time::sleep(BATCH_DELAY).await;
            }
            let rows: Vec<AuditRow> = {
                let mut pending = self.pending();
                if pending.rows.is_empty() {
                    pending.is_being_written = false;
                    return;
                }
                let count = pending.rows.len().min(MAX_BATCH_ROWS);
                pending.rows.drain(..count).collect()
            };
            self.0.space_freed.notify_waiters();
            let count = rows.len();
            let writes: Vec<StoreWrite> = rows.into_iter().map(StoreWrite::Audit).collect();
            if let Err(error) = self.commit(writes).await {
                tracing::error!(rows = count, %error, "calls could not be written to the audit trail");
            }
        }
    }

    async fn commit(&self, writes: Vec<StoreWrite>) -> Result<(), StoreError> {
        for pause in RETRY_PAUSES.retries() {
            let batch = WriteBatch::delta(writes.clone());
            match self.0.store.commit(batch).await {
                Ok(()) => return Ok(()),
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(error) => tracing::debug!(%error, "writing to the audit trail failed; retrying"),
            }
            tokio::time::sleep(pause).await;
        }
        self.0.store.commit(WriteBatch::delta(writes)).await
    }

    fn pending(&self) -> MutexGuard<'_, PendingRows> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resets the state if the writer panics, so that the next row starts a new writer.
struct WriterGuard(AuditTrail);

impl Drop for WriterGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.pending().is_being_written = false;
            self.0.0.space_freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
