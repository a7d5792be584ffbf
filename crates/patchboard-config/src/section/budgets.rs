//! `[budgets]`: token limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Token limits, input and output together. Left out means unlimited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetsConfig {
    /// Tokens one session may use.
    #[schemars(range(min = 1), example = 10000)]
    pub session: Option<u64>,
    /// Tokens per day, UTC.
    #[schemars(range(min = 1), example = 1000000)]
    pub daily: Option<u64>,
    /// Tokens per calendar month, UTC.
    #[schemars(range(min = 1), example = 20000000)]
    pub monthly: Option<u64>,
}
