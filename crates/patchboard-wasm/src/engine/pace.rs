//! How long a plugin's calls take: those of one that is usually done in a blink need no thread of their own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Waking another thread and being woken by it takes about as long.
const BLINK: Duration = Duration::from_micros(300);
/// Calls in a row that were done in a blink, before it is expected of the next one.
const PROOF: u32 = 4;

/// Of one plugin.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    quick_in_a_row: AtomicU32,
}

impl Pace {
    pub(crate) fn is_quick(&self) -> bool {
        self.quick_in_a_row.load(Ordering::Relaxed) >= PROOF
    }

    /// A call took so long, from before its instance was made to its answer.
    pub(crate) fn note(&self, took: Duration) {
        match took <= BLINK {
            true if !self.is_quick() => {
                self.quick_in_a_row.fetch_add(1, Ordering::Relaxed);
            }
            true => {}
            false => self.was_slow(),
        }
    }

    pub(crate) fn was_slow(&self) {
        self.quick_in_a_row.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
