//! `[local_model]`: the managed model that runs beside the server.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::TimeSpan;

/// The managed local model. Only `patchboard serve --local-model` downloads anything for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LocalModelConfig {
    /// When agents that name no provider use the installed model.
    pub enabled: LocalModelUse,
    /// Weights to run, a GGUF file. Left out, the small model that `patchboard serve --local-model` downloads.
    #[schemars(example = &"model.gguf", extend("x-kind" = "path"))]
    pub weights: Option<PathBuf>,
    /// Longest answer of one call, in tokens, whatever the agent allows. The strategies `tot` and `got` get half of it,
    /// and 12 calls if the agent sets no number.
    #[schemars(range(min = 16, max = 131_072))]
    pub max_tokens: u32,
    /// Idle time after which the model's process is stopped. The next call starts it again.
    pub idle_timeout: TimeSpan,
}

impl Default for LocalModelConfig {
    fn default() -> Self {
        Self { enabled: LocalModelUse::Auto, weights: None, max_tokens: 512, idle_timeout: TimeSpan::from_secs(600) }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalModelUse {
    /// if it is installed and no provider, key or other model server is found
    #[default]
    Auto,
    /// always; the server does not start without it
    On,
    /// never
    Off,
}
