//! So many a minute, and as many at once after a silence.

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    interval: Duration,
    /// How far ahead of the steady pace a burst may run.
    slack: Duration,
}

impl Rate {
    pub(super) fn per_minute(number: u32) -> Self {
        let number = number.max(1);
        let interval = MINUTE / number;
        Self { interval, slack: interval * (number - 1) }
    }
}

/// Where one app stands: when the steady pace would allow the next one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    steady: Duration,
}

impl Pace {
    /// From then on one may be shown.
    pub(super) fn ready_at(self, rate: Rate) -> Duration {
        self.steady.saturating_sub(rate.slack)
    }

    pub(super) fn count(&mut self, now: Duration, rate: Rate) {
        self.steady = self.steady.max(now).saturating_add(rate.interval);
    }

    /// Nothing is remembered of the past any more.
    pub(super) fn is_rested(self, now: Duration) -> bool {
        self.steady <= now
    }
}
