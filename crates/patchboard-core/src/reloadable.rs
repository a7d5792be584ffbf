//! Settings that can be replaced while the server runs.

use std::sync::{Arc, PoisonError, RwLock};

/// A value that is replaced as a whole. Readers keep the version they read, so that work in progress is not affected by
/// a reload.
#[derive(Debug, Default)]
pub struct Reloadable<T>(RwLock<Arc<T>>);

impl<T> Reloadable<T> {
    pub fn new(value: impl Into<Arc<T>>) -> Self {
        Self(RwLock::new(value.into()))
    }

    pub fn get(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, value: impl Into<Arc<T>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value.into();
    }
}
