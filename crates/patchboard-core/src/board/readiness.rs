//! Readiness: the server can serve only if the store accepts writes.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Board;
use crate::error::BoardError;
use crate::store::{KvNamespace, StoreWrite, WriteBatch};

/// A successful write stays valid as evidence for this long.
const READY_INTERVAL: Duration = Duration::from_secs(5);
/// Key of the probe write.
const READY_KEY: &str = "ready";

impl Board {
    /// Whether the board can serve now. Writes a small probe to the store, at most once per `READY_INTERVAL`.
    pub async fn is_ready(&self) -> Result<(), BoardError> {
        if self.is_draining() {
            return Err(BoardError::shutting_down());
        }
        let is_fresh = |written: Instant| written.elapsed() < READY_INTERVAL;
        if self.last_write_at().is_some_and(is_fresh) {
            return Ok(());
        }
        let at = self.0.clock.now();
        let value = Some(at.to_string().into_bytes());
        let probe = StoreWrite::put(KvNamespace::Server, READY_KEY.into(), value, at);
        self.0.store.commit(WriteBatch::delta(vec![probe])).await?;
        *self.last_write_at() = Some(Instant::now());
        Ok(())
    }

    fn last_write_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.last_write_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
