//! The runs that this process works on. Whatever unfinished run is not among them may be taken over, also by this process
//! itself: a run whose end could not be recorded is released by leaving this set.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::id::RunId;

#[derive(Debug, Clone, Default)]
pub(crate) struct HeldRuns(Arc<Mutex<HashSet<RunId>>>);

/// Releases the run when it is dropped.
#[derive(Debug)]
pub(crate) struct RunHold {
    runs: HeldRuns,
    run: RunId,
}

impl HeldRuns {
    /// Must be taken before the run is recorded as open.
    pub(crate) fn hold(&self, run: RunId) -> RunHold {
        self.runs().insert(run);
        RunHold { runs: self.clone(), run }
    }

    pub(crate) fn snapshot(&self) -> HashSet<RunId> {
        self.runs().clone()
    }

    fn runs(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunHold {
    fn drop(&mut self) {
        self.runs.runs().remove(&self.run);
    }
}
