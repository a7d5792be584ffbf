//! `[storage]`: location and retention of records.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::TimeSpan;

/// Where sessions, runs, facts, budgets and messages are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StorageConfig {
    /// SQLite database file. Relative to the data folder.
    #[schemars(extend("x-kind" = "data-path"))]
    pub path: PathBuf,
    /// Retention of records.
    pub retention: RetentionConfig,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self { path: PathBuf::from("patchboard.db"), retention: RetentionConfig::default() }
    }
}

/// Retention of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionConfig {
    /// How long finished runs, hub messages and webhooks are kept.
    pub finished_runs: TimeSpan,
    /// How long after its end the streamed text of a run is stored as it came. Then adjacent pieces become one record;
    /// numbers and pieces stay, so the run can be followed until `finished_runs`.
    pub fold_deltas: TimeSpan,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self { finished_runs: TimeSpan::from_secs(30 * 24 * 3600), fold_deltas: TimeSpan::from_secs(24 * 3600) }
    }
}
