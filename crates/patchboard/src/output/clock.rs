//! Times in local time. Programs get RFC 3339 in UTC, with `--json`.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The format of lists.
pub(crate) const MINUTE: &str = "%Y-%m-%d %H:%M";
pub(crate) const SECOND: &str = "%Y-%m-%d %H:%M:%S";

/// A server's time in local time.
pub(crate) fn local(time: &str, shape: &str) -> String {
    in_zone(time, &TimeZone::system(), shape)
}

/// The same in another zone; text that is not a time is returned unchanged.
pub(crate) fn in_zone(time: &str, zone: &TimeZone, shape: &str) -> String {
    let local = |time: Timestamp| time.to_zoned(zone.clone()).strftime(shape).to_string();
    time.parse().map_or_else(|_| time.to_owned(), local)
}

#[cfg(test)]
mod tests;
