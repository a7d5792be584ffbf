//! Moments as people type them.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SpanRelativeTo, Timestamp};
use patchboard_core::port::Clock;

use crate::system::SystemClock;

/// A time, a day, or how long ago.
pub(super) fn parse(text: &str) -> Result<Timestamp, String> {
    parse_at(text, SystemClock.now(), &TimeZone::system())
}

/// A day means its midnight in `zone`.
fn parse_at(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, String> {
    let day = || Some(text.parse::<Date>().ok()?.to_zoned(zone.clone()).ok()?.timestamp());
    let ago = || {
        let ago = text.parse::<jiff::Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
        if ago.is_negative() { None } else { now.checked_sub(ago).ok() }
    };
    text.parse::<Timestamp>().ok().or_else(day).or_else(ago).ok_or_else(|| {
        "write a day such as 2026-11-01, a time such as 2026-11-01T08:00:00Z, or how long ago, such as 2h".to_owned()
    })
}

#[cfg(test)]
mod tests;
