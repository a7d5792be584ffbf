//! Chooses a model provider when none is configured, and says why.
//!
//! The choice is a pure function of what was found; looking for it is apart.

use std::collections::BTreeMap;

use secrecy::SecretString;

use super::{
    Config, Environment, Loaded, Secrets,
    agent_lookup::OFFLINE_PROVIDER,
    env::{ANTHROPIC_API_KEY, OPENAI_API_KEY},
    probe::probe,
    section::{PriceConfig, ProviderConfig, ProviderKind},
};
use crate::credentials::CredentialStore;

pub(crate) use super::probe::{Candidate, LocalServer};

/// A provider that was chosen rather than configured.
#[derive(Clone, Debug)]
pub(crate) struct ProviderChoice {
    pub name: String,
    pub provider: ProviderConfig,
    pub key: Option<SecretString>,
    /// One sentence for the operator.
    pub why: String,
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Findings<'a> {
    pub env: &'a Environment,
    /// Keys stored by `patchboard onboard`, by provider name.
    pub stored: &'a BTreeMap<String, SecretString>,
    /// Model servers that answered on this machine, best first.
    pub local: &'a [LocalServer],
}

/// Vendors in the order they are considered: name, kind, key variable, title.
const VENDORS: [(&str, ProviderKind, &str, &str); 2] = [
    ("anthropic", ProviderKind::Anthropic, ANTHROPIC_API_KEY, "Anthropic"),
    ("openai", ProviderKind::Openai, OPENAI_API_KEY, "OpenAI"),
];

/// Chooses: keys in the environment, then stored keys, then a local server,
/// then the built-in offline provider.
pub(crate) fn choose(findings: &Findings<'_>) -> ProviderChoice {
    let from_environment = VENDORS.iter().find_map(|(name, kind, variable, title)| {
        let key = findings.env.get(variable)?.trim();
        (!key.is_empty()).then(|| {
            let because = format!("{variable} is set");
            vendor(findings.env, name, *kind, title, key.into(), &because)
        })
    });
    let from_store = || {
        VENDORS.iter().find_map(|(name, kind, _, title)| {
            let key = findings.stored.get(*name)?.clone();
            let because = "its key is stored on this machine";
            Some(vendor(findings.env, name, *kind, title, key, because))
        })
    };
    let from_local = || findings.local.iter().find_map(local_server);
    from_environment.or_else(from_store).or_else(from_local).unwrap_or_else(offline)
}

fn vendor(
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
    ProviderChoice { name: name.to_owned(), provider, key: Some(key), why }
}

fn local_server(server: &LocalServer) -> Option<ProviderChoice> {
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
        why: format!(
            "using {} at {} with model {model}: no provider or key is configured, and it runs on this machine",
            server.title,
            server.root()
        ),
    })
}

fn offline() -> ProviderChoice {
    ProviderChoice {
        name: OFFLINE_PROVIDER.to_owned(),
        provider: ProviderConfig::of_kind(ProviderKind::Offline),
        key: None,
        why: "using the built-in offline provider: no provider or key is configured and no local model server answers; run `patchboard onboard` to choose one".to_owned(),
    }
}

impl Loaded {
    /// Makes sure there is a provider. With none configured one is chosen and
    /// put into the configuration and the secrets as if it had been written
    /// there; the answer says which and why. Local servers are only looked for
    /// when no key is found.
    pub(crate) async fn ensure_provider(&mut self, secrets: &mut Secrets) -> Option<ProviderChoice> {
        if !self.config.providers.is_empty() {
            return None;
        }
        let stored = self.stored_keys();
        let findings = |local| Findings { env: &self.env, stored: &stored, local };
        let mut choice = choose(&findings(&[]));
        if choice.provider.kind == ProviderKind::Offline {
            let local = probe(&candidates(&self.config)).await;
            choice = choose(&findings(&local));
        }
        self.config.adopt(&choice, secrets);
        Some(choice)
    }

    fn stored_keys(&self) -> BTreeMap<String, SecretString> {
        let Some(folder) = self.folders.credentials_dir() else {
            return BTreeMap::new();
        };
        let store = CredentialStore::new(folder);
        let keys = VENDORS.iter().filter_map(|(name, ..)| Some(((*name).to_owned(), store.read(name)?)));
        keys.collect()
    }
}

impl Config {
    /// Puts a chosen provider where a configured one would be.
    pub(crate) fn adopt(&mut self, choice: &ProviderChoice, secrets: &mut Secrets) {
        self.providers.insert(choice.name.clone(), choice.provider.clone());
        if let Some(key) = &choice.key {
            secrets.provider_keys.insert(choice.name.clone(), key.clone());
        }
    }
}

/// Where model servers listen by default, without our own listeners: asking
/// ourselves would be answered by nobody, or by another Patchboard.
pub(crate) fn candidates(config: &Config) -> Vec<Candidate> {
    let own = [config.gateway.listen, config.runs.listen, config.hub.listen, config.bridge.listen];
    let own_ports: Vec<u16> = own.iter().filter_map(|listen| listen.address()).map(|address| address.port()).collect();
    Candidate::DEFAULTS.into_iter().filter(|candidate| !own_ports.contains(&candidate.port)).collect()
}
