//! Runs that ask for other runs: how deep it goes, who pays, and what is left to spend.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::id::{RunId, SessionKey};

/// Where a run stands among those that wait for each other.
#[derive(Debug, Clone)]
pub struct Nesting {
    /// Those that wait for it, the outermost first.
    pub above: Arc<[RunId]>,
    /// The session it is charged to: of whoever asked first.
    pub charged: SessionKey,
    pub purse: Arc<Purse>,
}

impl Nesting {
    /// Nobody waits for it but whoever asked.
    pub fn top(session: SessionKey, max_tokens: Option<u64>) -> Self {
        Self { above: Arc::default(), charged: session, purse: Arc::new(Purse::new(max_tokens, None)) }
    }

    /// Of a run that `run`, which stands here, asks for.
    #[must_use]
    pub fn beneath(&self, run: RunId, max_tokens: Option<u64>) -> Self {
        Self {
            above: self.above.iter().copied().chain([run]).collect(),
            charged: self.charged.clone(),
            purse: Arc::new(Purse::new(max_tokens, Some(self.purse.clone()))),
        }
    }

    pub fn depth(&self) -> usize {
        self.above.len()
    }
}

/// Tokens a run may use in all its calls together, those of runs beneath it included.
#[derive(Debug)]
pub struct Purse {
    limit: Option<u64>,
    /// Tokens of all settled calls.
    used: AtomicU64,
    /// Tokens set aside for the calls under way.
    held: AtomicU64,
    /// What is spent here is spent there too.
    above: Option<Arc<Purse>>,
}

/// Nothing is left of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Empty {
    pub used: u64,
    pub limit: u64,
}

impl Purse {
    fn new(limit: Option<u64>, above: Option<Arc<Purse>>) -> Self {
        Self { limit, used: AtomicU64::new(0), held: AtomicU64::new(0), above }
    }

    /// What every limit leaves after so many tokens more; `u64::MAX` where there is none.
    pub fn left(&self, after: u64) -> Result<u64, Empty> {
        let mut left = u64::MAX;
        for purse in self.chain() {
            let Some(limit) = purse.limit else { continue };
            let used = purse.used.load(Ordering::Relaxed);
            let held = purse.held.load(Ordering::Relaxed);
            match limit.saturating_sub(used).saturating_sub(held).saturating_sub(after) {
                0 => return Err(Empty { used, limit }),
                some => left = left.min(some),
            }
        }
        Ok(left)
    }

    /// Sets tokens aside, here and above, until what is returned is dropped.
    pub fn hold(self: &Arc<Self>, tokens: u64) -> Held {
        for purse in self.chain() {
            purse.held.fetch_add(tokens, Ordering::Relaxed);
        }
        Held { purse: self.clone(), tokens }
    }

    pub fn spend(&self, tokens: u64) {
        for purse in self.chain() {
            purse.used.fetch_add(tokens, Ordering::Relaxed);
        }
    }

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |purse| purse.above.as_deref())
    }
}

/// Tokens set aside.
#[derive(Debug)]
pub struct Held {
    purse: Arc<Purse>,
    tokens: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        for purse in self.purse.chain() {
            purse.held.fetch_sub(self.tokens, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
