//! The audit trail of calls that need not wait for it: rows are written behind the answer, together and in order. They
//! survive the death of the process once written; what was asked for in its last milliseconds may not be.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::backoff::BackoffSchedule;
use crate::port::{AuditRow, Durability, Store, StoreError, StoreWrite, WriteBatch};

/// Rows that may wait; whoever comes then waits for room.
const MAX_WAITING: usize = 8192;
/// Rows written at once.
const MAX_BATCH_ROWS: usize = 512;
/// Rows gather for so long before they are written: one commit for many calls, which would otherwise cost more than they.
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

/// Cheap to clone.
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
    /// Its writing is a task of `tracker`, so that whoever waits for that waits for the trail too.
    pub fn new(store: Arc<dyn Store>, tracker: TaskTracker) -> Self {
        let waiting = Mutex::default();
        Self(Arc::new(TrailState { store, tracker, pending: waiting, space_freed: Notify::new() }))
    }

    pub async fn add(&self, row: AuditRow) {
        loop {
            let room = self.0.space_freed.notified();
            {
                let mut waiting = self.pending();
                if waiting.rows.len() < MAX_WAITING {
                    waiting.rows.push(row);
                    if !waiting.is_being_written {
                        waiting.is_being_written = true;
                        let writing = WriterGuard(self.clone());
                        self.0.tracker.spawn(async move { writing.0.write().await });
                    }
                    return;
                }
            }
            room.await;
        }
    }

    async fn write(&self) {
        loop {
            if self.pending().rows.len() < MAX_BATCH_ROWS {
                tokio::time::sleep(BATCH_DELAY).await;
            }
            let rows: Vec<AuditRow> = {
                let mut waiting = self.pending();
                if waiting.rows.is_empty() {
                    waiting.is_being_written = false;
                    return;
                }
                let count = waiting.rows.len().min(MAX_BATCH_ROWS);
                waiting.rows.drain(..count).collect()
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
            let batch = WriteBatch { durability: Durability::Delta, writes: writes.clone() };
            match self.0.store.commit(batch).await {
                Ok(()) => return Ok(()),
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(error) => tracing::debug!(%error, "the audit trail is written again in a moment"),
            }
            tokio::time::sleep(pause).await;
        }
        self.0.store.commit(WriteBatch { durability: Durability::Delta, writes }).await
    }

    fn pending(&self) -> MutexGuard<'_, PendingRows> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// However the writing ends, the next row begins it again.
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
