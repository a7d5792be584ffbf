//! What runs wait for.

use std::collections::HashMap;

use super::ApprovalQueue;
use crate::id::RunId;
use crate::reply::RunWait;

impl ApprovalQueue {
    /// What each waiting run waits for, oldest first. A run that waits for another run waits for what that one asks.
    pub fn waits(&self) -> HashMap<RunId, Vec<RunWait>> {
        let mut waits: HashMap<RunId, Vec<RunWait>> = HashMap::new();
        for open in self.open().values() {
            for run in std::iter::once(&open.pending.run).chain(&*open.ancestor_runs) {
                waits.entry(*run).or_default().push(RunWait::Approval(open.pending.clone()));
            }
        }
        waits
    }
}
