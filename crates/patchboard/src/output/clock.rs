//! Times as the user's clock shows them. Programs read RFC 3339 in UTC, with `--json`.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// For lists.
pub(crate) const MINUTE: &str = "%Y-%m-%d %H:%M";
pub(crate) const SECOND: &str = "%Y-%m-%d %H:%M:%S";

/// A time that a server said, in the zone of this machine.
pub(crate) fn local(time: &str, shape: &str) -> String {
    in_zone(time, &TimeZone::system(), shape)
}

/// The same in another zone; what is no time is left as it is.
pub(crate) fn in_zone(time: &str, zone: &TimeZone, shape: &str) -> String {
    let local = |time: Timestamp| time.to_zoned(zone.clone()).strftime(shape).to_string();
    time.parse().map_or_else(|_| time.to_owned(), local)
}

#[cfg(test)]
mod tests;
