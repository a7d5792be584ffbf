//! Runs that ask for other runs: how deep it goes, who pays, and what is left to spend.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::id::{RunId, SessionKey};

/// Where a run stands among those that wait for each other.
#[derive(Debug, Clone)]
pub struct CallChain {
    /// Those that wait for it, the outermost first.
    pub ancestors: Arc<[RunId]>,
    /// The session it is charged to: of whoever asked first.
    pub charged_session: SessionKey,
    pub token_budget: Arc<TokenBudget>,
}

impl CallChain {
    /// Nobody waits for it but whoever asked.
    pub fn root(session: SessionKey, max_tokens: Option<u64>) -> Self {
        Self {
            ancestors: Arc::default(),
            charged_session: session,
            token_budget: Arc::new(TokenBudget::new(max_tokens, None)),
        }
    }

    /// Of a run that `run`, which stands here, asks for.
    #[must_use]
    pub fn child(&self, run: RunId, max_tokens: Option<u64>) -> Self {
        Self {
            ancestors: self.ancestors.iter().copied().chain([run]).collect(),
            charged_session: self.charged_session.clone(),
            token_budget: Arc::new(TokenBudget::new(max_tokens, Some(self.token_budget.clone()))),
        }
    }

    pub fn depth(&self) -> usize {
        self.ancestors.len()
    }
}

/// Tokens a run may use in all its calls together, those of runs beneath it included.
#[derive(Debug)]
pub struct TokenBudget {
    limit: Option<u64>,
    /// Tokens of all settled calls.
    used: AtomicU64,
    /// Tokens set aside for the calls under way.
    reserved: AtomicU64,
    /// What is spent here is spent there too.
    parent: Option<Arc<TokenBudget>>,
}

/// Nothing is left of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetExhausted {
    pub used: u64,
    pub limit: u64,
}

impl TokenBudget {
    fn new(limit: Option<u64>, above: Option<Arc<TokenBudget>>) -> Self {
        Self { limit, used: AtomicU64::new(0), reserved: AtomicU64::new(0), parent: above }
    }

    /// What every limit leaves after so many tokens more; `u64::MAX` where there is none.
    pub fn remaining(&self, after: u64) -> Result<u64, BudgetExhausted> {
        let mut left = u64::MAX;
        for purse in self.self_and_parents() {
            let Some(limit) = purse.limit else { continue };
            let used = purse.used.load(Ordering::Relaxed);
            let held = purse.reserved.load(Ordering::Relaxed);
            match limit.saturating_sub(used).saturating_sub(held).saturating_sub(after) {
                0 => return Err(BudgetExhausted { used, limit }),
                some => left = left.min(some),
            }
        }
        Ok(left)
    }

    /// Sets tokens aside, here and above, until what is returned is dropped.
    pub fn hold(self: &Arc<Self>, tokens: u64) -> TokenHold {
        for purse in self.self_and_parents() {
            purse.reserved.fetch_add(tokens, Ordering::Relaxed);
        }
        TokenHold { budget: self.clone(), tokens }
    }

    pub fn spend(&self, tokens: u64) {
        for purse in self.self_and_parents() {
            purse.used.fetch_add(tokens, Ordering::Relaxed);
        }
    }

    fn self_and_parents(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |purse| purse.parent.as_deref())
    }
}

/// Tokens set aside.
#[derive(Debug)]
pub struct TokenHold {
    budget: Arc<TokenBudget>,
    tokens: u64,
}

impl Drop for TokenHold {
    fn drop(&mut self) {
        for purse in self.budget.self_and_parents() {
            purse.reserved.fetch_sub(self.tokens, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
