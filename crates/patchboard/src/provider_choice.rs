//! Chooses a model provider when none is configured, and says why.
//!
//! The choice is a pure function of what was found; looking for it is apart.

use std::collections::BTreeMap;

use patchboard_config::credentials::CredentialStore;
use patchboard_config::env::{ANTHROPIC_API_KEY, OPENAI_API_KEY};
use patchboard_config::section::{LocalModelConfig, LocalModelUse, PriceConfig, ProviderConfig, ProviderKind};
use patchboard_config::types::TimeSpan;
use patchboard_config::{Config, Environment, LoadedConfig, OFFLINE_PROVIDER, Secrets};
use patchboard_local_model::{self as local_model, ManagedOptions, PreparedServer};
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use probe::{LocalServer, ServerCandidate, probe};

mod probe;

/// What the managed local model is called as a provider.
pub(crate) const LOCAL_PROVIDER: &str = "local";

/// A provider that was chosen rather than configured.
#[derive(Clone, Debug)]
pub(crate) struct ProviderChoice {
    pub name: String,
    pub provider: ProviderConfig,
    pub key: Option<SecretString>,
    /// One sentence for the operator.
    pub reason: String,
    /// The managed local model was chosen, and is run from this.
    pub installed: Option<PreparedServer>,
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
struct ProviderSources<'a> {
    pub env: &'a Environment,
    /// Keys stored by `patchboard onboard`, by provider name.
    pub stored: &'a BTreeMap<String, SecretString>,
    /// Model servers that answered on this machine, best first.
    pub local: &'a [LocalServer],
    /// The managed local model, if it is installed.
    pub installed: Option<InstalledModel<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct InstalledModel<'a> {
    pub name: &'a str,
    pub idle_timeout: TimeSpan,
}

/// Vendors in the order they are considered: name, kind, key variable, title.
const VENDORS: [(&str, ProviderKind, &str, &str); 2] = [
    ("anthropic", ProviderKind::Anthropic, ANTHROPIC_API_KEY, "Anthropic"),
    ("openai", ProviderKind::Openai, OPENAI_API_KEY, "OpenAI"),
];

/// Chooses: keys in the environment, then stored keys, then a local server,
/// then the installed local model, then the built-in offline provider.
fn choose_provider(findings: &ProviderSources<'_>) -> ProviderChoice {
    let from_environment = VENDORS.iter().find_map(|(name, kind, variable, title)| {
        let key = findings.env.get(variable)?.trim();
        (!key.is_empty()).then(|| {
            let because = format!("{variable} is set");
            vendor_choice(findings.env, name, *kind, title, key.into(), &because)
        })
    });
    let from_store = || {
        VENDORS.iter().find_map(|(name, kind, _, title)| {
            let key = findings.stored.get(*name)?.clone();
            let because = "its key is stored on this machine";
            Some(vendor_choice(findings.env, name, *kind, title, key, because))
        })
    };
    let from_local = || findings.local.iter().find_map(local_server_choice);
    let from_installed = || {
        findings
            .installed
            .map(|model| installed_model_choice(model, "no provider or key is configured, and it is installed here"))
    };
    from_environment.or_else(from_store).or_else(from_local).or_else(from_installed).unwrap_or_else(offline_choice)
}

fn vendor_choice(
    env: &Environment,
    name: &str,
    kind: ProviderKind,
    title: &str,
    key: SecretString,
    because: &str,
) -> ProviderChoice {
    let provider = ProviderConfig::of_kind(kind);
    let model = provider.default_model();
    let root = provider.api_root(env);
    let vendors_own = provider.api_root(&Environment::default());
    let place = match root {
        Some(root) if Some(&root) != vendors_own.as_ref() => format!(" API at {root}"),
        Some(_) | None => String::new(),
    };
    let why = format!("using {title}{place} with model {model}: {because}");
    ProviderChoice { name: name.to_owned(), provider, key: Some(key), reason: why, installed: None }
}

fn local_server_choice(server: &LocalServer) -> Option<ProviderChoice> {
    let model = server.chat_model()?;
    Some(ProviderChoice {
        name: server.name.to_owned(),
        provider: ProviderConfig {
            base_url: Some(server.root()),
            model: Some(model.to_owned()),
            price: Some(PriceConfig::FREE),
            ..ProviderConfig::of_kind(ProviderKind::Openai)
        },
        key: None,
        reason: format!(
            "using {} at {} with model {model}: no provider or key is configured, and it runs on this machine",
            server.title,
            server.root()
        ),
        installed: None,
    })
}

/// Its address and key exist once there is a server.
fn installed_model_choice(model: InstalledModel<'_>, because: &str) -> ProviderChoice {
    let InstalledModel { name, idle_timeout } = model;
    ProviderChoice {
        name: LOCAL_PROVIDER.to_owned(),
        provider: local_provider(name),
        key: None,
        reason: format!(
            "using the local model {name}: {because}; it starts with the first call and stops after {idle_timeout} without one"
        ),
        installed: None,
    }
}

/// A processor may take minutes to read what a data centre reads at once.
pub(crate) fn local_provider(model: &str) -> ProviderConfig {
    ProviderConfig {
        model: Some(model.to_owned()),
        price: Some(PriceConfig::FREE),
        response_timeout: TimeSpan::from_secs(600),
        idle_timeout: TimeSpan::from_secs(120),
        ..ProviderConfig::of_kind(ProviderKind::Openai)
    }
}

fn offline_choice() -> ProviderChoice {
    ProviderChoice {
        name: OFFLINE_PROVIDER.to_owned(),
        provider: ProviderConfig::of_kind(ProviderKind::Offline),
        key: None,
        reason: "using the built-in offline provider: no provider or key is configured and no local model server answers; run `patchboard onboard` to choose one, or `patchboard serve --local-model` to fetch a small model".to_owned(),
        installed: None,
    }
}

impl ProviderChoice {
    /// The provider to use where none is configured, with the reason; `None` where one is. Local servers, and then the
    /// installed local model, are only looked for when no key is found. With `local_model.enabled = "on"` it is that model
    /// whatever else there is.
    pub(crate) async fn find(
        loaded: &LoadedConfig,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, local_model::Error> {
        let usage = loaded.config.local_model.enabled;
        if usage == LocalModelUse::On {
            let options = local_model_options(&loaded.config);
            let Some(prepared) = local_model::installed(&options, stop).await? else {
                return Err(local_model::Error::NotInstalled { data_dir: options.data_dir });
            };
            let model = installed_model(&loaded.config, &prepared);
            let choice = installed_model_choice(model, "`local_model.enabled` is \"on\"");
            return Ok(Some(Self { installed: Some(prepared), ..choice }));
        }
        if !loaded.config.providers.is_empty() {
            return Ok(None);
        }
        let stored = stored_keys(loaded);
        let findings = |local, installed| ProviderSources { env: &loaded.env, stored: &stored, local, installed };
        let choice = choose_provider(&findings(&[], None));
        if choice.provider.kind != ProviderKind::Offline {
            return Ok(Some(choice));
        }
        let local = probe(&candidates(&loaded.config)).await;
        let choice = choose_provider(&findings(&local, None));
        if choice.provider.kind != ProviderKind::Offline || usage == LocalModelUse::Off {
            return Ok(Some(choice));
        }
        let Some(prepared) = installed_or_warn(&loaded.config, stop).await else { return Ok(Some(choice)) };
        let choice = choose_provider(&findings(&local, Some(installed_model(&loaded.config, &prepared))));
        Ok(Some(Self { installed: Some(prepared), ..choice }))
    }

    /// Puts it where a configured provider would be.
    pub(crate) fn add_to(&self, config: &mut Config, secrets: &mut Secrets) {
        config.providers.insert(self.name.clone(), self.provider.clone());
        if let Some(key) = &self.key {
            secrets.provider_keys.insert(self.name.clone(), key.clone());
        }
    }
}

/// What managing the model takes.
pub(crate) fn local_model_options(config: &Config) -> ManagedOptions {
    let LocalModelConfig { weights, idle_timeout, .. } = &config.local_model;
    let mut options = ManagedOptions::new(config.data_dir.clone(), weights.clone());
    options.idle_after = (*idle_timeout).into();
    options
}

fn installed_model<'a>(config: &Config, prepared: &'a PreparedServer) -> InstalledModel<'a> {
    InstalledModel { name: prepared.model_name(), idle_timeout: config.local_model.idle_timeout }
}

/// A model that was not asked for must not keep the server from starting.
async fn installed_or_warn(config: &Config, stop: &CancellationToken) -> Option<PreparedServer> {
    match local_model::installed(&local_model_options(config), stop).await {
        Ok(None) if config.local_model.weights.is_some() => {
            tracing::warn!(
                "`local_model.weights` is set, but the model server is not installed: \
                 `patchboard serve --local-model` fetches it once"
            );
            None
        }
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "the local model is not used");
            None
        }
    }
}

fn stored_keys(loaded: &LoadedConfig) -> BTreeMap<String, SecretString> {
    let Some(folder) = loaded.folders.credentials_dir() else {
        return BTreeMap::new();
    };
    let store = CredentialStore::new(folder);
    let keys = VENDORS.iter().filter_map(|(name, ..)| Some(((*name).to_owned(), store.read(name)?)));
    keys.collect()
}

/// Default addresses of model servers, without the ports of this server's own listeners: a request to one of those would
/// reach no model server, or another Patchboard.
fn candidates(config: &Config) -> Vec<ServerCandidate> {
    let own = [config.gateway.listen, config.runs.listen, config.hub.listen, config.bridge.listen];
    let own_ports: Vec<u16> = own.iter().filter_map(|listen| listen.address()).map(|address| address.port()).collect();
    ServerCandidate::DEFAULTS.into_iter().filter(|candidate| !own_ports.contains(&candidate.port)).collect()
}

#[cfg(test)]
mod tests;
