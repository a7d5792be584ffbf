//! Retry schedules and the classification of send results.

use std::time::Duration;

use jiff::Timestamp;

use crate::backoff::{Backoff, BackoffSchedule};
use crate::port::{FetchError, FetchResponse};
use crate::retry_after::retry_after;

const BACKOFF: BackoffSchedule = BackoffSchedule::doubling(Duration::from_secs(1), Duration::from_secs(64));
/// From the first attempt on; no attempt begins later.
const RETRY_WINDOW: Duration = Duration::from_secs(600);
const MAX_RETRIES: u32 = 7;

/// Delays of 1, 2, 4 … seconds, until the retries or the time are used up.
#[derive(Debug)]
pub(super) struct RetrySchedule {
    backoff: Backoff,
    first: tokio::time::Instant,
}

impl RetrySchedule {
    pub(super) fn for_requests() -> Self {
        Self::new(BACKOFF.with_max_retries(MAX_RETRIES))
    }

    /// Without a limit on attempts: looking for a missing adapter is cheap.
    pub(super) fn for_adapters() -> Self {
        Self::new(BACKOFF)
    }

    fn new(schedule: BackoffSchedule) -> Self {
        Self { backoff: Backoff::new(schedule), first: tokio::time::Instant::now() }
    }

    /// The pause before the next attempt, at least `asked_for`; `None` to give up.
    pub(super) fn pause(&mut self, asked_for: Option<Duration>) -> Option<Duration> {
        let pause = self.backoff.next_retry()?.max(asked_for.unwrap_or_default());
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
                status @ (408 | 425 | 429 | 500..=599) => Self::Retry {
                    why: format!("answered {status}"),
                    after: retry_after(|name| header(&fetched.headers, name), Some(now)),
                },
                status => Self::Failed { why: format!("answered {status}") },
            },
            Err(FetchError::Timeout(why) | FetchError::Failed(why)) => Self::Retry { why, after: None },
            Err(FetchError::Refused(why) | FetchError::BadRequest(why)) => Self::Failed { why },
            Err(FetchError::Cancelled) => Self::Stopped,
        }
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// The host of a URL. The rest must not be logged, as it may contain secrets.
pub(super) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
