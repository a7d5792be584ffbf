//! When a server asks a client to come back, as HTTP headers say it. Pure: headers and time are handed in.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// Milliseconds in `retry-after-ms`, or seconds or a date in `retry-after`. `header` finds a header by its lowercase
/// name. A date counts from the response's own `date`, so that a wrong clock does not matter, or else from `now`; one
/// that is over means at once. `None` if there is no such header or it cannot be read.
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
