//! Whose turn it is: so many calls work at once, some more wait, and the rest is told so at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// For every call at work so many may wait.
const WAITING_PER_CALL: usize = 8;
/// For every call at work one may have stepped aside, waiting for another tool.
pub(crate) const ALIVE_PER_CALL: usize = 2;

/// One place in so many, and at least one where there are two, is never a single plugin's.
const SHARED_FRACTION: usize = 4;

#[derive(Debug)]
pub(crate) struct CallSlots {
    calls: usize,
    working: Arc<Semaphore>,
    /// At work or stepped aside: each holds an instance.
    alive: Arc<Semaphore>,
    /// At work, stepped aside or waiting.
    admitted: Arc<Semaphore>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SlotError {
    QueueFull,
    /// It waited as long as it would have been allowed to work.
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

    /// Are all turns given back? A call's is a moment after its answer, when its instance is gone.
    #[cfg(test)]
    pub(crate) fn are_free(&self) -> bool {
        self.admitted.available_permits() == self.working.available_permits() * (1 + WAITING_PER_CALL)
            && self.alive.available_permits() == self.working.available_permits() * ALIVE_PER_CALL
    }

    /// What one plugin may have of the places: never all of them, so that its calls cannot keep others' from their turn.
    pub(crate) fn quota(&self) -> PluginQuota {
        let others = (self.calls / SHARED_FRACTION).max(1);
        PluginQuota(Arc::new(Semaphore::new(self.calls.saturating_sub(others).max(1))))
    }

    pub(crate) async fn acquire(
        &self,
        share: &PluginQuota,
        longest: Duration,
        stop: &CancellationToken,
    ) -> Result<CallSlot, SlotError> {
        let admitted = self.admitted.clone().try_acquire_owned().map_err(|_| SlotError::QueueFull)?;
        let from = PermitSource { quota: share.0.clone(), working: self.working.clone() };
        let place = match from.try_acquire() {
            Some(place) => place,
            None => tokio::select! {
                biased;
                () = stop.cancelled() => return Err(SlotError::Cancelled),
                place = tokio::time::timeout(longest, from.acquire()) => match place {
                    Ok(place) => place.ok_or(SlotError::Cancelled)?,
                    Err(_) => return Err(SlotError::TimedOut),
                },
            },
        };
        // Not waited for: those who hold it may be waiting for this very call.
        let alive = self.alive.clone().try_acquire_owned().map_err(|_| SlotError::QueueFull)?;
        Ok(CallSlot { work_permit: Some(place), source: from, _alive: alive, _admitted: admitted })
    }
}

/// What one plugin has of the places.
#[derive(Debug, Clone)]
pub(crate) struct PluginQuota(Arc<Semaphore>);

/// Where a place is taken from: first of the plugin's own, then of all, so that whoever waits for the first holds none
/// of the others'.
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

    /// The semaphores are never closed.
    async fn acquire(&self) -> Option<WorkPermit> {
        let own = self.quota.clone().acquire_owned().await.ok()?;
        Some((own, self.working.clone().acquire_owned().await.ok()?))
    }
}

/// The right to work; given back when dropped.
#[derive(Debug)]
pub(crate) struct CallSlot {
    /// `None` while others have it.
    work_permit: Option<WorkPermit>,
    source: PermitSource,
    _alive: OwnedSemaphorePermit,
    _admitted: OwnedSemaphorePermit,
}

impl CallSlot {
    /// Waits for something that may itself need a plugin's turn, such as another tool. Meanwhile this turn is others':
    /// plugins that call plugins would otherwise wait for each other until their time is up.
    pub(crate) async fn release_while<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.work_permit = None;
        let done = work.await;
        // Bounded by the time of the call that waits here.
        self.work_permit = self.source.acquire().await;
        done
    }
}

#[cfg(test)]
mod tests;
