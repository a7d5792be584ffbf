//! When whoever waits for the answers of apps has them all.

use std::time::Duration;

use jiff::Timestamp;
use patchboard_core::app::message::{AttemptState, MessageReport, MessageState};

/// Decides it by the message as it stands, so that the order of acknowledgements and notifications makes no difference.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerWatch {
    /// Notifications that had come before: they answer an earlier attempt.
    earlier_notices: usize,
    /// How long after it was sent an app may tell something.
    window: Duration,
}

/// No end in sight: something else than time ends it.
const UNBOUNDED: Duration = Duration::from_secs(24 * 3600);

impl AnswerWatch {
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

    /// For how long there may still be something to wait for; `None` when there is not.
    pub(super) fn time_left(&self, report: &MessageReport, now: Timestamp) -> Option<Duration> {
        match report.state {
            // It had its time with an app, and nothing more happens before that app is back.
            MessageState::Queued if report.reason.is_some() && report.current_attempts().next().is_some() => None,
            MessageState::Queued | MessageState::Sent => Some(UNBOUNDED),
            // The hub itself ends the wait for those that owe an answer.
            MessageState::Delivered if report.pending().next().is_some() => Some(UNBOUNDED),
            MessageState::Delivered => self.notice_time_left(report, now),
            MessageState::Held | MessageState::Refused | MessageState::Expired | MessageState::Cancelled => None,
        }
    }

    /// The longest time that is left to one of those who took it and have told nothing yet.
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
