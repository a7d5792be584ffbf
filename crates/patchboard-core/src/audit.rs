//! The audit trail of calls that need not wait for it: rows are written behind the answer, together and in order. They
//! survive the death of the process once written; what was asked for in its last milliseconds may not be.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::port::{AuditRow, Batch, Durability, Store, StoreError, Write};

/// Rows that may wait; whoever comes then waits for room.
const MAX_WAITING: usize = 8192;
/// Rows written at once.
const AT_ONCE: usize = 512;
/// Rows gather for so long before they are written: one commit for many calls, which would otherwise cost more than they.
const GATHER: Duration = Duration::from_millis(20);
/// Pauses before a store that fails is tried again. After the last the rows are lost, and the log says how many: calls
/// do not stand still for ever because their record cannot be kept.
const TRY_AGAIN: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(2)];

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct AuditTrail(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    tracker: TaskTracker,
    waiting: Mutex<Waiting>,
    room: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    rows: Vec<AuditRow>,
    is_being_written: bool,
}

impl AuditTrail {
    /// Its writing is a task of `tracker`, so that whoever waits for that waits for the trail too.
    pub fn new(store: Arc<dyn Store>, tracker: TaskTracker) -> Self {
        let waiting = Mutex::default();
        Self(Arc::new(Inner { store, tracker, waiting, room: Notify::new() }))
    }

    pub async fn add(&self, row: AuditRow) {
        loop {
            let room = self.0.room.notified();
            {
                let mut waiting = self.waiting();
                if waiting.rows.len() < MAX_WAITING {
                    waiting.rows.push(row);
                    if !waiting.is_being_written {
                        waiting.is_being_written = true;
                        let writing = Writing(self.clone());
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
            if self.waiting().rows.len() < AT_ONCE {
                tokio::time::sleep(GATHER).await;
            }
            let rows: Vec<AuditRow> = {
                let mut waiting = self.waiting();
                if waiting.rows.is_empty() {
                    waiting.is_being_written = false;
                    return;
                }
                let count = waiting.rows.len().min(AT_ONCE);
                waiting.rows.drain(..count).collect()
            };
            self.0.room.notify_waiters();
            let count = rows.len();
            let writes: Vec<Write> = rows.into_iter().map(Write::Audit).collect();
            if let Err(error) = self.commit(writes).await {
                tracing::error!(rows = count, %error, "calls could not be written to the audit trail");
            }
        }
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        for pause in TRY_AGAIN {
            let batch = Batch { durability: Durability::Delta, writes: writes.clone() };
            match self.0.store.commit(batch).await {
                Ok(()) => return Ok(()),
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(error) => tracing::debug!(%error, "the audit trail is written again in a moment"),
            }
            tokio::time::sleep(pause).await;
        }
        self.0.store.commit(Batch { durability: Durability::Delta, writes }).await
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// However the writing ends, the next row begins it again.
struct Writing(AuditTrail);

impl Drop for Writing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.waiting().is_being_written = false;
            self.0.0.room.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
