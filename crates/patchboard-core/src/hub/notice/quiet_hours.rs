//! Hours of the day in which only urgent notices are shown.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, civil};

/// Longest wait between checks for the end of quiet hours, since the clock may be set and machines sleep.
const MAX_RECHECK: Duration = Duration::from_secs(60);

/// A time-of-day range, possibly across midnight: `22:00-07:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietHours {
    from: civil::Time,
    to: civil::Time,
}

impl QuietHours {
    pub(super) fn contain(&self, at: Timestamp, zone: &TimeZone) -> bool {
        let time = zone.to_datetime(at).time();
        match self.from < self.to {
            true => self.from <= time && time < self.to,
            false => self.from <= time || time < self.to,
        }
    }

    /// How long to wait before checking again whether the quiet hours that contain `at` are over.
    pub(super) fn wait(&self, at: Timestamp, zone: &TimeZone) -> Duration {
        let local = zone.to_datetime(at);
        let day = match local.time() < self.to {
            true => Ok(local.date()),
            false => local.date().tomorrow(),
        };
        let end = day.and_then(|day| day.to_datetime(self.to).to_zoned(zone.clone()));
        // The hour repeated when daylight saving ends may put the end into the past; then it is checked again later.
        let remaining = end.map_or(SignedDuration::ZERO, |end| end.timestamp().duration_since(at));
        Duration::try_from(remaining)
            .ok()
            .filter(|remaining| !remaining.is_zero())
            .unwrap_or(MAX_RECHECK)
            .min(MAX_RECHECK)
    }
}

impl FromStr for QuietHours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("`{text}` is not hours such as `22:00-07:00`");
        let (from, to) = text.split_once('-').ok_or_else(invalid)?;
        let (from, to) = (time(from).ok_or_else(invalid)?, time(to).ok_or_else(invalid)?);
        if from == to {
            return Err(format!("`{text}` ends when it begins"));
        }
        Ok(Self { from, to })
    }
}

/// Parses `07:00`, two digits each.
fn time(text: &str) -> Option<civil::Time> {
    let (hour, minute) = text.trim().split_once(':')?;
    let number = |part: &str| {
        let is_two_digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        is_two_digits.then(|| part.parse().ok()).flatten()
    };
    civil::Time::new(number(hour)?, number(minute)?, 0, 0).ok()
}

impl fmt::Display for QuietHours {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(formatter, "{:02}:{:02}-{:02}:{:02}", from.hour(), from.minute(), to.hour(), to.minute())
    }
}

#[cfg(test)]
mod tests;
