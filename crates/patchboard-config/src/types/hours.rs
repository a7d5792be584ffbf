//! Hours of the day such as `"22:00-07:00"`.

use std::{fmt, str::FromStr};

use patchboard_core::hub::notice::QuietHours;

/// A range of times of day, possibly across midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayHours(QuietHours);

impl From<DayHours> for QuietHours {
    fn from(hours: DayHours) -> Self {
        hours.0
    }
}

impl FromStr for DayHours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl fmt::Display for DayHours {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

super::string_value!(
    DayHours,
    kind: "hours",
    expects: "hours such as \"22:00-07:00\"",
    pattern: "^[0-2][0-9]:[0-5][0-9] *- *[0-2][0-9]:[0-5][0-9]$"
);
