//! A rate per minute, with a burst of the same size after a silence.

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(super) struct RateLimit {
    interval: Duration,
    /// How far ahead of the steady rate a burst may run.
    slack: Duration,
}

impl RateLimit {
    pub(super) fn per_minute(number: u32) -> Self {
        let number = number.max(1);
        let interval = MINUTE / number;
        Self { interval, slack: interval * (number - 1) }
    }
}

/// The rate state of one lane: when the steady rate would allow the next notice.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RateState {
    next_steady_slot: Duration,
}

impl RateState {
    /// When the next notice may be shown.
    pub(super) fn ready_at(self, rate: RateLimit) -> Duration {
        self.next_steady_slot.saturating_sub(rate.slack)
    }

    pub(super) fn record_shown(&mut self, now: Duration, rate: RateLimit) {
        self.next_steady_slot = self.next_steady_slot.max(now).saturating_add(rate.interval);
    }

    /// Whether the state equals that of a new lane.
    pub(super) fn is_idle(self, now: Duration) -> bool {
        self.next_steady_slot <= now
    }
}
