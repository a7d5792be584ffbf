//! Admission control: a bounded number of calls run, a bounded number wait, further ones are refused at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Waiting calls per running call.
const WAITING_PER_CALL: usize = 8;
/// Instances per running call: as many again may be suspended while they wait for another tool.
pub(crate) const ALIVE_PER_CALL: usize = 2;

/// One permit in this many, and at least one if there are two, cannot be taken by a single plugin.
const SHARED_FRACTION: usize = 4;

#[derive(Debug)]
pub(crate) struct CallSlots {
    calls: usize,
    working: Arc<Semaphore>,
    /// Running or suspended calls: each holds an instance.
    alive: Arc<Semaphore>,
    /// Running, suspended or waiting calls.
    admitted: Arc<Semaphore>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SlotError {
    QueueFull,
    /// It waited as long as it might have run.
    TimedOut,
    Cancelled,
}

impl CallSlots {
    pub(crate) fn new(calls: usize) -> Self {
        let calls = calls.clamp(1, Semaphore::MAX_PERMITS / (WAITING_PER_CALL + ALIVE_PER_CALL));
        Self {
            calls,
            working: Arc::new(Semaphore::new(calls)),
            alive: Arc::new(Semaphore::new(calls * ALIVE_PER_CALL)),
            admitted: Arc::new(Semaphore::new(calls * (1 + WAITING_PER_CALL))),
        }
    }

    /// Whether all permits are released. A call releases its permit slightly after its result, when its instance is
    /// dropped.
    #[cfg(test)]
    pub(crate) fn are_free(&self) -> bool {
        self.admitted.available_permits() == self.working.available_permits() * (1 + WAITING_PER_CALL)
            && self.alive.available_permits() == self.working.available_permits() * ALIVE_PER_CALL
    }

    /// The share of permits one plugin may hold: never all, so that its calls cannot starve those of others.
    pub(crate) fn quota(&self) -> PluginQuota {
        let reserved = (self.calls / SHARED_FRACTION).max(1);
        PluginQuota(Arc::new(Semaphore::new(self.calls.saturating_sub(reserved).max(1))))
    }

    pub(crate) async fn acquire(
        &self,
        quota: &PluginQuota,
        timeout: Duration,
        stop: &CancellationToken,
    ) -> Result<CallSlot, SlotError> {
        let admitted = self.admitted.clone().try_acquire_owned().map_err(|_| SlotError::QueueFull)?;
        let source = PermitSource { quota: quota.0.clone(), working: self.working.clone() };
        let permit = match source.try_acquire() {
            Some(permit) => permit,
            None => tokio::select! {
                biased;
                () = stop.cancelled() => return Err(SlotError::Cancelled),
                permit = tokio::time::timeout(timeout, source.acquire()) => match permit {
                    Ok(permit) => permit.ok_or(SlotError::Cancelled)?,
                    Err(_) => return Err(SlotError::TimedOut),
                },
            },
        };
        // Does not wait: suspended calls may be waiting for this very call.
        let alive = self.alive.clone().try_acquire_owned().map_err(|_| SlotError::QueueFull)?;
        Ok(CallSlot { work_permit: Some(permit), source, _alive: alive, _admitted: admitted })
    }
}

/// One plugin's share of the permits.
#[derive(Debug, Clone)]
pub(crate) struct PluginQuota(Arc<Semaphore>);

/// Acquires the plugin's own permit first, then a shared one, so that a call waiting for its quota holds no shared
/// permit.
#[derive(Debug)]
struct PermitSource {
    quota: Arc<Semaphore>,
    working: Arc<Semaphore>,
}

type WorkPermit = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl PermitSource {
    fn try_acquire(&self) -> Option<WorkPermit> {
        Some((self.quota.clone().try_acquire_owned().ok()?, self.working.clone().try_acquire_owned().ok()?))
    }

    /// Returns `None` only if a semaphore is closed, which never happens.
    async fn acquire(&self) -> Option<WorkPermit> {
        let quota_permit = self.quota.clone().acquire_owned().await.ok()?;
        Some((quota_permit, self.working.clone().acquire_owned().await.ok()?))
    }
}

/// The permits of a call; released on drop.
#[derive(Debug)]
pub(crate) struct CallSlot {
    /// `None` while it is lent to other calls.
    work_permit: Option<WorkPermit>,
    source: PermitSource,
    _alive: OwnedSemaphorePermit,
    _admitted: OwnedSemaphorePermit,
}

impl CallSlot {
    /// Waits for work that may itself need a plugin call, such as another tool. The work permit is released meanwhile:
    /// otherwise plugins that call plugins would deadlock until their timeout.
    pub(crate) async fn release_while<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.work_permit = None;
        let output = work.await;
        // Bounded by the timeout of the surrounding call.
        self.work_permit = self.source.acquire().await;
        output
    }
}

#[cfg(test)]
mod tests;
