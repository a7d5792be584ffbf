//! `[[workers]]`: bridge workers the server starts and watches.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool of bridge workers that the server starts, watches and replaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "command"]))]
pub(crate) struct WorkerConfig {
    /// Name of the pool; it prefixes tools whose names are taken.
    #[schemars(example = &"py")]
    pub name: String,
    /// Program and arguments.
    #[schemars(example = ["python3", "grpc_server.py", "--adapter", "my.Adapter"])]
    pub command: Vec<String>,
    /// Processes in the pool.
    #[schemars(range(min = 1, max = 256))]
    pub count: u32,
    /// Folder the workers run in; left out, the config file's folder.
    #[schemars(example = &"workers", extend("x-kind" = "path"))]
    pub working_folder: Option<PathBuf>,
    /// Environment variables of the workers: text, `env:NAME` or `file:PATH`. They get no others but `PATH`, `HOME` and locale.
    #[schemars(example = serde_json::json!({"LOG_LEVEL": "info"}), extend("x-kind" = "environment"))]
    pub env: BTreeMap<String, String>,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self { name: String::new(), command: Vec::new(), count: 1, working_folder: None, env: BTreeMap::new() }
    }
}
