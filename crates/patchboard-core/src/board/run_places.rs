//! Places for runs at work. Their number can change while all of them are taken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::BoardError;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct RunPlaces(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    free: Arc<Semaphore>,
    size: Mutex<Size>,
}

#[derive(Debug)]
struct Size {
    places: usize,
    /// Taken places there should not be any more: they go when they are given back.
    surplus: usize,
}

/// Dropping it gives it back.
#[derive(Debug)]
pub(super) struct TakenPlace {
    permit: Option<OwnedSemaphorePermit>,
    places: RunPlaces,
}

impl RunPlaces {
    pub(super) fn new(places: usize) -> Self {
        let size = Mutex::new(Size { places, surplus: 0 });
        Self(Arc::new(Inner { free: Arc::new(Semaphore::new(places)), size }))
    }

    /// In the order of asking.
    pub(super) async fn take(&self) -> Result<TakenPlace, BoardError> {
        let permit = self.0.free.clone().acquire_owned().await.map_err(|_| BoardError::shutting_down())?;
        Ok(TakenPlace { permit: Some(permit), places: self.clone() })
    }

    pub(super) fn try_take(&self) -> Option<TakenPlace> {
        let permit = self.0.free.clone().try_acquire_owned().ok()?;
        Some(TakenPlace { permit: Some(permit), places: self.clone() })
    }

    /// Fewer places cut nothing: none is given out again until there are no more of them than there should be.
    pub(super) fn resize(&self, wanted: usize) {
        let mut size = self.size();
        if wanted > size.places {
            let more = wanted - size.places;
            let kept = more.min(size.surplus);
            size.surplus -= kept;
            self.0.free.add_permits(more - kept);
        } else {
            let fewer = size.places - wanted;
            size.surplus += fewer - self.0.free.forget_permits(fewer);
        }
        size.places = wanted;
    }

    fn size(&self) -> MutexGuard<'_, Size> {
        self.0.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        let mut size = self.places.size();
        if size.surplus > 0
            && let Some(permit) = self.permit.take()
        {
            size.surplus -= 1;
            permit.forget();
        }
    }
}
