//! The rights and settings of one plugin. Fixed when the plugin is loaded, checked on every call.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use patchboard_core::plugin::{HostGrant, PluginGrant};
use patchboard_core::port::{Clock, HttpFetcher};
use patchboard_core::store::Store;
use secrecy::SecretString;

/// A plugin from the configuration or the folder.
#[derive(Debug, Clone)]
pub struct PluginOptions {
    pub name: Arc<str>,
    pub file: std::path::PathBuf,
    pub grants: Vec<PluginGrant>,
    /// Plain text that the plugin may read.
    pub settings: BTreeMap<String, String>,
    /// Replaces `{{secret:NAME}}` in outgoing requests; the plugin sees only the names.
    pub secrets: BTreeMap<String, SecretString>,
    /// If set, only a file with this hash is loaded.
    pub sha256: Option<[u8; 32]>,
}

/// Limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginLimits {
    pub memory: usize,
    /// Includes host calls.
    pub time: std::time::Duration,
    pub fuel: u64,
    /// Total size of a call's result.
    pub output: usize,
    /// Concurrent calls; eight times as many may wait, further ones are refused.
    pub calls: usize,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            memory: 64 * 1024 * 1024,
            time: std::time::Duration::from_secs(30),
            fuel: 10_000_000_000,
            output: 1024 * 1024,
            calls: 32,
        }
    }
}

/// Host services for plugins.
#[derive(Debug, Clone)]
pub struct HostServices {
    pub fetch: Arc<dyn HttpFetcher>,
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub(crate) store_locks: Arc<StoreLocks>,
}

impl HostServices {
    /// Must be called once per server: clones share the locks that enforce the store limits.
    pub fn new(fetch: Arc<dyn HttpFetcher>, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { fetch, store, clock, store_locks: Arc::default() }
    }

    /// Must be held while a value is added to the store, so that two calls cannot both use its remaining space.
    pub(crate) fn store_lock(&self, store: &Arc<str>) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.store_locks.by_store.lock().unwrap_or_else(PoisonError::into_inner);
        locks.entry(store.clone()).or_default().clone()
    }
}

/// One lock per store name; bounded by the names in grants.
#[derive(Debug, Default)]
pub(crate) struct StoreLocks {
    by_store: Mutex<HashMap<Arc<str>, Arc<tokio::sync::Mutex<()>>>>,
}

/// The rights of one plugin.
#[derive(Clone)]
pub(crate) struct PluginRights {
    pub(crate) plugin: Arc<str>,
    pub(crate) hosts: Arc<[HostGrant]>,
    pub(crate) stores: Vec<Arc<str>>,
    pub(crate) functions: Vec<Arc<str>>,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) secrets: BTreeMap<String, SecretString>,
    pub(crate) services: HostServices,
    /// Set if the plugin is only being described.
    is_describing: bool,
}

impl PluginRights {
    pub(crate) fn new(options: &PluginOptions, services: HostServices) -> Self {
        let mut rights = Self {
            settings: options.settings.clone(),
            secrets: options.secrets.clone(),
            is_describing: false,
            ..Self::for_describe(options.name.clone(), services)
        };
        let mut hosts = Vec::new();
        for grant in &options.grants {
            match grant {
                PluginGrant::Http(host) => hosts.push(host.clone()),
                PluginGrant::Store(name) => rights.stores.push(name.clone()),
                PluginGrant::HostFunction(name) => rights.functions.push(name.clone()),
            }
        }
        rights.hosts = hosts.into();
        rights
    }

    /// No rights, for describing a plugin.
    pub(crate) fn for_describe(plugin: Arc<str>, services: HostServices) -> Self {
        Self {
            plugin,
            hosts: Arc::default(),
            stores: Vec::new(),
            functions: Vec::new(),
            settings: BTreeMap::new(),
            secrets: BTreeMap::new(),
            services,
            is_describing: true,
        }
    }

    /// Explains why access to `what` is denied and how an operator can allow it. `grant` is the text of the missing
    /// grant.
    pub(crate) fn denial_message(&self, what: &str, grant: &str) -> String {
        let plugin = &self.plugin;
        match self.is_describing {
            true => format!("{what} is not granted to plugin `{plugin}` while it describes itself: nothing is"),
            false => format!("{what} is not granted to plugin `{plugin}`: add \"{grant}\" to its grants"),
        }
    }
}

/// Omits settings and secrets.
impl fmt::Debug for PluginRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginRights").field("plugin", &self.plugin).field("hosts", &self.hosts).finish_non_exhaustive()
    }
}
