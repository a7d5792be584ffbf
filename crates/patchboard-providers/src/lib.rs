//! Model providers over HTTP APIs, and a built-in one that needs none.
//!
//! [`build`] creates a provider with retries; [`Chain`] adds fallbacks; [`Upstream`] is a single attempt without
//! either. Inside: `sse` (bytes to events) and each dialect's `request` and `stream` are pure; `http` does the I/O;
//! `chain` decides what to try next. This crate must not know surfaces, the store, configuration files or the
//! environment.

mod anthropic;
mod calls;
pub mod chain;
mod embed;
mod event_reader;
mod http;
mod offline;
mod openai;
pub mod sse;
mod telemetry;
mod tool_json;
mod tool_names;
mod upstream;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use patchboard_core::model::{ListedModel, ModelError, ModelEvent, ModelMessage, ModelRequest};
use patchboard_core::port::ModelProvider;
use patchboard_http::ClientPool;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

pub use crate::chain::{Chain, ChainLink, ChainOptions, Jitter, ModelOverride};
pub use crate::embed::{HttpEmbedder, embedder};
pub use crate::offline::OfflineProvider;
pub use crate::upstream::{
    AttemptLimits, ModelStream, ProviderUpstream, RequestDelivery, RetryAdvice, Upstream, UpstreamFailure,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    Anthropic,
    /// OpenAI, or any server with its Chat Completions API.
    OpenAi,
    /// Built in; sends no requests.
    Offline,
}

/// The operator's settings; [`ProviderOptions::new`] has the defaults.
#[derive(Clone)]
pub struct ProviderOptions {
    /// The name in the configuration, in messages and in metrics.
    pub name: Arc<str>,
    pub kind: ProviderKind,
    /// The API's root URL, with or without `/v1`; `None` is the vendor's own.
    pub base_url: Option<String>,
    pub api_key: Option<SecretString>,
    /// Used if a request names no model.
    pub model: Option<Arc<str>>,
    pub connect_timeout: Duration,
    /// From sending a request to the response head. Local servers send no head before they have processed the prompt.
    pub response_timeout: Duration,
    /// Longest silence within a response.
    pub idle_timeout: Duration,
}

impl ProviderOptions {
    pub fn new(name: impl Into<Arc<str>>, kind: ProviderKind) -> Self {
        Self {
            name: name.into(),
            kind,
            base_url: None,
            api_key: None,
            model: None,
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(45),
            idle_timeout: Duration::from_secs(45),
        }
    }
}

/// Omits the key, and the URL's userinfo, which may contain a password.
impl fmt::Debug for ProviderOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderOptions")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("provider `{provider}` has a `base_url` that cannot be used: {reason}")]
    BaseUrl { provider: String, reason: &'static str },
    #[error("provider `{provider}` has an API key that cannot be sent: it holds control characters")]
    ApiKey { provider: String },
}

/// A provider with retries, for agents without fallbacks.
pub fn build(options: ProviderOptions, pool: &ClientPool) -> Result<Arc<dyn ModelProvider>, Error> {
    let link = ChainLink::new(upstream(options, pool)?, ModelOverride::Requested);
    Ok(Arc::new(Chain::new(link, Vec::new(), ChainOptions::default())))
}

/// One upstream for a [`Chain`]. Does not connect before the first request.
pub fn upstream(options: ProviderOptions, pool: &ClientPool) -> Result<Arc<dyn Upstream>, Error> {
    Ok(match options.kind {
        ProviderKind::Anthropic => Arc::new(anthropic::Anthropic::new(options, pool)?),
        ProviderKind::OpenAi => Arc::new(openai::OpenAi::new(options, pool)?),
        ProviderKind::Offline => Arc::new(OfflineProvider::new(options.name)),
    })
}

/// Requests a few tokens once, to check that address, key and model name are valid.
pub async fn probe_model(
    options: ProviderOptions,
    pool: &ClientPool,
    stop: &CancellationToken,
) -> Result<(), ModelError> {
    /// Some servers refuse smaller limits.
    const FEW_TOKENS: u32 = 16;
    let request = ModelRequest {
        model: Arc::default(),
        system: Arc::default(),
        messages: vec![ModelMessage::user("Hi")],
        tools: Arc::from([]),
        max_tokens: FEW_TOKENS,
        temperature: None,
    };
    let limits = AttemptLimits { connect_within: options.connect_timeout };
    let upstream = upstream(options, pool).map_err(|error| ModelError::NotConfigured(error.to_string()))?;
    let mut answer = upstream.attempt(&request, limits, stop).await.map_err(|failure| failure.error)?;
    while let Some(event) = answer.next().await {
        // The first content suffices.
        if !matches!(event?, ModelEvent::ModelSelected { .. }) {
            break;
        }
    }
    Ok(())
}

/// The models that a provider offers. Both APIs return the same shape.
pub async fn list_models(
    options: ProviderOptions,
    pool: &ClientPool,
    stop: &CancellationToken,
) -> Result<Vec<ListedModel>, ModelError> {
    match options.kind {
        ProviderKind::Anthropic => anthropic::list_models(options, pool, stop).await,
        ProviderKind::OpenAi => openai::list_models(options, pool, stop).await,
        ProviderKind::Offline => Upstream::models(&OfflineProvider::new(options.name), stop).await,
    }
}

fn missing_key(provider: &str, variable: &str) -> ModelError {
    ModelError::NotConfigured(format!(
        "no API key for provider '{provider}'. Set {variable} env var or run `patchboard onboard`"
    ))
}

#[cfg(test)]
mod tests;
