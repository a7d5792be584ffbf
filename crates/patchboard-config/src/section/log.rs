//! `[log]`: what is logged and how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::env::{Environment, RUST_LOG};

/// What is logged to standard error. Prompts, tool arguments and tokens never are at `info` or above.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// How much is logged.
    pub level: LogLevel,
    /// Filter by module and level, instead of `level`. Left out, `RUST_LOG`.
    #[schemars(example = &"warn,patchboard=debug")]
    pub filter: Option<String>,
    /// Form of a log line.
    pub format: LogFormat,
    /// Log message bodies at `trace`. They hold what users and models say.
    pub bodies: bool,
}

impl LogConfig {
    /// The filter directives that apply.
    pub fn directives(&self, environment: &Environment) -> String {
        self.filter.as_deref().or_else(|| environment.get(RUST_LOG)).map_or_else(
            // Libraries speak at `warn` only; `patchboard` is a prefix of all our crates. What becomes of MCP servers is
            // told by `patchboard_tools`; its library would tell it twice, with whole messages in it.
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
