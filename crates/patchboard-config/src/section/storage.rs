//! `[storage]`: where records live and for how long.

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
    /// How long records are kept.
    pub retention: RetentionConfig,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self { path: PathBuf::from("patchboard.db"), retention: RetentionConfig::default() }
    }
}

/// How long records are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionConfig {
    /// How long finished runs, messages of the hub and webhooks stay on record.
    pub finished_runs: TimeSpan,
    /// How long the events of a finished run are kept: for so long it can be joined. What was said stays in the history.
    pub fold_deltas: TimeSpan,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self { finished_runs: TimeSpan::from_secs(30 * 24 * 3600), fold_deltas: TimeSpan::from_secs(24 * 3600) }
    }
}
