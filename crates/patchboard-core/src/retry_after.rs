//! Parses HTTP's `retry-after` headers. Pure: headers and the current time are parameters.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// The delay from `retry-after-ms` (milliseconds) or `retry-after` (seconds or a date). `header` looks a header up by
/// its lowercase name. A date is relative to the response's own `date`, so that clock skew does not matter, or else to
/// `now`; a past date gives zero. `None` if the headers are missing or invalid.
pub fn retry_after<'a>(header: impl Fn(&str) -> Option<&'a str>, now: Option<Timestamp>) -> Option<Duration> {
    let header = |name: &str| header(name).map(str::trim);
    if let Some(milliseconds) = header("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    let after = header("retry-after")?;
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |text: &str| -> Option<Timestamp> { DateTimeParser::new().parse_timestamp(text).ok() };
    let now = header("date").and_then(date).or(now)?;
    Some(Duration::try_from(date(after)?.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests;
