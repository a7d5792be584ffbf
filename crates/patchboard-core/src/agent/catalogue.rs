//! The models a run can select: `PROVIDER/MODEL`, split at the first `/`, or a bare model name of the agent's provider.
//!
//! Providers are asked for their models. The list is cached for five minutes, and no request waits longer than two
//! seconds for it: if a provider cannot list its models in time, any model name is accepted for it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::AgentSpec;
use crate::error::BoardError;
use crate::model::{ListedModel, ModelError};
use crate::port::ModelProvider;
use crate::reply::{ModelReport, ModelSummary, UnlistedProvider};
use crate::text::nearest;

const LISTING_TTL: Duration = Duration::from_secs(300);
/// How long a failed listing is cached; otherwise every run would wait for the provider.
const FAILED_LISTING_TTL: Duration = Duration::from_secs(30);
const LISTING_TIMEOUT: Duration = Duration::from_secs(2);
/// Models listed per provider; further ones are not shown, but can be selected.
const MAX_LISTED: usize = 5_000;
/// Longer names are refused, because the name is stored with the run.
const MAX_NAME_BYTES: usize = 256;

/// The configured providers and their cached listings.
#[derive(Debug, Default)]
pub struct ModelCatalogue {
    providers: Vec<ProviderEntry>,
    /// Provider and model of every agent; they can always be selected.
    agent_models: Vec<(Arc<str>, Arc<str>)>,
    /// The context window in tokens of a model, by its name.
    context_window_of: Option<fn(&str) -> u32>,
}

#[derive(Debug)]
struct ProviderEntry {
    provider: Arc<dyn ModelProvider>,
    /// Locked while the provider is asked, so that concurrent callers share one request.
    listing: tokio::sync::Mutex<Option<CachedListing>>,
}

#[derive(Debug, Clone)]
struct CachedListing {
    fetched_at: Instant,
    /// `Err` says why the provider could not list its models.
    offered: Result<ModelListing, Arc<str>>,
}

#[derive(Debug, Clone)]
struct ModelListing {
    models: Arc<[ListedModel]>,
    is_truncated: bool,
}

impl ModelCatalogue {
    /// The agents' own providers, and further ones that runs may select.
    pub fn new(
        agents: &[Arc<AgentSpec>],
        extra_providers: Vec<Arc<dyn ModelProvider>>,
        window: Option<fn(&str) -> u32>,
    ) -> Self {
        let mut providers: Vec<ProviderEntry> = Vec::new();
        // Further providers come first: an agent's own provider may include fallbacks, which must not serve other
        // agents.
        for provider in extra_providers.into_iter().chain(agents.iter().map(|agent| agent.provider.clone())) {
            if !providers.iter().any(|known| known.provider.name() == provider.name()) {
                providers.push(ProviderEntry { provider, listing: tokio::sync::Mutex::default() });
            }
        }
        let named = agents.iter().filter(|agent| !agent.model.is_empty());
        let configured = named.map(|agent| (agent.provider.name().into(), agent.model.clone())).collect();
        Self { providers, agent_models: configured, context_window_of: window }
    }

    /// The agent with another model; whether the provider offers the model is not checked here.
    pub fn select(&self, agent: &AgentSpec, named: &str) -> Result<Arc<AgentSpec>, BoardError> {
        if named.len() > MAX_NAME_BYTES {
            return Err(BoardError::invalid(format!("the name of the model is longer than {MAX_NAME_BYTES} bytes")));
        }
        let own = agent.provider.name();
        let (provider_name, model) = named.split_once('/').unwrap_or((own, named));
        if provider_name.is_empty() || model.is_empty() {
            let message = format!("`{named}` names no model: write `PROVIDER/MODEL`, or `MODEL` for one of `{own}`");
            return Err(BoardError::invalid(message));
        }
        let provider = match self.entry(provider_name) {
            // The agent's own provider keeps its fallbacks.
            _ if provider_name == own => agent.provider.clone(),
            Some(entry) => entry.provider.clone(),
            None => return Err(self.unknown_provider(provider_name, named, own)),
        };
        let is_other = provider_name != own || *model != *agent.model;
        let context_window = match self.context_window_of {
            Some(window) if is_other => window(model),
            Some(_) | None => agent.context_window,
        };
        Ok(Arc::new(AgentSpec { provider, model: model.into(), context_window, ..agent.clone() }))
    }

    /// Refuses an agent if its provider's listing does not contain its model.
    pub async fn check_available(&self, agent: &AgentSpec, stop: &CancellationToken) -> Result<(), BoardError> {
        let (provider, model) = (agent.provider.name(), &*agent.model);
        if self.is_configured(provider, model) {
            return Ok(());
        }
        let Some(entry) = self.entry(provider) else { return Ok(()) };
        match entry.offered_models(stop).await {
            Ok(offered)
                if !offered.is_truncated
                    && !offered.models.iter().any(|listed| matches_listed_id(&listed.id, model)) =>
            {
                Err(unknown_model(provider, model, &offered.models))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The models of all providers, queried concurrently. The model of `agent` is marked as the default.
    pub async fn list(&self, agent: &AgentSpec, stop: &CancellationToken) -> ModelReport {
        let requests = self.providers.iter().map(|entry| async move { (entry, entry.offered_models(stop).await) });
        let mut report = ModelReport::default();
        for (entry, offered) in join_all(requests).await {
            let provider: Arc<str> = entry.provider.name().into();
            let mut models: Vec<ListedModel> = Vec::new();
            match offered {
                Ok(offered) => models.extend(offered.models.iter().cloned()),
                Err(reason) => report.unavailable.push(UnlistedProvider { provider: provider.clone(), reason }),
            }
            for (_, model) in self.agent_models.iter().filter(|(of, _)| *of == provider) {
                if !models.iter().any(|listed| matches_listed_id(&listed.id, model)) {
                    models.push(ListedModel { id: model.clone(), name: None });
                }
            }
            let is_own = *provider == *agent.provider.name();
            let exact = models.iter().position(|listed| listed.id == agent.model);
            let matching = || models.iter().position(|listed| matches_listed_id(&listed.id, &agent.model));
            let default = exact.or_else(matching).filter(|_| is_own);
            report.models.extend(models.into_iter().enumerate().map(|(index, listed)| ModelSummary {
                id: format!("{provider}/{}", listed.id).into(),
                name: listed.name.unwrap_or(listed.id),
                provider: provider.clone(),
                is_default: default == Some(index),
            }));
        }
        report
    }

    fn entry(&self, provider: &str) -> Option<&ProviderEntry> {
        self.providers.iter().find(|entry| entry.provider.name() == provider)
    }

    fn is_configured(&self, provider: &str, model: &str) -> bool {
        self.agent_models.iter().any(|(of, name)| **of == *provider && **name == *model)
    }

    fn unknown_provider(&self, provider: &str, named: &str, own: &str) -> BoardError {
        let names = || self.providers.iter().map(|entry| entry.provider.name());
        let hint = match nearest(provider, names()) {
            Some(suggestion) => format!("did you mean `{suggestion}`?"),
            None => {
                let all = names().collect::<Vec<_>>().join("`, `");
                format!("there are `{all}`; a model of `{own}` with a `/` in its name is written `{own}/{named}`")
            }
        };
        BoardError::invalid(format!("unknown model `{named}`: no provider is named `{provider}`; {hint}"))
    }
}

impl ProviderEntry {
    async fn offered_models(&self, stop: &CancellationToken) -> Result<ModelListing, Arc<str>> {
        let request = async {
            let mut cached = self.listing.lock().await;
            if let Some(listing) = cached.as_ref().filter(|listing| listing.is_fresh()) {
                return listing.offered.clone();
            }
            let offered = match self.provider.models(stop.child_token()).await {
                Ok(mut models) => {
                    let is_truncated = models.len() > MAX_LISTED;
                    models.truncate(MAX_LISTED);
                    Ok(ModelListing { models: models.into(), is_truncated })
                }
                // The caller cancelled, which is no failure of the provider, so it is not cached.
                Err(ModelError::Cancelled) => return Err("cancelled".into()),
                Err(error) => Err(error.to_string().into()),
            };
            *cached = Some(CachedListing { fetched_at: Instant::now(), offered: offered.clone() });
            offered
        };
        let Ok(offered) = tokio::time::timeout(LISTING_TIMEOUT, request).await else {
            let reason: Arc<str> = format!("did not answer within {} s", LISTING_TIMEOUT.as_secs()).into();
            // If another task is asking the provider at the moment, its result is cached instead.
            if let Ok(mut cached) = self.listing.try_lock() {
                *cached = Some(CachedListing { fetched_at: Instant::now(), offered: Err(reason.clone()) });
            }
            return Err(reason);
        };
        offered
    }
}

impl CachedListing {
    fn is_fresh(&self) -> bool {
        let ttl = if self.offered.is_ok() { LISTING_TTL } else { FAILED_LISTING_TTL };
        self.fetched_at.elapsed() < ttl
    }
}

/// Does `requested` mean the listed model? Servers accept shorter names than they list: `llama3.2` for
/// `llama3.2:latest`, and a name without its date or with `-latest` for `NAME-20250929`.
fn matches_listed_id(listed: &str, requested: &str) -> bool {
    let undated = requested.strip_suffix("-latest").unwrap_or(requested);
    let is_date = |rest: &str| rest.len() == 8 && rest.bytes().all(|byte| byte.is_ascii_digit());
    listed == requested
        || listed.strip_prefix(requested) == Some(":latest")
        || listed.strip_prefix(undated).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_date)
}

fn unknown_model(provider: &str, model: &str, offered: &[ListedModel]) -> BoardError {
    let hint = match nearest(model, offered.iter().map(|listed| &*listed.id)) {
        Some(suggestion) => format!("did you mean `{provider}/{suggestion}`?"),
        None => "`patchboard models` lists them".to_owned(),
    };
    BoardError::invalid(format!("unknown model `{model}`: provider `{provider}` does not offer it; {hint}"))
}

#[cfg(test)]
mod tests;
