//! Token budgets: the only module that decides whether a model call may start. Tokens are reserved before a call and
//! settled after it, so that concurrent calls cannot spend the same tokens.

use crate::reply::{BudgetReport, BudgetUsage, KeyBudgetUsage, Spender, SpenderBudget};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::{BoardError, ErrorKind};
use crate::id::SessionKey;
use crate::keys::{Key, KeyBudget, KeySource};
use crate::port::Clock;
use crate::reloadable::Reloadable;
use crate::store::{BudgetScope, Store};

pub mod call_chain;
pub(crate) mod charge;
pub mod price;

/// Accounts cached in memory; past this, accounts without reservations are dropped and read from the store again when
/// needed.
const MAX_IDLE_ACCOUNTS: usize = 4096;

/// Tool schemas are sent only if at least this much is left for the answer.
const MIN_ANSWER_TOKENS: u64 = 64;

/// Limits on tokens, input and output together; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetLimits {
    pub session: Option<u64>,
    pub daily: Option<u64>,
    pub monthly: Option<u64>,
}

#[derive(Debug)]
pub struct Ledger {
    limits: Reloadable<BudgetLimits>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    accounts: Mutex<AccountCache>,
}

#[derive(Debug, Default)]
struct AccountCache {
    by_scope: HashMap<BudgetScope, ScopeAccount>,
    /// Counts evictions: a figure read from the store before an eviction may be older than an evicted account.
    evictions: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ScopeAccount {
    used: u64,
    reserved: u64,
}

/// The tokens a model call needs.
#[derive(Debug, Clone)]
pub struct ReservationRequest<'a> {
    pub session: &'a SessionKey,
    pub agent: &'a Arc<str>,
    pub agent_limits: BudgetLimits,
    /// The key that pays for it too.
    pub key: Option<Key>,
    /// Estimate for the conversation alone; without room for this the call is refused.
    pub text_tokens: u64,
    /// Estimate for the tools' schemas. If only the conversation fits, the call is made without tools.
    pub tool_tokens: u64,
    pub max_output: u32,
}

/// Tokens reserved for one call. Dropping it without `settle` releases the tokens.
#[derive(Debug)]
pub struct Reservation {
    ledger: Arc<Ledger>,
    pub scopes: Vec<BudgetScope>,
    pub tokens: u64,
    /// Output limit of the call: the requested limit or what is left of the budget.
    pub max_output: u32,
    /// Do the tools' schemas fit?
    pub tools_fit: bool,
    /// The limit that leaves the least, if there is one.
    pub tightest_limit: Option<Headroom>,
}

/// What is left under one limit, and how to raise it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headroom {
    /// `session`, `daily` or `monthly`.
    pub budget: &'static str,
    /// Used and reserved so far.
    pub committed: u64,
    pub limit: u64,
    pub owner: LimitOwner,
}

/// Whose limit it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitOwner {
    Server,
    Agent(Arc<str>),
    FileKey(Arc<str>),
    CreatedKey(Arc<str>),
}

impl LimitOwner {
    fn of_key(key: &Key) -> Self {
        let name = key.spec.name.clone();
        match key.spec.source {
            KeySource::File => Self::FileKey(name),
            KeySource::Created(_) => Self::CreatedKey(name),
        }
    }
}

impl Headroom {
    pub fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.committed)
    }

    /// Which budget it is, as messages name it.
    pub fn name(&self) -> String {
        let budget = self.budget;
        match &self.owner {
            LimitOwner::Server | LimitOwner::Agent(_) => budget.to_owned(),
            LimitOwner::FileKey(key) | LimitOwner::CreatedKey(key) => format!("{budget} of the key `{key}`"),
        }
    }

    /// What the operator or user can do so that the next call is allowed.
    pub fn remedy(&self) -> String {
        let otherwise = match self.budget {
            "session" => "or start a new session",
            "daily" => "or wait until midnight UTC",
            _ => "or wait for the next month (UTC)",
        };
        let budget = self.budget;
        match &self.owner {
            LimitOwner::Server => format!("raise `budgets.{budget}` {otherwise}"),
            LimitOwner::Agent(agent) => format!("raise `agents.{agent}.budget.{budget}` {otherwise}"),
            LimitOwner::FileKey(key) => {
                format!("raise `budget.{budget}` in the entry of `[[keys]]` named `{key}` {otherwise}")
            }
            LimitOwner::CreatedKey(key) => {
                format!("revoke the key `{key}` and create it anew with a larger `--{budget}` {otherwise}")
            }
        }
    }

    fn exceeded_error(&self, needed: u64) -> BoardError {
        let Self { committed, limit, .. } = self;
        let message = format!(
            "token budget exceeded ({}: {committed}/{limit}): this call needs about {needed} tokens and {} are left; {}",
            self.name(),
            self.remaining(),
            self.remedy()
        );
        BoardError::new(ErrorKind::Exhausted, message)
    }
}

impl Ledger {
    pub fn new(limits: BudgetLimits, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { limits: Reloadable::new(limits), store, clock, accounts: Mutex::default() }
    }

    /// Applies to future calls; existing reservations keep their tokens.
    pub fn set_limits(&self, limits: BudgetLimits) {
        self.limits.set(limits);
    }

    /// Reserves tokens; the error names the limit that is exceeded.
    pub async fn reserve(self: &Arc<Self>, request: ReservationRequest<'_>) -> Result<Reservation, BoardError> {
        let key = request.key.as_ref().map(|key| &key.spec.name);
        let scopes = budget_scopes(request.session, request.agent, key, self.clock.now());
        let limits = self.limits_for(&request);
        let mut accounts = self.load(&scopes).await?;
        let mut tightest: Option<Headroom> = None;
        for (scope, limit) in scopes.iter().zip(limits) {
            let Some((budget, limit, owner)) = limit else { continue };
            let account = accounts.account(scope);
            let committed = account.used.saturating_add(account.reserved);
            let headroom = Headroom { budget, committed, limit, owner };
            // At least one output token must fit, else the call would cost tokens without producing an answer.
            if committed.saturating_add(request.text_tokens) >= limit {
                return Err(headroom.exceeded_error(request.text_tokens.saturating_add(1)));
            }
            if tightest.as_ref().is_none_or(|tightest| headroom.remaining() < tightest.remaining()) {
                tightest = Some(headroom);
            }
        }
        let remaining = tightest.as_ref().map_or(u64::MAX, Headroom::remaining);
        let with_tools = request.text_tokens.saturating_add(request.tool_tokens);
        let tools_fit = with_tools.saturating_add(u64::from(request.max_output).min(MIN_ANSWER_TOKENS)) <= remaining;
        let input = if tools_fit { with_tools } else { request.text_tokens }.min(remaining.saturating_sub(1));
        let remaining_output = u32::try_from(remaining - input).unwrap_or(u32::MAX);
        let max_output = request.max_output.min(remaining_output);
        let tokens = input.saturating_add(u64::from(max_output));
        for scope in &scopes {
            let account = accounts.by_scope.entry(scope.clone()).or_default();
            account.reserved = account.reserved.saturating_add(tokens);
        }
        Ok(Reservation { ledger: self.clone(), scopes, tokens, max_output, tools_fit, tightest_limit: tightest })
    }

    /// The limits of a call in the order of its scopes: name of the budget, tokens, whose limit it is.
    fn limits_for(&self, request: &ReservationRequest<'_>) -> [Option<(&'static str, u64, LimitOwner)>; 7] {
        let (general, own) = (self.limits.get(), &request.agent_limits);
        let of_all = |budget: &'static str, limit: Option<u64>| Some((budget, limit?, LimitOwner::Server));
        let of_agent =
            |budget: &'static str, limit: Option<u64>| Some((budget, limit?, LimitOwner::Agent(request.agent.clone())));
        let of_key = |budget: &'static str, limit: fn(&KeyBudget) -> Option<u64>| {
            let key = request.key.as_ref()?;
            Some((budget, limit(&key.spec.rights.budget)?, LimitOwner::of_key(key)))
        };
        let session = match (general.session, own.session) {
            (Some(all), Some(own)) if own < all => of_agent("session", Some(own)),
            (None, own) => of_agent("session", own),
            (all, _) => of_all("session", all),
        };
        [
            session,
            of_all("daily", general.daily),
            of_all("monthly", general.monthly),
            of_agent("daily", own.daily),
            of_agent("monthly", own.monthly),
            of_key("daily", |budget| budget.daily),
            of_key("monthly", |budget| budget.monthly),
        ]
    }

    pub async fn report(
        &self,
        session: Option<&SessionKey>,
        agents: &[(Arc<str>, BudgetLimits)],
        keys: &[Key],
    ) -> Result<BudgetReport, BoardError> {
        let now = self.clock.now();
        let (day, month) = (day_scope(now), month_scope(now));
        let mut scopes = vec![day.clone(), month.clone()];
        scopes.extend(agents.iter().flat_map(|(agent, _)| agent_scopes(agent, now)));
        let session_scope = session.map(|session| BudgetScope::Session(session.clone()));
        scopes.extend(session_scope.clone());
        scopes.extend(keys.iter().flat_map(|key| key_scopes(&key.spec.name, now)));
        let accounts = self.load(&scopes).await?;
        let limits = self.limits.get();
        let usage = |scope: &BudgetScope, limit| {
            let account = accounts.account(scope);
            BudgetUsage { used: account.used, reserved: account.reserved, limit }
        };
        let of_key = |key: &Key| {
            let [day, month] = key_scopes(&key.spec.name, now);
            let budget = key.spec.rights.budget;
            KeyBudgetUsage {
                key: key.spec.name.clone(),
                daily: usage(&day, budget.daily),
                monthly: usage(&month, budget.monthly),
            }
        };
        Ok(BudgetReport {
            session: session_scope.map(|scope| usage(&scope, limits.session)),
            daily: usage(&day, limits.daily),
            monthly: usage(&month, limits.monthly),
            keys: keys.iter().map(of_key).collect(),
            spenders: agents
                .iter()
                .map(|(agent, own)| {
                    let [day, month] = agent_scopes(agent, now);
                    let spender = Spender::Agent(agent.clone());
                    SpenderBudget { spender, daily: usage(&day, own.daily), monthly: usage(&month, own.monthly) }
                })
                .collect(),
        })
    }

    /// All accounts, with `scopes` loaded and the lock held: an account evicted between loading and locking would be
    /// taken for unused.
    async fn load(&self, scopes: &[BudgetScope]) -> Result<MutexGuard<'_, AccountCache>, BoardError> {
        loop {
            let (missing, evictions) = {
                let accounts = self.accounts();
                let missing: Vec<BudgetScope> =
                    scopes.iter().filter(|scope| !accounts.by_scope.contains_key(scope)).cloned().collect();
                if missing.is_empty() {
                    return Ok(accounts);
                }
                (missing, accounts.evictions)
            };
            let figures = self.store.tokens_spent(missing.clone()).await?;
            let mut accounts = self.accounts();
            // Accounts were evicted during the read, so the figures may be outdated: read them again.
            if accounts.evictions != evictions {
                continue;
            }
            accounts.evict_idle(scopes);
            for (scope, used) in missing.into_iter().zip(figures) {
                // An account that another task loaded in the meantime is kept: it includes what was settled since.
                accounts.by_scope.entry(scope).or_insert(ScopeAccount { used, reserved: 0 });
            }
            return Ok(accounts);
        }
    }

    fn accounts(&self) -> MutexGuard<'_, AccountCache> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AccountCache {
    fn account(&self, scope: &BudgetScope) -> ScopeAccount {
        self.by_scope.get(scope).copied().unwrap_or_default()
    }

    /// Drops accounts without reservations once there are too many.
    fn evict_idle(&mut self, in_use: &[BudgetScope]) {
        let before = self.by_scope.len();
        if before >= MAX_IDLE_ACCOUNTS {
            self.by_scope.retain(|scope, account| account.reserved > 0 || in_use.contains(scope));
            self.evictions += u64::from(self.by_scope.len() < before);
        }
    }
}

impl Reservation {
    /// Replaces the reserved tokens by those used. To be called once the usage is recorded or recording has failed: the
    /// tokens are spent either way.
    pub fn settle(mut self, used: u64) {
        self.release(used);
    }

    fn release(&mut self, used: u64) {
        let tokens = std::mem::take(&mut self.tokens);
        let scopes = std::mem::take(&mut self.scopes);
        let mut accounts = self.ledger.accounts();
        for scope in scopes {
            let account = accounts.by_scope.entry(scope).or_default();
            account.reserved = account.reserved.saturating_sub(tokens);
            account.used = account.used.saturating_add(used);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.scopes.is_empty() {
            self.release(0);
        }
    }
}

/// Every scope a call is charged to, always in this order.
pub fn budget_scopes(
    session: &SessionKey,
    agent: &Arc<str>,
    key: Option<&Arc<str>>,
    at: Timestamp,
) -> Vec<BudgetScope> {
    let mut scopes = vec![BudgetScope::Session(session.clone()), day_scope(at), month_scope(at)];
    scopes.extend(agent_scopes(agent, at));
    scopes.extend(key.into_iter().flat_map(|key| key_scopes(key, at)));
    scopes
}

fn agent_scopes(agent: &Arc<str>, at: Timestamp) -> [BudgetScope; 2] {
    let date = at.to_zoned(TimeZone::UTC).date();
    let month = BudgetScope::AgentMonth { agent: agent.clone(), year: date.year(), month: date.month() };
    [BudgetScope::AgentDay(agent.clone(), date), month]
}

fn key_scopes(key: &Arc<str>, at: Timestamp) -> [BudgetScope; 2] {
    let date = at.to_zoned(TimeZone::UTC).date();
    let month = BudgetScope::KeyMonth { key: key.clone(), year: date.year(), month: date.month() };
    [BudgetScope::KeyDay(key.clone(), date), month]
}

fn day_scope(at: Timestamp) -> BudgetScope {
    BudgetScope::Day(at.to_zoned(TimeZone::UTC).date())
}

fn month_scope(at: Timestamp) -> BudgetScope {
    let date = at.to_zoned(TimeZone::UTC).date();
    BudgetScope::Month { year: date.year(), month: date.month() }
}

#[cfg(test)]
mod tests;
