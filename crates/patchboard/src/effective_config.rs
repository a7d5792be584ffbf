//! What a server works with: the configuration with the provider that was chosen where none is configured, and the managed
//! local model behind it.

use std::sync::Arc;

use patchboard_config::section::ProviderConfig;
use patchboard_config::{LoadedConfig, Secrets};
use patchboard_local_model::{self as local_model, ManagedServer, PreparedServer};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::provider_choice::{LOCAL_PROVIDER, ProviderChoice, local_provider};

#[derive(Debug, Clone)]
pub(crate) struct EffectiveConfig {
    pub(crate) loaded: LoadedConfig,
    pub(crate) secrets: Secrets,
    /// The managed server behind the provider [`LOCAL_PROVIDER`], once there is one.
    pub(crate) local_model: Option<Arc<ManagedServer>>,
}

impl EffectiveConfig {
    /// As configured, before a provider is chosen.
    pub(crate) fn new(loaded: LoadedConfig, secrets: Secrets) -> Self {
        Self { loaded, secrets, local_model: None }
    }

    /// Ensures that there is a provider, as if it had been configured. Returns a sentence with the choice and its reason,
    /// or `None` if one is configured. `running`: the local model that is already managed.
    pub(crate) async fn ensure_provider(
        &mut self,
        running: Option<Arc<ManagedServer>>,
        stop: &CancellationToken,
        background: &TaskTracker,
    ) -> Result<Option<String>, local_model::Error> {
        let Some(choice) = ProviderChoice::find(&self.loaded, stop).await? else { return Ok(None) };
        match (choice.installed.clone(), running) {
            (Some(_), Some(server)) => self.adopt(server),
            (Some(prepared), None) => {
                let server = ManagedServer::start_asleep(prepared, stop, background).await?;
                self.adopt(Arc::new(server));
            }
            (None, _) => choice.add_to(&mut self.loaded.config, &mut self.secrets),
        }
        Ok(Some(choice.reason))
    }

    /// Starts the model at once, so that what is wrong with it shows now.
    pub(crate) async fn start_local_model(
        &mut self,
        prepared: PreparedServer,
        stop: &CancellationToken,
        background: &TaskTracker,
    ) -> Result<(), local_model::Error> {
        let server = ManagedServer::start(prepared, stop, background).await?;
        tracing::info!(
            "using the local model {}; it stops after {} without a call and starts again with the next",
            server.model_name(),
            self.loaded.config.local_model.idle_timeout
        );
        self.adopt(Arc::new(server));
        Ok(())
    }

    /// Agents without a provider use it, within its bounds.
    pub(crate) fn adopt(&mut self, server: Arc<ManagedServer>) {
        let config = &mut self.loaded.config;
        let provider = ProviderConfig { base_url: Some(server.base_url()), ..local_provider(server.model_name()) };
        let choice = ProviderChoice {
            name: LOCAL_PROVIDER.to_owned(),
            provider,
            key: Some(server.api_key().clone()),
            reason: String::new(),
            installed: None,
        };
        choice.add_to(config, &mut self.secrets);
        let most = config.local_model.max_tokens.min(server.context_tokens() / 4);
        for agent in config.agents.values_mut().filter(|agent| agent.provider.is_none()) {
            agent.provider = Some(choice.name.clone());
            agent.context_window.get_or_insert(server.context_tokens());
            agent.max_tokens = agent.max_tokens.min(most);
            if !server.supports_tools() && agent.tools.is_none() {
                agent.tools = Some(Vec::new());
            }
        }
        self.local_model = Some(server);
    }
}
