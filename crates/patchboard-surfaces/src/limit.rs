//! A token bucket. Time is passed in, so tests need no clock.

use std::sync::Arc;
use std::time::Duration;

use patchboard_core::reloadable::Reloadable;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    pub per_second: f64,
    pub burst: f64,
}

/// Limits that apply to one client. They can be reloaded; a connection keeps the values it was opened with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientLimits {
    /// Requests per connection or session, `ping` excepted.
    pub rate: RateLimit,
    /// Largest message in bytes; a larger one is refused or closes the connection with 1009.
    pub max_message: usize,
    /// Deadline for a client to present its token.
    pub sign_in: Duration,
}

/// Shared by all surfaces of a server.
pub type LiveLimits = Arc<Reloadable<ClientLimits>>;

#[derive(Debug, Clone, Copy)]
pub struct TokenBucket {
    rate: RateLimit,
    level: f64,
    filled_at: Duration,
}

impl TokenBucket {
    /// Starts full.
    pub fn new(rate: RateLimit, now: Duration) -> Self {
        Self { rate, level: rate.burst, filled_at: now }
    }

    /// Takes a token if one is available.
    pub fn take(&mut self, now: Duration) -> bool {
        self.fill(now);
        let enough = self.level >= 1.0;
        if enough {
            self.level -= 1.0;
        }
        enough
    }

    pub fn is_empty(&mut self, now: Duration) -> bool {
        self.fill(now);
        self.level < 1.0
    }

    /// How long until a token is available.
    pub fn time_until_available(&mut self, now: Duration) -> Duration {
        self.fill(now);
        let missing = (1.0 - self.level).max(0.0);
        Duration::try_from_secs_f64(missing / self.rate.per_second).unwrap_or(Duration::MAX)
    }

    /// A full bucket equals a new one, so its owner may drop it.
    pub fn is_full(&mut self, now: Duration) -> bool {
        self.fill(now);
        self.level >= self.rate.burst
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.filled_at).as_secs_f64();
        self.level = passed.mul_add(self.rate.per_second, self.level).min(self.rate.burst);
        self.filled_at = self.filled_at.max(now);
    }
}

#[cfg(test)]
mod tests;
