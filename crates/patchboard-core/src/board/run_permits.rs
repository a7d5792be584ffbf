//! Places for runs at work. Their number can change while all of them are taken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::BoardError;

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
    /// Taken places there should not be any more: they go when they are given back.
    surplus: usize,
}

/// Dropping it gives it back.
#[derive(Debug)]
pub(super) struct RunPermit {
    permit: Option<OwnedSemaphorePermit>,
    pool: RunPermits,
}

impl RunPermits {
    pub(super) fn new(places: usize) -> Self {
        let size = Mutex::new(PermitCount { capacity: places, surplus: 0 });
        Self(Arc::new(PermitPool { free: Arc::new(Semaphore::new(places)), count: size }))
    }

    /// In the order of asking.
    pub(super) async fn acquire(&self) -> Result<RunPermit, BoardError> {
        let permit = self.0.free.clone().acquire_owned().await.map_err(|_| BoardError::shutting_down())?;
        Ok(RunPermit { permit: Some(permit), pool: self.clone() })
    }

    pub(super) fn try_acquire(&self) -> Option<RunPermit> {
        let permit = self.0.free.clone().try_acquire_owned().ok()?;
        Some(RunPermit { permit: Some(permit), pool: self.clone() })
    }

    /// Fewer places cut nothing: none is given out again until there are no more of them than there should be.
    pub(super) fn resize(&self, wanted: usize) {
        let mut size = self.count();
        if wanted > size.capacity {
            let more = wanted - size.capacity;
            let kept = more.min(size.surplus);
            size.surplus -= kept;
            self.0.free.add_permits(more - kept);
        } else {
            let fewer = size.capacity - wanted;
            size.surplus += fewer - self.0.free.forget_permits(fewer);
        }
        size.capacity = wanted;
    }

    fn count(&self) -> MutexGuard<'_, PermitCount> {
        self.0.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        let mut size = self.pool.count();
        if size.surplus > 0
            && let Some(permit) = self.permit.take()
        {
            size.surplus -= 1;
            permit.forget();
        }
    }
}
