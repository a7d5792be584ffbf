//! How long a plugin's calls take: those of one that is usually done in a blink need no thread of their own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Waking another thread and being woken by it takes about as long.
const QUICK_CALL: Duration = Duration::from_micros(300);
/// Calls in a row that were done in a blink, before it is expected of the next one.
const QUICK_CALLS_REQUIRED: u32 = 4;

/// Of one plugin.
#[derive(Debug, Default)]
pub(crate) struct CallPace {
    quick_in_a_row: AtomicU32,
}

impl CallPace {
    pub(crate) fn is_quick(&self) -> bool {
        self.quick_in_a_row.load(Ordering::Relaxed) >= QUICK_CALLS_REQUIRED
    }

    /// A call took so long, from before its instance was made to its answer.
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
