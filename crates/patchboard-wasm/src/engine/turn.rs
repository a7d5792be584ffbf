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
const OTHERS: usize = 4;

#[derive(Debug)]
pub(crate) struct Turns {
    calls: usize,
    working: Arc<Semaphore>,
    /// At work or stepped aside: each holds an instance.
    alive: Arc<Semaphore>,
    /// At work, stepped aside or waiting.
    admitted: Arc<Semaphore>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoTurn {
    TooMany,
    /// It waited as long as it would have been allowed to work.
    Waited,
    Stopped,
}

impl Turns {
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
    pub(crate) fn share(&self) -> Share {
        let others = (self.calls / OTHERS).max(1);
        Share(Arc::new(Semaphore::new(self.calls.saturating_sub(others).max(1))))
    }

    pub(crate) async fn take(
        &self,
        share: &Share,
        longest: Duration,
        stop: &CancellationToken,
    ) -> Result<Turn, NoTurn> {
        let admitted = self.admitted.clone().try_acquire_owned().map_err(|_| NoTurn::TooMany)?;
        let from = From { share: share.0.clone(), working: self.working.clone() };
        let place = match from.at_once() {
            Some(place) => place,
            None => tokio::select! {
                biased;
                () = stop.cancelled() => return Err(NoTurn::Stopped),
                place = tokio::time::timeout(longest, from.in_turn()) => match place {
                    Ok(place) => place.ok_or(NoTurn::Stopped)?,
                    Err(_) => return Err(NoTurn::Waited),
                },
            },
        };
        // Not waited for: those who hold it may be waiting for this very call.
        let alive = self.alive.clone().try_acquire_owned().map_err(|_| NoTurn::TooMany)?;
        Ok(Turn { place: Some(place), from, _alive: alive, _admitted: admitted })
    }
}

/// What one plugin has of the places.
#[derive(Debug, Clone)]
pub(crate) struct Share(Arc<Semaphore>);

/// Where a place is taken from: first of the plugin's own, then of all, so that whoever waits for the first holds none
/// of the others'.
#[derive(Debug)]
struct From {
    share: Arc<Semaphore>,
    working: Arc<Semaphore>,
}

type Place = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl From {
    fn at_once(&self) -> Option<Place> {
        Some((self.share.clone().try_acquire_owned().ok()?, self.working.clone().try_acquire_owned().ok()?))
    }

    /// The semaphores are never closed.
    async fn in_turn(&self) -> Option<Place> {
        let own = self.share.clone().acquire_owned().await.ok()?;
        Some((own, self.working.clone().acquire_owned().await.ok()?))
    }
}

/// The right to work; given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `None` while others have it.
    place: Option<Place>,
    from: From,
    _alive: OwnedSemaphorePermit,
    _admitted: OwnedSemaphorePermit,
}

impl Turn {
    /// Waits for something that may itself need a plugin's turn, such as another tool. Meanwhile this turn is others':
    /// plugins that call plugins would otherwise wait for each other until their time is up.
    pub(crate) async fn step_aside<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.place = None;
        let done = work.await;
        // Bounded by the time of the call that waits here.
        self.place = self.from.in_turn().await;
        done
    }
}

#[cfg(test)]
mod tests;
