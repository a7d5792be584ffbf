//! Runs that start other runs: nesting depth, the session that is charged, and the remaining token budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::caller::Principal;
use crate::id::{RunId, SessionKey};
use crate::waits::{RunWaits, WorkSlot};

/// Position of a run in the chain of runs that wait for each other.
#[derive(Debug, Clone)]
pub struct CallChain {
    /// The runs that wait for it, outermost first.
    pub ancestors: Arc<[RunId]>,
    /// The session of the outermost run: it is charged, and its queue waits.
    pub root_session: SessionKey,
    /// The key of the client that started the outermost run: its budget is charged, and its limits on agents and tools
    /// apply to all runs of the chain.
    pub key: Option<Arc<str>>,
    pub token_budget: Arc<TokenBudget>,
    /// The answers that the run, or the call, waits for.
    pub waits: Arc<RunWaits>,
}

impl CallChain {
    /// The chain of a run that no other run waits for.
    pub fn root(session: SessionKey, started_by: &Principal, max_tokens: Option<u64>) -> Self {
        Self::with_slot(session, started_by, max_tokens, None)
    }

    /// The same for a run that holds a permit to work.
    pub fn with_slot(
        session: SessionKey,
        started_by: &Principal,
        max_tokens: Option<u64>,
        slot: Option<Arc<dyn WorkSlot>>,
    ) -> Self {
        Self {
            waits: RunWaits::root(slot),
            ancestors: Arc::default(),
            root_session: session,
            key: started_by.key().cloned(),
            token_budget: Arc::new(TokenBudget::new(max_tokens, None)),
        }
    }

    /// The chain of a run that `run`, whose chain this is, starts.
    #[must_use]
    pub fn child(&self, run: RunId, max_tokens: Option<u64>, slot: Option<Arc<dyn WorkSlot>>) -> Self {
        Self {
            waits: self.waits.child(slot),
            ancestors: self.ancestors.iter().copied().chain([run]).collect(),
            root_session: self.root_session.clone(),
            key: self.key.clone(),
            token_budget: Arc::new(TokenBudget::new(max_tokens, Some(self.token_budget.clone()))),
        }
    }

    /// The chain of one call of the run: what is waited for within the call counts for it too.
    #[must_use]
    pub fn for_call(&self) -> Self {
        Self { waits: self.waits.child(None), ..self.clone() }
    }

    pub fn depth(&self) -> usize {
        self.ancestors.len()
    }
}

/// Tokens a run may use in all its model calls, those of its nested runs included.
#[derive(Debug)]
pub struct TokenBudget {
    limit: Option<u64>,
    /// Tokens of all settled calls.
    used: AtomicU64,
    /// Tokens reserved for calls in flight.
    reserved: AtomicU64,
    /// The budget of the waiting run, which every hold and expense is charged to as well.
    parent: Option<Arc<TokenBudget>>,
}

/// A token limit is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetExhausted {
    pub used: u64,
    pub limit: u64,
}

impl TokenBudget {
    fn new(limit: Option<u64>, parent: Option<Arc<TokenBudget>>) -> Self {
        Self { limit, used: AtomicU64::new(0), reserved: AtomicU64::new(0), parent }
    }

    /// Tokens left under the tightest limit once `after` more are spent; `u64::MAX` if there is no limit.
    pub fn remaining(&self, after: u64) -> Result<u64, BudgetExhausted> {
        let mut remaining = u64::MAX;
        for budget in self.self_and_parents() {
            let Some(limit) = budget.limit else { continue };
            let used = budget.used.load(Ordering::Relaxed);
            let reserved = budget.reserved.load(Ordering::Relaxed);
            match limit.saturating_sub(used).saturating_sub(reserved).saturating_sub(after) {
                0 => return Err(BudgetExhausted { used, limit }),
                some => remaining = remaining.min(some),
            }
        }
        Ok(remaining)
    }

    /// Reserves tokens here and in all parents until the returned hold is dropped.
    pub fn hold(self: &Arc<Self>, tokens: u64) -> TokenHold {
        for budget in self.self_and_parents() {
            budget.reserved.fetch_add(tokens, Ordering::Relaxed);
        }
        TokenHold { budget: self.clone(), tokens }
    }

    pub fn spend(&self, tokens: u64) {
        for budget in self.self_and_parents() {
            budget.used.fetch_add(tokens, Ordering::Relaxed);
        }
    }

    fn self_and_parents(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.parent.as_deref())
    }
}

/// Reserved tokens; released on drop.
#[derive(Debug)]
pub struct TokenHold {
    budget: Arc<TokenBudget>,
    tokens: u64,
}

impl Drop for TokenHold {
    fn drop(&mut self) {
        for budget in self.budget.self_and_parents() {
            budget.reserved.fetch_sub(self.tokens, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
