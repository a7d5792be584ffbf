//! The managed local model as the provider of agents that name none.

use std::sync::Arc;

use patchboard_providers::managed::{ManagedServer, prepare};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failure::CommandFailure;
use super::progress::TerminalProgress;
use crate::config::provider_choice::{LOCAL_PROVIDER, ProviderChoice, local_provider};
use crate::config::section::ProviderConfig;
use crate::config::{LoadedConfig, Secrets};

/// Makes sure there is a provider, as if it had been configured. Answers which one was chosen and why, in a sentence;
/// nothing where one is configured. `running` is the local model that is managed already.
pub(crate) async fn ensure_provider(
    loaded: &mut LoadedConfig,
    secrets: &mut Secrets,
    running: Option<Arc<ManagedServer>>,
    stop: &CancellationToken,
    background: &TaskTracker,
) -> Result<Option<String>, CommandFailure> {
    let found = loaded.find_provider(stop).await.map_err(CommandFailure::from_local_model_error)?;
    let Some(choice) = found else { return Ok(None) };
    match (choice.installed.clone(), running) {
        (Some(_), Some(server)) => adopt(loaded, secrets, server),
        (Some(prepared), None) => {
            let server = ManagedServer::start_asleep(prepared, stop, background)
                .await
                .map_err(CommandFailure::from_local_model_error)?;
            adopt(loaded, secrets, Arc::new(server));
        }
        (None, _) => loaded.config.add_provider(&choice, secrets),
    }
    Ok(Some(choice.reason))
}

/// `--local-model`: fetches what is missing and starts the model at once, so that what is wrong with it shows now.
pub(super) async fn install_and_start(
    loaded: &mut LoadedConfig,
    secrets: &mut Secrets,
    stop: &CancellationToken,
    background: &TaskTracker,
) -> Result<(), CommandFailure> {
    let bar = TerminalProgress::new();
    let prepared = prepare(&loaded.local_model_options(), &bar, stop).await;
    bar.finish();
    let prepared = prepared.map_err(CommandFailure::from_local_model_error)?;
    let server =
        ManagedServer::start(prepared, stop, background).await.map_err(CommandFailure::from_local_model_error)?;
    tracing::info!(
        "using the local model {}; it stops after {} without a call and starts again with the next",
        server.model_name(),
        loaded.config.local_model.idle_timeout
    );
    adopt(loaded, secrets, Arc::new(server));
    Ok(())
}

/// Agents without a provider use it, within its bounds.
pub(crate) fn adopt(loaded: &mut LoadedConfig, secrets: &mut Secrets, server: Arc<ManagedServer>) {
    let provider = ProviderConfig { base_url: Some(server.base_url()), ..local_provider(server.model_name()) };
    let choice = ProviderChoice {
        name: LOCAL_PROVIDER.to_owned(),
        provider,
        key: Some(server.api_key().clone()),
        reason: String::new(),
        installed: None,
    };
    loaded.config.add_provider(&choice, secrets);
    let most = loaded.config.local_model.max_tokens.min(server.context_tokens() / 4);
    for agent in loaded.config.agents.values_mut().filter(|agent| agent.provider.is_none()) {
        agent.provider = Some(choice.name.clone());
        agent.context_window.get_or_insert(server.context_tokens());
        agent.max_tokens = agent.max_tokens.min(most);
        if !server.supports_tools() && agent.tools.is_none() {
            agent.tools = Some(Vec::new());
        }
    }
    loaded.local_model = Some(server);
}
