//! `[memory]`: the memory of agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The memory of agents, and how much of it is part of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryConfig {
    /// Recent turns of the session that go into every prompt.
    #[schemars(range(max = 1000))]
    pub episodic_window: u32,
    /// Store facts from conversations and retrieve those that are relevant to a message.
    pub semantic: bool,
    /// Tokens that soul, facts and past turns may take together.
    #[schemars(range(min = 256))]
    pub context_tokens: u32,
    /// Embedding model, so that facts are found by meaning too. Left out, full-text search only.
    pub embedding: Option<ProviderModelConfig>,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { episodic_window: 5, semantic: true, context_tokens: 5000, embedding: None }
    }
}

/// A model of a configured provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["provider", "model"]))]
pub struct ProviderModelConfig {
    /// Provider of the model.
    #[schemars(example = &"main")]
    pub provider: String,
    /// Model name.
    #[schemars(example = &"nomic-embed-text")]
    pub model: String,
}
