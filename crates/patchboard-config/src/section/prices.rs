//! `[prices]`: token prices, for the estimates in usage reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["input", "output"]))]
pub struct PriceConfig {
    /// US dollars per million input tokens.
    #[schemars(range(min = 0.0), example = 2.5)]
    pub input: f64,
    /// US dollars per million output tokens.
    #[schemars(range(min = 0.0), example = 10.0)]
    pub output: f64,
}

impl PriceConfig {
    pub const FREE: Self = Self::new(0.0, 0.0);

    pub(crate) const fn new(input: f64, output: f64) -> Self {
        Self { input, output }
    }
}

/// Prices by model pattern, used if `[prices]` has no match.
pub const BUILT_IN_PRICES: [(&str, PriceConfig); 7] = [
    ("*sonnet*", PriceConfig::new(3.0, 15.0)),
    ("*haiku*", PriceConfig::new(0.25, 1.25)),
    ("*opus*", PriceConfig::new(15.0, 75.0)),
    ("*gpt-4o*", PriceConfig::new(2.5, 10.0)),
    ("*gpt-4*", PriceConfig::new(30.0, 60.0)),
    ("*gpt-3.5*", PriceConfig::new(0.5, 1.5)),
    ("*", PriceConfig::new(3.0, 15.0)),
];
