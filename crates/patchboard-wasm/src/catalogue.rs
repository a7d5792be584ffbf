//! The catalogue of the server's plugins: where they come from, which versions are active, and which need approval
//! first.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use patchboard_core::plugin::{PluginError, PluginGrant, PluginReport};
use patchboard_core::port::PluginCall;
use patchboard_core::port::{Clock, FetchError, FetchResponse, PluginRuntime};
use patchboard_core::store::Store;
use patchboard_core::tool::{ToolFault, ToolOutput, ToolSpec};
use patchboard_core::webhook::{ChannelError, ChannelReply, ChannelRequest, FormattedReply, ParsedWebhook, Webhook};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::rights::{HostServices, PluginLimits, PluginOptions};

mod diff;
mod entry;
mod file;
mod folder;
mod loading;
mod lookup;
mod machine;
mod offer;
mod pins;
mod tool_owners;
mod version;
mod watch;

use diff::PluginOrigin;
use entry::PluginEntry;
use file::PluginFiles;
use loading::LoadCause;
use machine::MachineLoader;
use offer::ToolOffer;
use tool_owners::ToolNameOwners;
use version::{PluginVersion, VersionLoader};

/// Compilation is CPU-bound; further files wait.
const MAX_CONCURRENT_COMPILES: usize = 2;
/// Longest time that server startup waits for plugins; later ones become available when they are ready.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Warnings remembered so that each is logged once; past this many, new ones are not logged.
const MAX_WARNINGS: usize = 1024;

/// Parses `NAME.toml`, the sidecar file of a plugin in the folder: grants and settings. `Err` is an error text.
pub type SidecarParser =
    Arc<dyn Fn(&str) -> Result<(Vec<PluginGrant>, BTreeMap<String, String>), String> + Send + Sync>;

/// Decides whether the file at a path, with this SHA-256 in hex, may be loaded. Called for configured plugins each time
/// their file was read; may block on the disk. `Err` is an error text for the operator.
pub type FileAdmission = Arc<dyn Fn(&Path, &str) -> Result<(), String> + Send + Sync>;

#[derive(Clone)]
pub struct HostOptions {
    /// Configured plugins, in configuration order.
    pub plugins: Vec<PluginOptions>,
    /// Every `NAME.wasm` in it is a plugin too. Need not exist.
    pub folder: Option<PathBuf>,
    pub sidecar: SidecarParser,
    pub admit: FileAdmission,
    /// Folder for compiled code.
    pub cache: PathBuf,
    /// Whether changed, new and removed files are detected.
    pub watch: bool,
    pub limits: PluginLimits,
}

impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostOptions")
            .field("plugins", &self.plugins)
            .field("folder", &self.folder)
            .field("cache", &self.cache)
            .field("watch", &self.watch)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Owns the server's plugins.
#[derive(Debug)]
pub struct PluginHost(Arc<Catalogue>);

struct Catalogue {
    /// Configured plugins first, then those of the folder by name.
    entries: RwLock<Vec<Arc<PluginEntry>>>,
    offer: RwLock<Arc<ToolOffer>>,
    /// Serialises rebuilds, so that an older offer never replaces a newer one.
    offer_lock: Mutex<()>,
    tool_owners: Mutex<ToolNameOwners>,
    is_starting: AtomicBool,
    folder: Option<Arc<Path>>,
    sidecar: SidecarParser,
    admit_file: FileAdmission,
    loader: Arc<dyn VersionLoader>,
    compile_permits: Semaphore,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    warned: Mutex<HashSet<String>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalogue")
            .field("entries", &self.entries)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl PluginHost {
    /// Returns when every plugin is loaded or refused, or after `START_TIMEOUT`; loading then continues in the
    /// background. A plugin that cannot be loaded never prevents the server from starting.
    pub async fn start(
        options: HostOptions,
        services: HostServices,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let (store, clock) = (services.store.clone(), services.clock.clone());
        let loader = Arc::new(MachineLoader::new(options.limits, options.cache.clone(), services));
        Self::start_with(options, loader, store, clock, tasks, stop).await
    }

    async fn start_with(
        options: HostOptions,
        loader: Arc<dyn VersionLoader>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let owners = tool_owners::read(&*store).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "reading the owners of plugin tool names failed");
            ToolNameOwners::default()
        });
        let catalogue = Arc::new(Catalogue {
            entries: RwLock::default(),
            offer: RwLock::default(),
            offer_lock: Mutex::default(),
            tool_owners: Mutex::new(owners),
            is_starting: AtomicBool::new(true),
            folder: options.folder.map(Into::into),
            sidecar: options.sidecar,
            admit_file: options.admit,
            loader,
            compile_permits: Semaphore::new(MAX_CONCURRENT_COMPILES),
            store,
            clock,
            warned: Mutex::default(),
            tasks: tasks.clone(),
            stop: stop.clone(),
        });
        catalogue.add_configured(options.plugins);
        catalogue.scan_folder().await;
        {
            let mut owners = catalogue.tool_owners.lock().unwrap_or_else(PoisonError::into_inner);
            owners.retain_plugins(|plugin| catalogue.entry_named(plugin).is_some());
        }
        let spawn_load_of = |entry| catalogue.spawn_load(entry, LoadCause::Start, CancellationToken::new());
        let loads: Vec<_> = catalogue.entries().into_iter().map(spawn_load_of).collect();
        // The individual results are in the log and in the plugin list.
        if tokio::time::timeout(START_TIMEOUT, join_all(loads)).await.is_err() {
            tracing::warn!("some plugins are still being loaded; the server starts without them");
        }
        catalogue.is_starting.store(false, Ordering::Release);
        catalogue.rebuild_offer();
        if options.watch {
            tasks.spawn(catalogue.clone().watch());
        }
        Arc::new(Self(catalogue))
    }
}

impl Catalogue {
    fn entries(&self) -> Vec<Arc<PluginEntry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn entry_named(&self, name: &str) -> Option<Arc<PluginEntry>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find(|entry| **entry.name() == *name).cloned()
    }

    fn add_configured(&self, plugins: Vec<PluginOptions>) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        for options in plugins {
            if entries.iter().any(|entry| entry.name() == &options.name) {
                self.warn_once(&format!("the configuration has two plugins `{}`; the second is ignored", options.name));
                continue;
            }
            let files = PluginFiles { file: options.file.clone(), folder: None };
            entries.push(PluginEntry::new(PluginOrigin::Configured, files, options));
        }
    }

    fn offer(&self) -> Arc<ToolOffer> {
        self.offer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Must be called after every change of the active versions.
    fn rebuild_offer(&self) {
        let _one_at_a_time = self.offer_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut owners = self.tool_owners.lock().unwrap_or_else(PoisonError::into_inner);
        let mut updated_owners = owners.clone();
        let offer = Arc::new(ToolOffer::of(&self.entries(), &mut updated_owners, &self.offer()));
        *self.offer.write().unwrap_or_else(PoisonError::into_inner) = offer;
        // During startup the order of compilation must not decide who owns a name.
        if *owners != updated_owners && !self.is_starting.load(Ordering::Acquire) {
            owners.clone_from(&updated_owners);
            self.save_tool_owners(updated_owners);
        }
    }

    /// Saves in the background: if the write is lost, names are assigned again at the next start, in the plugins'
    /// order.
    fn save_tool_owners(&self, owners: ToolNameOwners) {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        self.tasks.spawn(async move {
            if let Err(error) = tool_owners::write(&*store, &*clock, &owners).await {
                tracing::warn!(%error, "saving the owners of plugin tool names failed");
            }
        });
    }

    fn warn_once(&self, warning: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() < MAX_WARNINGS && warned.insert(warning.to_owned()) {
            tracing::warn!("{warning}");
        }
    }

    /// Finds the version that currently provides a tool, and the tool's own name. `Err` is an error text.
    fn resolve(&self, tool: &Arc<str>) -> Result<(Arc<dyn PluginVersion>, Arc<str>), String> {
        let offer = self.offer();
        let (entry, own_name) = match (offer.owner(tool), tool.rsplit_once('.')) {
            (Some(entry), _) => (entry.clone(), tool.clone()),
            (None, Some((plugin, own_name))) => {
                (self.entry_named(plugin).ok_or_else(|| format!("there is no plugin `{plugin}`"))?, own_name.into())
            }
            (None, None) => return Err(format!("no plugin has a tool `{tool}` now")),
        };
        let name = entry.name().clone();
        let Some(version) = entry.version() else {
            return Err(format!("plugin `{name}` {}", entry.unavailable_reason()));
        };
        match version.tools().iter().any(|tool| tool.name == own_name) {
            true => Ok((version, own_name)),
            false => Err(format!("plugin `{name}` has no tool `{own_name}` now")),
        }
    }

    /// Finds a channel adapter. `Err` is an error text.
    fn channel_adapter(&self, plugin: &str) -> Result<Arc<dyn PluginVersion>, String> {
        let entry = self.entry_named(plugin).ok_or_else(|| format!("there is no plugin `{plugin}`"))?;
        match entry.version() {
            None => Err(format!("plugin `{plugin}` {}", entry.unavailable_reason())),
            Some(version) if !version.has_channel() => Err(format!("plugin `{plugin}` is no channel adapter")),
            Some(version) => Ok(version),
        }
    }
}

impl PluginRuntime for PluginHost {
    fn tools(&self) -> Arc<[ToolSpec]> {
        self.0.offer().specs.clone()
    }

    fn call(&self, call: PluginCall, stop: CancellationToken) -> BoxFuture<'_, ToolOutput> {
        Box::pin(async move {
            match self.0.resolve(&call.tool) {
                Ok((version, own_name)) => version.call(own_name, call, stop).await,
                Err(problem) => ToolOutput::fault(ToolFault::NotFound, problem),
            }
        })
    }

    fn list(&self) -> Vec<PluginReport> {
        self.0.entries().iter().map(|entry| entry.report()).collect()
    }

    fn load<'a>(
        &'a self,
        name_or_path: &'a str,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<PluginReport, PluginError>> {
        Box::pin(async move {
            let entry = self.0.find(name_or_path).await?;
            let loaded = self.0.spawn_load(entry, LoadCause::Requested, stop).await;
            loaded.unwrap_or_else(|error| Err(PluginError::Failed(format!("failed to load `{name_or_path}`: {error}"))))
        })
    }

    fn unload<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), PluginError>> {
        Box::pin(async move {
            let entry = self.0.entry_named(name).ok_or_else(|| self.0.unknown_plugin(name))?;
            entry.unload();
            self.0.rebuild_offer();
            tracing::info!(plugin = name, "plugin is unloaded");
            Ok(())
        })
    }

    fn approve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<PluginReport, PluginError>> {
        Box::pin(async move {
            let entry = self.0.entry_named(name).ok_or_else(|| self.0.unknown_plugin(name))?;
            let catalogue = self.0.clone();
            // Runs in its own task, because a pinned version must be activated even if the caller is gone.
            let approved = self.0.tasks.spawn(async move { catalogue.approve(&entry).await }).await;
            approved.unwrap_or_else(|error| Err(PluginError::Failed(format!("failed to approve `{name}`: {error}"))))
        })
    }

    fn parse_incoming<'a>(
        &'a self,
        plugin: &'a str,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<ParsedWebhook, ChannelError>> {
        Box::pin(async move {
            let adapter = self.0.channel_adapter(plugin).map_err(ChannelError::Unavailable)?;
            adapter.parse_incoming(webhook, stop).await
        })
    }

    fn format_outgoing<'a>(
        &'a self,
        plugin: &'a str,
        reply: ChannelReply,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<FormattedReply, ChannelError>> {
        Box::pin(async move {
            let adapter = self.0.channel_adapter(plugin).map_err(ChannelError::Unavailable)?;
            adapter.format_outgoing(reply, stop).await
        })
    }

    fn send<'a>(
        &'a self,
        plugin: &'a str,
        request: ChannelRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<FetchResponse, FetchError>> {
        Box::pin(async move {
            let adapter = self.0.channel_adapter(plugin).map_err(FetchError::Failed)?;
            adapter.send(request, stop).await
        })
    }
}

#[cfg(test)]
mod tests;
