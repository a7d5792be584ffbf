//! `[local_model]`: the managed model that runs beside the server.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::TimeSpan;

/// The managed local model. Nothing is ever fetched for it but by `patchboard serve --local-model`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LocalModelConfig {
    /// When the installed model is used by agents that name no provider.
    pub enabled: LocalModelUse,
    /// Weights to run, a GGUF file. Left out, the small model that `patchboard serve --local-model` fetches.
    #[schemars(example = &"model.gguf", extend("x-kind" = "path"))]
    pub weights: Option<PathBuf>,
    /// Longest answer of one call, in tokens, whatever the agent allows. The strategies `tot` and `got` get half of it, and 12 calls where the agent says nothing.
    #[schemars(range(min = 16, max = 131_072))]
    pub max_tokens: u32,
    /// How long nobody uses the model before its process ends. The next call starts it again.
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
    /// where it is installed and no provider, key or other model server is found
    #[default]
    Auto,
    /// always; without it the server does not start
    On,
    /// never
    Off,
}
