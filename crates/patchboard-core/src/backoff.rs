//! Retry delays: how they grow, and after how many retries to give up. Pure: uses neither clock nor randomness, and the
//! caller sleeps.

use std::time::Duration;

/// Delays before retries. Retries are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffSchedule {
    growth: DelayGrowth,
    /// The first retry has no delay.
    is_first_immediate: bool,
    max_retries: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DelayGrowth {
    Doubling {
        first: Duration,
        ceiling: Duration,
    },
    /// The last delay repeats.
    Listed(&'static [Duration]),
}

impl BackoffSchedule {
    /// `first`, doubled for each retry up to `ceiling`, without end.
    pub const fn doubling(first: Duration, ceiling: Duration) -> Self {
        Self::new(DelayGrowth::Doubling { first, ceiling })
    }

    /// The listed delays; the last one repeats without end.
    pub const fn listed(delays: &'static [Duration]) -> Self {
        Self::new(DelayGrowth::Listed(delays))
    }

    const fn new(growth: DelayGrowth) -> Self {
        Self { growth, is_first_immediate: false, max_retries: u32::MAX }
    }

    /// Inserts a first retry without a delay.
    pub const fn with_immediate_first(self) -> Self {
        Self { is_first_immediate: true, ..self }
    }

    /// Ends [`retries`](Self::retries) and [`Backoff::next_retry`] after `max_retries`.
    pub const fn with_max_retries(self, max_retries: u32) -> Self {
        Self { max_retries, ..self }
    }

    /// The delay before a retry, even past the maximum number of retries.
    pub fn delay(&self, retry: u32) -> Duration {
        let Some(index) = retry.checked_sub(u32::from(self.is_first_immediate)) else { return Duration::ZERO };
        match self.growth {
            DelayGrowth::Doubling { first, ceiling } => first.saturating_mul(2_u32.saturating_pow(index)).min(ceiling),
            DelayGrowth::Listed(delays) => {
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                delays.get(index).or(delays.last()).copied().unwrap_or_default()
            }
        }
    }

    /// The delays before all retries. Endless without [`with_max_retries`](Self::with_max_retries).
    pub fn retries(self) -> impl Iterator<Item = Duration> + Send {
        (0..self.max_retries).map(move |retry| self.delay(retry))
    }
}

/// A schedule with the number of retries so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    schedule: BackoffSchedule,
    retries: u32,
}

impl Backoff {
    pub const fn new(schedule: BackoffSchedule) -> Self {
        Self { schedule, retries: 0 }
    }

    /// The next delay, ignoring the maximum number of retries.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.schedule.delay(self.retries);
        self.retries = self.retries.saturating_add(1);
        delay
    }

    /// The next delay; `None` once the retries are used up.
    pub fn next_retry(&mut self) -> Option<Duration> {
        (self.retries < self.schedule.max_retries).then(|| self.next_delay())
    }

    /// Restarts the schedule, after a success.
    pub fn reset(&mut self) {
        self.retries = 0;
    }
}

/// A random delay between half and all of `delay`, so that callers that failed together do not retry together. `chance`
/// is a random number from 0 to 1.
pub fn with_jitter(delay: Duration, chance: f64) -> Duration {
    delay - (delay / 2).mul_f64(1.0 - chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
