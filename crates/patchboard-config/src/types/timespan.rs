//! Durations such as `"30s"`, `"1h30m"` or `"30d"`.

use std::{fmt, str::FromStr, time::Duration};

/// A duration written with units: `ms`, `s`, `m`, `h`, `d`, largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan(Duration);

/// Ten years: longer spans are typing errors, and deadlines computed from them would overflow.
const MAX_SPAN: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Units in the order they must appear, with their length in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl TimeSpan {
    pub(crate) const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl From<TimeSpan> for Duration {
    fn from(span: TimeSpan) -> Self {
        span.0
    }
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a duration such as `30s`, `500ms` or `1h30m`");
        let mut rest = text;
        let mut total: u64 = 0;
        // Each unit may appear once, largest first: `90m` and `1h30m` are valid, `30m1h` and `1s1s` are errors.
        let mut next_unit = 0;
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = rest.split_at_checked(digits).ok_or_else(bad)?;
            let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, tail) = tail.split_at_checked(letters).ok_or_else(bad)?;
            let number: u64 = number.parse().map_err(|_| bad())?;
            let position = UNITS
                .iter()
                .position(|(name, _)| *name == unit)
                .filter(|position| *position >= next_unit)
                .ok_or_else(bad)?;
            let (_, scale) = UNITS.get(position).ok_or_else(bad)?;
            let too_long = || format!("`{text}` is longer than ten years");
            total = number.checked_mul(*scale).and_then(|part| total.checked_add(part)).ok_or_else(too_long)?;
            if Duration::from_millis(total) > MAX_SPAN {
                return Err(too_long());
            }
            next_unit = position + 1;
            rest = tail;
        }
        Ok(Self::from_millis(total))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if left == 0 {
            return formatter.write_str("0s");
        }
        for (name, scale) in UNITS {
            let count = left / scale;
            // Follows common usage: `24h` and `60s` instead of `1d` and `1m`, and no days beside hours.
            let usual = match name {
                "d" => left.is_multiple_of(scale) && count > 1,
                "m" => left != scale,
                _ => true,
            };
            if count > 0 && usual {
                write!(formatter, "{count}{name}")?;
                left %= scale;
            }
        }
        Ok(())
    }
}

super::string_value!(
    TimeSpan,
    kind: "duration",
    expects: "a duration such as \"30s\"",
    pattern: "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"
);
