//! What runs wait for.

use std::collections::HashMap;

use super::InputQueue;
use crate::id::RunId;
use crate::reply::RunWait;

impl InputQueue {
    /// What each waiting run waits for, oldest first. A run that waits for another run waits for what that one asks.
    pub fn waits(&self) -> HashMap<RunId, Vec<RunWait>> {
        let mut waits: HashMap<RunId, Vec<RunWait>> = HashMap::new();
        for open in self.open().values() {
            for run in std::iter::once(&open.pending.run).chain(&*open.answerer.ancestor_runs) {
                waits.entry(*run).or_default().push(RunWait::Input(open.pending.clone()));
            }
        }
        waits
    }
}
