//! Whether a run waits for an answer. While it does, its time limits and the grace period without followers stand still,
//! and it holds no permit to run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The permit of a run, which is given back while the run waits.
pub trait WorkSlot: Send + Sync + fmt::Debug {
    fn release(&self);

    /// Resolves when the run may work again.
    fn reacquire(&self) -> BoxFuture<'_, ()>;
}

/// Counts the answers that a run or one of its calls waits for. A wait counts for the runs above it too.
#[derive(Debug)]
pub struct RunWaits {
    open: watch::Sender<usize>,
    parent: Option<Arc<RunWaits>>,
    slot: Option<Arc<dyn WorkSlot>>,
}

impl RunWaits {
    pub fn root(slot: Option<Arc<dyn WorkSlot>>) -> Arc<Self> {
        Arc::new(Self { open: watch::Sender::new(0), parent: None, slot })
    }

    /// The waits of a call or a nested run.
    pub fn child(self: &Arc<Self>, slot: Option<Arc<dyn WorkSlot>>) -> Arc<Self> {
        Arc::new(Self { open: watch::Sender::new(0), parent: Some(self.clone()), slot })
    }

    /// Begins to wait for an answer.
    pub fn begin(self: &Arc<Self>) -> WaitGuard {
        for waits in self.self_and_parents() {
            let mut is_first = false;
            waits.open.send_modify(|open| {
                is_first = *open == 0;
                *open += 1;
            });
            if let Some(slot) = waits.slot.as_ref().filter(|_| is_first) {
                slot.release();
            }
        }
        WaitGuard { waits: Some(self.clone()) }
    }

    /// Resolves after `total` of working time: time spent waiting does not count.
    pub async fn working_time(&self, total: Duration) {
        let mut left = total;
        let mut open = self.open.subscribe();
        loop {
            // The sender lives in `self`, so waiting cannot fail.
            if open.wait_for(|open| *open == 0).await.is_err() {
                return;
            }
            let began = Instant::now();
            tokio::select! {
                biased;
                () = tokio::time::sleep(left) => return,
                _ = open.wait_for(|open| *open > 0) => left = left.saturating_sub(began.elapsed()),
            }
        }
    }

    /// Resolves when `condition` does, unless the run begins to wait before: then `condition` is made anew when the
    /// waiting is over.
    pub async fn while_working<F: Future<Output = ()>>(&self, condition: impl Fn() -> F) {
        let mut open = self.open.subscribe();
        loop {
            if open.wait_for(|open| *open == 0).await.is_err() {
                return;
            }
            tokio::select! {
                biased;
                () = condition() => return,
                _ = open.wait_for(|open| *open > 0) => {}
            }
        }
    }

    fn self_and_parents(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |waits| waits.parent.as_deref())
    }

    fn end(&self) {
        for waits in self.self_and_parents() {
            waits.open.send_modify(|open| *open = open.saturating_sub(1));
        }
    }
}

/// A wait in progress. Dropping it ends the wait without taking the permit again, for a run that is given up.
#[derive(Debug)]
pub struct WaitGuard {
    waits: Option<Arc<RunWaits>>,
}

impl WaitGuard {
    /// Ends the wait: takes the permits again, the outermost run's first. A run that is stopped does not wait for them.
    pub async fn end(mut self, stop: &CancellationToken) {
        let Some(waits) = self.waits.take() else { return };
        waits.end();
        let levels: Vec<&RunWaits> = waits.self_and_parents().collect();
        for level in levels.into_iter().rev() {
            let Some(slot) = level.slot.as_ref().filter(|_| *level.open.borrow() == 0) else { continue };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = slot.reacquire() => {}
            }
        }
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        if let Some(waits) = self.waits.take() {
            waits.end();
        }
    }
}

#[cfg(test)]
mod tests;
