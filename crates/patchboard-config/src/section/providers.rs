//! `[providers.NAME]`: model providers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PriceConfig;
use crate::{
    env::{ANTHROPIC_BASE_URL, Environment, OPENAI_BASE_URL},
    types::{SecretRef, TimeSpan},
};

/// A model provider. If none is configured, one is chosen from the environment, stored keys, local servers and the
/// installed local model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["kind"]))]
pub struct ProviderConfig {
    /// Which API the provider speaks.
    #[schemars(example = &"openai")]
    pub kind: ProviderKind,
    /// API root, with or without a trailing `/v1`. Left out, `ANTHROPIC_BASE_URL` or `OPENAI_BASE_URL`, then the vendor's own.
    #[schemars(example = &"http://127.0.0.1:11434/v1", extend("x-kind" = "url"))]
    pub base_url: Option<String>,
    /// Key for the API. If both this and `base_url` are left out, `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`; then the key
    /// stored by `patchboard onboard`.
    #[schemars(example = &"env:OPENAI_API_KEY")]
    pub api_key: Option<SecretRef>,
    /// Model used if the agent names none, or if this provider is a fallback.
    #[schemars(example = &"llama3.2")]
    pub model: Option<String>,
    /// Time limit for the beginning of the answer. Local servers process the whole prompt first.
    pub response_timeout: TimeSpan,
    /// How long a stream may stay silent before the call fails.
    pub idle_timeout: TimeSpan,
    /// Time limit for connecting.
    pub connect_timeout: TimeSpan,
    /// Price of the models that agents use of this provider; left out, `[prices]` applies.
    pub price: Option<PriceConfig>,
}

impl Default for ProviderConfig {
    fn default() -> Self {
        Self {
            kind: ProviderKind::Offline,
            base_url: None,
            api_key: None,
            model: None,
            response_timeout: TimeSpan::from_secs(45),
            idle_timeout: TimeSpan::from_secs(45),
            connect_timeout: TimeSpan::from_secs(5),
            price: None,
        }
    }
}

impl ProviderConfig {
    pub fn of_kind(kind: ProviderKind) -> Self {
        Self { kind, ..Self::default() }
    }

    /// The API root of calls; `None` for the offline provider.
    pub fn api_root(&self, environment: &Environment) -> Option<String> {
        let (variable, vendor) = match self.kind {
            ProviderKind::Anthropic => (ANTHROPIC_BASE_URL, "https://api.anthropic.com"),
            ProviderKind::Openai => (OPENAI_BASE_URL, "https://api.openai.com/v1"),
            ProviderKind::Offline => return None,
        };
        let root = self.base_url.as_deref().or_else(|| environment.get(variable)).unwrap_or(vendor);
        Some(root.trim().trim_end_matches('/').to_owned())
    }

    /// The model used if an agent names none.
    pub fn default_model(&self) -> &str {
        self.model.as_deref().unwrap_or(self.kind.default_model())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// the Anthropic Messages API
    Anthropic,
    /// the OpenAI Chat Completions API, also of Ollama, llama.cpp, vLLM and other compatible servers
    Openai,
    /// built in; answers without a model
    Offline,
}

impl ProviderKind {
    pub(crate) const fn default_model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-4-5-20250929",
            Self::Openai => "gpt-4o",
            Self::Offline => "offline",
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Offline => "offline",
        }
    }
}
