//! The time of day, which two processes of one machine agree on.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970. Nineteen digits until the year 2286.
#[expect(clippy::disallowed_methods, reason = "measures delays between processes; there is nothing to inject")]
pub(super) fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
