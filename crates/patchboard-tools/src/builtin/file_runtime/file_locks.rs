//! Changes of one file take turns, so that two calls of one answer cannot undo each other's work.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ToolRefusal;
use crate::folder::PathTarget;

/// Places share a lock when their keys fall together; they then wait for each other without need, and no longer than a
/// file takes to write.
const STRIPES: usize = 64;
/// A place that is somewhere else each time one looks is left alone.
const MAX_LOOKUPS: usize = 8;

#[derive(Debug)]
pub(crate) struct FileLocks {
    stripes: [Mutex<()>; STRIPES],
}

/// Held for as long as the work takes.
#[derive(Debug)]
pub(crate) struct FileLockGuard<'a> {
    _guards: Vec<MutexGuard<'a, ()>>,
}

impl Default for FileLocks {
    fn default() -> Self {
        Self { stripes: std::array::from_fn(|_| Mutex::new(())) }
    }
}

impl FileLocks {
    /// Waits until nobody else changes the places that `look` finds, then looks again: what is there then stays as it
    /// is, as far as this server's tools go.
    pub(crate) fn lock_targets<T>(
        &self,
        look: impl Fn() -> Result<T, ToolRefusal>,
        places: impl for<'p> Fn(&'p T) -> Vec<&'p PathTarget>,
    ) -> Result<(FileLockGuard<'_>, T), ToolRefusal> {
        let keys = |found: &T| places(found).into_iter().map(PathTarget::lock_key).collect::<Vec<_>>();
        for _ in 0..MAX_LOOKUPS {
            let before = keys(&look()?);
            let turn = self.lock_stripes(&before);
            let found = look()?;
            if keys(&found) == before {
                return Ok((turn, found));
            }
        }
        Err(ToolRefusal("what the path leads to keeps changing".to_owned()))
    }

    /// Always in the order of the stripes, so that nobody waits in a circle.
    fn lock_stripes(&self, keys: &[u64]) -> FileLockGuard<'_> {
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is smaller than the number of stripes")]
        let stripes: BTreeSet<usize> = keys.iter().map(|key| (key % STRIPES as u64) as usize).collect();
        let locks = stripes.into_iter().filter_map(|stripe| self.stripes.get(stripe));
        FileLockGuard { _guards: locks.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner)).collect() }
    }
}

#[cfg(test)]
mod tests;
