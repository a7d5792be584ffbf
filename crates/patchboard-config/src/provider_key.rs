//! Selects a provider's key, and keeps the user's own keys from foreign addresses.
//!
//! The vendors' variables and the keys stored by `patchboard onboard` belong to the user. They are sent to the vendor,
//! or to an address that the user chose; an address from a project's file gets none of them, whatever that file says.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::{
    Environment,
    env::{ANTHROPIC_API_KEY, OPENAI_API_KEY},
    files::{FILE_NAME, FileLayer},
    key_path::KeyPath,
    paths::{UserFolders, strip_current_dir_parts},
    problem::{ConfigProblem, ProblemCode},
    section::{ProviderConfig, ProviderKind},
    tree::ConfigNode,
    types::SecretRef,
    url,
};
use crate::credentials::CredentialStore;

/// Inputs of the selection of a provider's key.
pub(crate) struct KeyResolver<'a> {
    pub environment: &'a Environment,
    pub folders: &'a UserFolders,
    /// The origins of values.
    pub tree: &'a ConfigNode,
}

/// The selected key of a provider.
pub(crate) enum KeyChoice<'a> {
    /// Referenced in the configuration.
    Named(&'a SecretRef),
    /// Not referenced, but available.
    Implicit(SecretString),
    None,
    /// A key of the user that must not be sent to the provider's address.
    Withheld(Box<ConfigProblem>),
}

impl KeyResolver<'_> {
    pub(crate) fn choose<'p>(&self, name: &str, provider: &'p ProviderConfig) -> KeyChoice<'p> {
        let Some(variable) = vendor_variable(provider.kind) else {
            return provider.api_key.as_ref().map_or(KeyChoice::None, KeyChoice::Named);
        };
        let foreign = self.project_address(name, provider);
        match (&provider.api_key, foreign) {
            (Some(reference), Some(_)) if self.is_users_key(reference) => {
                KeyChoice::Withheld(Box::new(self.withheld_problem(name, &reference.to_string())))
            }
            (Some(reference), _) => KeyChoice::Named(reference),
            (None, Some(address)) => match self.implicit_key_source(name, variable, address) {
                Some(source) => KeyChoice::Withheld(Box::new(self.withheld_problem(name, &source))),
                None => KeyChoice::None,
            },
            (None, None) => {
                // A vendor's key is sent to that vendor only, unless the user stored it for this very provider.
                let vendors = provider.base_url.is_none() || self.is_vendors_own(provider);
                let from_environment = self.environment.get(variable).filter(|_| vendors).map(|key| key.trim().into());
                let key = from_environment.or_else(|| self.stored_key(name));
                key.map_or(KeyChoice::None, KeyChoice::Implicit)
            }
        }
    }

    /// The provider's address if it comes from a project's file and is not the vendor's own.
    fn project_address<'p>(&self, name: &str, provider: &'p ProviderConfig) -> Option<&'p str> {
        let address = provider.base_url.as_deref()?;
        let origin = self.tree.origin_of(&provider_path(name).key("base_url"));
        match origin.file_layer() {
            Some(FileLayer::Project) if !self.is_vendors_own(provider) => Some(address),
            Some(FileLayer::Project | FileLayer::User | FileLayer::Named) | None => None,
        }
    }

    fn is_vendors_own(&self, provider: &ProviderConfig) -> bool {
        let root = |provider: &ProviderConfig| {
            let root = provider.api_root(&Environment::default())?;
            Some(root.strip_suffix("/v1").map(str::to_owned).unwrap_or(root))
        };
        root(provider) == root(&ProviderConfig::of_kind(provider.kind))
    }

    /// Whether a reference resolves to a key of the user, under whatever name.
    fn is_users_key(&self, reference: &SecretRef) -> bool {
        match reference {
            SecretRef::Env(name) => [ANTHROPIC_API_KEY, OPENAI_API_KEY].contains(&name.as_str()),
            SecretRef::File(path) => {
                let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| strip_current_dir_parts(path));
                self.folders.credentials_dir().is_some_and(|folder| real(path).starts_with(real(&folder)))
            }
        }
    }

    /// Describes the key that a provider of the user would get here. For a local server the vendor's key is rarely
    /// needed, so its absence is not reported.
    fn implicit_key_source(&self, name: &str, variable: &str, address: &str) -> Option<String> {
        let from_environment = self.environment.get(variable).filter(|_| !url::is_loopback(address));
        let stored = || self.stored_key(name).map(|_| format!("the key stored for `{name}`"));
        stored().or_else(|| from_environment.map(|_| variable.to_owned()))
    }

    fn stored_key(&self, name: &str) -> Option<SecretString> {
        CredentialStore::new(self.folders.credentials_dir()?).read(name)
    }

    fn withheld_problem(&self, name: &str, source: &str) -> ConfigProblem {
        let path = provider_path(name).key("base_url");
        let users: PathBuf = self.folders.config_dir.as_ref().map(|folder| folder.join(FILE_NAME)).unwrap_or_default();
        ConfigProblem::warning(
            ProblemCode::WithheldKey,
            path,
            format!("stands in a project's file, so {source} is not sent there and the provider has no key"),
        )
        .with_hint(format!(
            "if you trust that address with it, write [providers.{name}] into {} instead; else give the provider a key of its own: api_key = \"env:NAME\"",
            users.display()
        ))
    }
}

fn provider_path(name: &str) -> KeyPath {
    KeyPath::dotted("providers").key(name)
}

fn vendor_variable(kind: ProviderKind) -> Option<&'static str> {
    match kind {
        ProviderKind::Anthropic => Some(ANTHROPIC_API_KEY),
        ProviderKind::Openai => Some(OPENAI_API_KEY),
        ProviderKind::Offline => None,
    }
}
