//! Tracks whether a plugin's calls are quick enough to run on the caller's thread.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// About the cost of handing a call to another thread and back.
const QUICK_CALL: Duration = Duration::from_micros(300);
/// Consecutive quick calls before the next one is expected to be quick.
const QUICK_CALLS_REQUIRED: u32 = 4;

/// The pace of one plugin.
#[derive(Debug, Default)]
pub(crate) struct CallPace {
    quick_in_a_row: AtomicU32,
}

impl CallPace {
    pub(crate) fn is_quick(&self) -> bool {
        self.quick_in_a_row.load(Ordering::Relaxed) >= QUICK_CALLS_REQUIRED
    }

    /// Records the duration of a call, from before instantiation to its result.
    pub(crate) fn record(&self, took: Duration) {
        match took <= QUICK_CALL {
            true if !self.is_quick() => {
                self.quick_in_a_row.fetch_add(1, Ordering::Relaxed);
            }
            true => {}
            false => self.reset(),
        }
    }

    pub(crate) fn reset(&self) {
        self.quick_in_a_row.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
