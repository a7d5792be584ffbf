//! Permits for concurrent runs. The limit can change while permits are held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_core::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::BoardError;
use crate::waits::WorkSlot;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct RunPermits(Arc<PermitPool>);

#[derive(Debug)]
struct PermitPool {
    free: Arc<Semaphore>,
    count: Mutex<PermitCount>,
}

#[derive(Debug)]
struct PermitCount {
    capacity: usize,
    /// Permits held beyond the current capacity; they are forgotten when they are returned.
    surplus: usize,
}

/// Returns to the pool on drop.
#[derive(Debug)]
pub(super) struct RunPermit {
    permit: Option<OwnedSemaphorePermit>,
    pool: RunPermits,
}

impl RunPermits {
    pub(super) fn new(capacity: usize) -> Self {
        let count = Mutex::new(PermitCount { capacity, surplus: 0 });
        Self(Arc::new(PermitPool { free: Arc::new(Semaphore::new(capacity)), count }))
    }

    /// Waits for a permit, in FIFO order.
    pub(super) async fn acquire(&self) -> Result<RunPermit, BoardError> {
        let permit = self.0.free.clone().acquire_owned().await.map_err(|_| BoardError::shutting_down())?;
        Ok(RunPermit { permit: Some(permit), pool: self.clone() })
    }

    pub(super) fn try_acquire(&self) -> Option<RunPermit> {
        let permit = self.0.free.clone().try_acquire_owned().ok()?;
        Some(RunPermit { permit: Some(permit), pool: self.clone() })
    }

    /// Shrinking revokes no permit: none is issued until the number held is below the new capacity.
    pub(super) fn resize(&self, capacity: usize) {
        let mut count = self.count();
        if capacity > count.capacity {
            let more = capacity - count.capacity;
            let reused = more.min(count.surplus);
            count.surplus -= reused;
            self.0.free.add_permits(more - reused);
        } else {
            let fewer = count.capacity - capacity;
            count.surplus += fewer - self.0.free.forget_permits(fewer);
        }
        count.capacity = capacity;
    }

    fn count(&self) -> MutexGuard<'_, PermitCount> {
        self.0.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permit of one run, given back while the run waits for an answer. Dropping it returns the permit.
#[derive(Debug)]
pub(super) struct PermitSlot {
    pool: RunPermits,
    permit: Mutex<Option<RunPermit>>,
}

impl PermitSlot {
    pub(super) fn new(pool: RunPermits, permit: Option<RunPermit>) -> Arc<Self> {
        Arc::new(Self { pool, permit: Mutex::new(permit) })
    }

    fn permit(&self) -> MutexGuard<'_, Option<RunPermit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkSlot for PermitSlot {
    fn release(&self) {
        self.permit().take();
    }

    fn reacquire(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // The pool is never closed; without a permit the run goes on all the same.
            let permit = self.pool.acquire().await.ok();
            *self.permit() = permit;
        })
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        let mut count = self.pool.count();
        if count.surplus > 0
            && let Some(permit) = self.permit.take()
        {
            count.surplus -= 1;
            permit.forget();
        }
    }
}
