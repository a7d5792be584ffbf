//! Decides when a client that waits for app responses has received all of them.

use std::time::Duration;

use jiff::Timestamp;
use patchboard_core::app::message::{AttemptState, MessageReport, MessageState};

/// Uses only the message's current state, so the order of acknowledgements and notifications does not matter.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoticeWait {
    /// Notifications from before the wait: they belong to an earlier attempt.
    earlier_notices: usize,
    /// How long after delivery an app may answer.
    window: Duration,
}

/// No time limit of its own: another event ends the wait.
const UNBOUNDED: Duration = Duration::from_secs(24 * 3600);

impl NoticeWait {
    pub(super) fn new(report: &MessageReport, window: Duration) -> Self {
        let heard = match report.state {
            MessageState::Queued | MessageState::Sent => report.notices.len(),
            MessageState::Delivered
            | MessageState::Held
            | MessageState::Refused
            | MessageState::Expired
            | MessageState::Cancelled => 0,
        };
        Self { earlier_notices: heard, window }
    }

    /// How long an answer may still arrive; `None` when nothing more is expected.
    pub(super) fn time_left(&self, report: &MessageReport, now: Timestamp) -> Option<Duration> {
        match report.state {
            // An app timed out, and nothing happens before it reconnects.
            MessageState::Queued if report.reason.is_some() && report.current_attempts().next().is_some() => None,
            MessageState::Queued | MessageState::Sent => Some(UNBOUNDED),
            // The hub's response timeout bounds the wait for apps that have not responded.
            MessageState::Delivered if report.pending().next().is_some() => Some(UNBOUNDED),
            MessageState::Delivered => self.notice_time_left(report, now),
            MessageState::Held | MessageState::Refused | MessageState::Expired | MessageState::Cancelled => None,
        }
    }

    /// The longest time left of any app that acknowledged the message but has not sent a notification yet.
    fn notice_time_left(&self, report: &MessageReport, now: Timestamp) -> Option<Duration> {
        let told = || report.notices.iter().skip(self.earlier_notices);
        let has_told = |app: &str| told().any(|(teller, _)| teller.eq_ignore_ascii_case(app));
        let taken = report.current_attempts().filter(|attempt| attempt.state == AttemptState::Delivered);
        let silent = taken.filter(|attempt| !has_told(&attempt.app));
        let left = silent.map(|attempt| {
            let passed = Duration::try_from(now.duration_since(attempt.sent_at)).unwrap_or_default();
            self.window.saturating_sub(passed)
        });
        left.max().filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests;
