//! `[log]`: content and format of the log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::env::{Environment, RUST_LOG};

/// The log on standard error. Prompts, tool arguments and tokens are never logged at `info` or above.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Least severe level that is logged.
    pub level: LogLevel,
    /// Filter by module and level, instead of `level`. Left out, `RUST_LOG`.
    #[schemars(example = &"warn,patchboard=debug")]
    pub filter: Option<String>,
    /// Format of a log line.
    pub format: LogFormat,
}

impl LogConfig {
    /// The filter directives in effect.
    pub fn directives(&self, environment: &Environment) -> String {
        self.filter.as_deref().or_else(|| environment.get(RUST_LOG)).map_or_else(
            // Libraries log at `warn` only; `patchboard` is a prefix of all own crates. `rmcp` is off because
            // `patchboard_tools` reports the events of MCP servers; `rmcp` would repeat them, with whole messages.
            || format!("warn,rmcp=off,patchboard={}", self.level.as_str()),
            str::to_owned,
        )
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// a human must look
    Error,
    /// degraded but carried on
    Warn,
    /// starts, stops and other changes of state
    #[default]
    Info,
    /// every message
    Debug,
    /// every frame
    Trace,
}

impl LogLevel {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// `human` on a terminal, else `json`
    #[default]
    Auto,
    /// readable lines
    Human,
    /// one JSON object per line
    Json,
}
