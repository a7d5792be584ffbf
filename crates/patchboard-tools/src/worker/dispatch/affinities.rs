//! The worker of each session's last call, and the workers that ran calls of the session.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::WorkerNumber;

/// Past this, the least recently used session is dropped: its next call may use any worker, and its workers are not
/// told when it closes.
const MAX_SESSIONS: usize = 20_000;
/// A session idle for longer is dropped in the same way.
const MAX_IDLE: Duration = Duration::from_secs(2 * 60 * 60);
/// At most this many workers of a session, the most recent ones, are told when it closes.
const MAX_SEEN_WORKERS: usize = 300;

#[derive(Debug, Default)]
pub(super) struct Affinities {
    by_session: HashMap<Arc<str>, SessionBinding>,
    by_use: BTreeMap<UseStamp, Arc<str>>,
    next_use: u64,
}

/// The number distinguishes uses at the same instant.
type UseStamp = (Instant, u64);

#[derive(Debug)]
struct SessionBinding {
    worker: Option<WorkerNumber>,
    seen_by: Vec<WorkerNumber>,
    last_use: UseStamp,
}

impl Affinities {
    pub(super) fn worker(&self, session: &str, now: Instant) -> Option<WorkerNumber> {
        let binding = self.by_session.get(session)?;
        if now.saturating_duration_since(binding.last_use.0) > MAX_IDLE { None } else { binding.worker }
    }

    pub(super) fn bind(&mut self, session: &Arc<str>, worker: WorkerNumber, now: Instant) {
        self.next_use += 1;
        let this_use = (now, self.next_use);
        match self.by_session.get_mut(session) {
            Some(binding) => {
                self.by_use.remove(&binding.last_use);
                binding.last_use = this_use;
                binding.worker = Some(worker);
                if !binding.seen_by.contains(&worker) {
                    if binding.seen_by.len() >= MAX_SEEN_WORKERS {
                        binding.seen_by.remove(0);
                    }
                    binding.seen_by.push(worker);
                }
            }
            None => {
                let binding = SessionBinding { worker: Some(worker), seen_by: vec![worker], last_use: this_use };
                self.by_session.insert(session.clone(), binding);
            }
        }
        self.by_use.insert(this_use, session.clone());
        self.evict_stale(now);
    }

    /// Lets the session use any worker again.
    pub(super) fn unbind(&mut self, session: &str) {
        if let Some(binding) = self.by_session.get_mut(session) {
            binding.worker = None;
        }
    }

    /// Returns the workers that ran calls of the session.
    pub(super) fn remove(&mut self, session: &str) -> Vec<WorkerNumber> {
        let Some(binding) = self.by_session.remove(session) else { return Vec::new() };
        self.by_use.remove(&binding.last_use);
        binding.seen_by
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
