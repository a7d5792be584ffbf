//! Retry schedules and the classification of send results.

use std::time::Duration;

use jiff::Timestamp;

use crate::port::{FetchError, FetchResponse};

/// Upper bound on the back-off.
const LONGEST_PAUSE: Duration = Duration::from_secs(64);
/// Measured from the first attempt; no attempt begins later.
const RETRY_WINDOW: Duration = Duration::from_secs(600);
const MAX_ATTEMPTS: u32 = 8;

/// Pauses of 1, 2, 4 … seconds, until the attempts or the time are used up.
#[derive(Debug)]
pub(super) struct RetrySchedule {
    attempts: u32,
    /// `None`: as many as fit into the time.
    max_attempts: Option<u32>,
    first: tokio::time::Instant,
}

impl RetrySchedule {
    pub(super) fn for_requests() -> Self {
        Self { attempts: 0, max_attempts: Some(MAX_ATTEMPTS), first: tokio::time::Instant::now() }
    }

    /// Without a limit on attempts: looking for a missing adapter is cheap.
    pub(super) fn for_adapters() -> Self {
        Self { max_attempts: None, ..Self::for_requests() }
    }

    /// The pause before the next attempt, at least `asked_for`; `None` to give up.
    pub(super) fn pause(&mut self, asked_for: Option<Duration>) -> Option<Duration> {
        self.attempts = self.attempts.saturating_add(1);
        if self.max_attempts.is_some_and(|most| self.attempts >= most) {
            return None;
        }
        let grown = Duration::from_secs(1 << (self.attempts - 1).min(6)).min(LONGEST_PAUSE);
        let pause = grown.max(asked_for.unwrap_or_default());
        (self.first.elapsed().saturating_add(pause) <= RETRY_WINDOW).then_some(pause)
    }
}

/// The outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SendOutcome {
    Sent,
    /// May succeed later, no earlier than `after` if the other side gave a time.
    Retry {
        why: String,
        after: Option<Duration>,
    },
    Failed {
        why: String,
    },
    /// This server is shutting down.
    Stopped,
}

impl SendOutcome {
    pub(super) fn of(result: Result<FetchResponse, FetchError>, now: Timestamp) -> Self {
        match result {
            Ok(fetched) => match fetched.status {
                200..=299 => Self::Sent,
                status @ (408 | 425 | 429 | 500..=599) => {
                    Self::Retry { why: format!("answered {status}"), after: retry_after(&fetched.headers, now) }
                }
                status => Self::Failed { why: format!("answered {status}") },
            },
            Err(FetchError::Timeout(why) | FetchError::Failed(why)) => Self::Retry { why, after: None },
            Err(FetchError::Refused(why) | FetchError::BadRequest(why)) => Self::Failed { why },
            Err(FetchError::Cancelled) => Self::Stopped,
        }
    }
}

/// Parses `Retry-After`, in seconds or as a date. An unreadable value is ignored.
fn retry_after(headers: &[(String, String)], now: Timestamp) -> Option<Duration> {
    let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"))?;
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

/// The host of a URL. The rest must not be logged, as it may contain secrets.
pub(super) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
