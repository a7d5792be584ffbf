//! `[[workers]]`: bridge workers that the server starts and supervises.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{ByteSize, TimeSpan};

/// A pool of bridge workers that the server starts, supervises and replaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "command"]))]
pub struct WorkerConfig {
    /// Name of the pool, up to 32 characters; prefixes the names of tools whose own names are taken.
    #[schemars(example = &"py")]
    pub name: String,
    /// Whether the entry is used. `false` disables one that an earlier file configured.
    pub enabled: bool,
    /// Program and arguments.
    #[schemars(example = ["python3", "grpc_server.py", "--adapter", "my.Adapter"])]
    pub command: Vec<String>,
    /// Processes in the pool.
    #[schemars(range(min = 1, max = 256))]
    pub count: u32,
    /// Folder the workers run in; left out, the config file's folder.
    #[schemars(example = &"workers", extend("x-kind" = "path"))]
    pub working_folder: Option<PathBuf>,
    /// Environment variables of the workers: text, `env:NAME` or `file:PATH`. They also get `PATH`, `HOME`, locale and
    /// the variables of the bridge; variables set here take precedence.
    #[schemars(example = serde_json::json!({"LOG_LEVEL": "info"}), extend("x-kind" = "environment"))]
    pub env: BTreeMap<String, String>,
    /// Files and folders the workers may change, besides a private folder for each. They can read what the server can,
    /// except its data and keys.
    #[schemars(example = ["output"], extend("x-kind" = "path"))]
    pub writable: Vec<PathBuf>,
    /// Start one process that imports everything once and fork the workers from it. Only for workers made with the SDK.
    pub warm: bool,
    /// How long a worker may take to become ready.
    pub start_timeout: TimeSpan,
    /// Concurrent calls per worker. Left out, the number that the worker reports, or the number of processors plus 4,
    /// at most 32.
    #[schemars(range(min = 1, max = 1024), example = 8)]
    pub capacity: Option<u32>,
    /// Whether the calls of a session go to the same worker.
    pub affinity: SessionAffinity,
    /// How long a call may wait for a free worker. Left out, `bridge.queue_timeout`.
    #[schemars(example = &"10s")]
    pub queue_timeout: Option<TimeSpan>,
    /// Calls that may wait at once; further ones are refused. Left out, `bridge.max_queue`.
    #[schemars(range(min = 1), example = 1000)]
    pub max_queue: Option<u32>,
    /// Replace a worker after this time. As with the next two keys, its replacement starts first and its calls are
    /// finished.
    #[schemars(example = &"24h")]
    pub max_age: Option<TimeSpan>,
    /// Replace a worker after so many calls.
    #[schemars(range(min = 1), example = 10000)]
    pub max_requests: Option<u64>,
    /// Replace a worker when its whole process tree holds this much memory.
    #[schemars(example = &"1GiB")]
    pub max_memory: Option<ByteSize>,
    /// Memory a worker process can allocate; allocations beyond it fail.
    #[schemars(example = &"8GiB")]
    pub memory_limit: Option<ByteSize>,
    /// Whether bridge clients may call a worker's tools by names that it never registered. Left out, `allow` for
    /// unmodified Snakepit workers and `deny` for workers of the SDK.
    #[schemars(example = &"allow")]
    pub unregistered: Option<UnregisteredToolPolicy>,
    /// Withhold tools whose definitions differ after a restart from all callers until `patchboard tools approve NAME`
    /// approves them.
    pub pin: bool,
    /// How much the workers log.
    pub log_level: WorkerLogLevel,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            enabled: true,
            command: Vec::new(),
            count: 1,
            working_folder: None,
            env: BTreeMap::new(),
            writable: Vec::new(),
            warm: false,
            start_timeout: TimeSpan::from_secs(30),
            capacity: None,
            affinity: SessionAffinity::default(),
            queue_timeout: None,
            max_queue: None,
            max_age: None,
            max_requests: None,
            max_memory: None,
            memory_limit: None,
            unregistered: None,
            pin: true,
            log_level: WorkerLogLevel::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionAffinity {
    /// to the worker of the previous call, if it is free
    #[default]
    Hint,
    /// to that worker, waiting until it is free
    StrictQueue,
    /// to that worker, or refused while it is busy
    StrictFailFast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnregisteredToolPolicy {
    /// the call is passed to a worker, which may know the tool
    Allow,
    /// only registered tools can be called
    Deny,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerLogLevel {
    /// everything
    Debug,
    /// starts, stops and other changes of state
    Info,
    /// degraded but carried on
    Warning,
    /// failures
    #[default]
    Error,
    /// nothing
    None,
}

/// The level names that workers expect.
impl fmt::Display for WorkerLogLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::None => "none",
        })
    }
}
