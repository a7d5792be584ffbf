//! Sizes such as `"64KiB"` or `"16MiB"`.

use std::{fmt, str::FromStr};

/// A number of bytes written with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// One tebibyte: no limit of this program is meaningful beyond it.
const MAX_BYTES: u64 = 1 << 40;

impl ByteSize {
    pub(crate) const fn from_kib(count: u64) -> Self {
        Self(count << 10)
    }

    pub(crate) const fn from_mib(count: u64) -> Self {
        Self(count << 20)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// For APIs that count in `usize`; saturates on small machines.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a size such as `64KiB` or `16MiB`");
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits).ok_or_else(bad)?;
        let number: u64 = number.parse().map_err(|_| bad())?;
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit.trim_start()).ok_or_else(bad)?;
        number
            .checked_mul(*scale)
            .filter(|bytes| *bytes <= MAX_BYTES)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is larger than 1024GiB"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS.iter().find(|(_, scale)| self.0 >= *scale && self.0.is_multiple_of(*scale));
        let (name, scale) = exact.unwrap_or(&("B", 1));
        write!(formatter, "{}{name}", self.0 / scale)
    }
}

super::string_value!(
    ByteSize,
    kind: "size",
    expects: "a size such as \"16MiB\"",
    pattern: "^[0-9]+ *(B|KB|KiB|MB|MiB|GB|GiB)$"
);
