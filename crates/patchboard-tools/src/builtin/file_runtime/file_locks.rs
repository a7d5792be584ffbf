//! Serialises changes of one file, so that two concurrent calls of one turn cannot overwrite each other's work.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ToolRefusal;
use crate::folder::PathTarget;

/// Targets whose keys collide share a lock; they then wait for each other unnecessarily, but no longer than a file
/// takes to write.
const STRIPES: usize = 64;
/// A target that resolves differently each time is given up after this many lookups.
const MAX_LOOKUPS: usize = 8;

#[derive(Debug)]
pub(crate) struct FileLocks {
    stripes: [Mutex<()>; STRIPES],
}

/// Locks held while a call changes its files.
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
    /// Locks the targets that `look` finds, then looks again: the result stays valid against this server's other tool
    /// calls. Repeats if the targets changed before they were locked.
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

    /// Always locks in the order of the stripes, which prevents deadlocks.
    fn lock_stripes(&self, keys: &[u64]) -> FileLockGuard<'_> {
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is smaller than the number of stripes")]
        let stripes: BTreeSet<usize> = keys.iter().map(|key| (key % STRIPES as u64) as usize).collect();
        let locks = stripes.into_iter().filter_map(|stripe| self.stripes.get(stripe));
        FileLockGuard { _guards: locks.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner)).collect() }
    }
}

#[cfg(test)]
mod tests;
