//! Which worker a session's last call went to, and which workers saw the session.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::WorkerNumber;

/// The session that was used longest ago is forgotten first: its next call goes anywhere, and its workers never hear
/// of its end.
const MAX_SESSIONS: usize = 20_000;
/// So is one that was not used for this long.
const MAX_IDLE: Duration = Duration::from_secs(2 * 60 * 60);
/// Of the workers that saw a session, the last so many are told of its end.
const MAX_SEEN_WORKERS: usize = 300;

#[derive(Debug, Default)]
pub(super) struct Affinities {
    by_session: HashMap<Arc<str>, SessionBinding>,
    by_use: BTreeMap<UseStamp, Arc<str>>,
    next_use: u64,
}

/// The number tells uses at the same moment apart.
type UseStamp = (Instant, u64);

#[derive(Debug)]
struct SessionBinding {
    worker: Option<WorkerNumber>,
    seen_by: Vec<WorkerNumber>,
    last_use: UseStamp,
}

impl Affinities {
    pub(super) fn worker(&self, session: &str, now: Instant) -> Option<WorkerNumber> {
        let bond = self.by_session.get(session)?;
        if now.saturating_duration_since(bond.last_use.0) > MAX_IDLE { None } else { bond.worker }
    }

    pub(super) fn bind(&mut self, session: &Arc<str>, worker: WorkerNumber, now: Instant) {
        self.next_use += 1;
        let this_use = (now, self.next_use);
        match self.by_session.get_mut(session) {
            Some(bond) => {
                self.by_use.remove(&bond.last_use);
                bond.last_use = this_use;
                bond.worker = Some(worker);
                if !bond.seen_by.contains(&worker) {
                    if bond.seen_by.len() >= MAX_SEEN_WORKERS {
                        bond.seen_by.remove(0);
                    }
                    bond.seen_by.push(worker);
                }
            }
            None => {
                let bond = SessionBinding { worker: Some(worker), seen_by: vec![worker], last_use: this_use };
                self.by_session.insert(session.clone(), bond);
            }
        }
        self.by_use.insert(this_use, session.clone());
        self.evict_stale(now);
    }

    /// The session may go to any worker again.
    pub(super) fn unbind(&mut self, session: &str) {
        if let Some(bond) = self.by_session.get_mut(session) {
            bond.worker = None;
        }
    }

    /// Answers with the workers that saw it.
    pub(super) fn remove(&mut self, session: &str) -> Vec<WorkerNumber> {
        let Some(bond) = self.by_session.remove(session) else { return Vec::new() };
        self.by_use.remove(&bond.last_use);
        bond.seen_by
    }

    fn evict_stale(&mut self, now: Instant) {
        while let Some((&(used_at, number), _)) = self.by_use.first_key_value()
            && (self.by_use.len() > MAX_SESSIONS || now.saturating_duration_since(used_at) > MAX_IDLE)
        {
            if let Some(session) = self.by_use.remove(&(used_at, number)) {
                self.by_session.remove(&session);
            }
        }
    }
}

#[cfg(test)]
mod tests;
