//! The configured plugins and channels.

use std::sync::Arc;
use std::time::Duration;

use patchboard_config::section::{PluginConfig, ReplyMode};
use patchboard_config::{Config, Secrets, sidecar};
use patchboard_core::port::HttpFetcher;
use patchboard_core::store::Store;
use patchboard_core::webhook::ChannelOptions;
use patchboard_wasm::{FileAdmission, HostOptions, HostServices, PluginHost, PluginLimits, PluginOptions};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::system::SystemClock;
use crate::trust::guard::TrustGuard;

/// Services that plugins use.
pub(super) struct PluginDependencies {
    pub(super) fetch: Arc<dyn HttpFetcher>,
    pub(super) store: Arc<dyn Store>,
    pub(super) guard: Arc<TrustGuard>,
}

/// Returns when every plugin is loaded or rejected, or after a time limit. A broken plugin does not prevent the
/// server's start.
pub(super) async fn start_host(
    config: &Config,
    secrets: &Secrets,
    dependencies: PluginDependencies,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) -> Arc<PluginHost> {
    let PluginDependencies { fetch, store, guard } = dependencies;
    let services = HostServices::new(fetch, store, Arc::new(SystemClock));
    let admit: FileAdmission = Arc::new(move |path, sha256| guard.admit_file(path, sha256));
    PluginHost::start(host_options(config, secrets, admit), services, tracker, stop).await
}

fn host_options(config: &Config, secrets: &Secrets, admit: FileAdmission) -> HostOptions {
    HostOptions {
        plugins: config.plugins.iter().map(|plugin| plugin_options(plugin, secrets)).collect(),
        folder: config.wasm.folder.clone(),
        sidecar: Arc::new(sidecar::parse_sidecar),
        admit,
        cache: config.data_dir.join("cache").join("plugins"),
        watch: config.wasm.watch,
        limits: limits(config),
    }
}

fn plugin_options(plugin: &PluginConfig, secrets: &Secrets) -> PluginOptions {
    PluginOptions {
        name: plugin.name.as_str().into(),
        file: plugin.path.clone(),
        grants: plugin.parsed_grants(),
        settings: plugin.settings.clone(),
        secrets: secrets.plugin_secrets.get(&plugin.name).cloned().unwrap_or_default(),
        sha256: plugin.parsed_sha256(),
    }
}

pub(crate) fn limits(config: &Config) -> PluginLimits {
    let limits = &config.limits;
    PluginLimits {
        memory: limits.plugin_memory.as_usize(),
        time: limits.plugin_time.into(),
        fuel: limits.plugin_fuel,
        output: limits.plugin_output.as_usize(),
        calls: limits.plugin_calls as usize,
    }
}

/// The channel options of the board; the gateway decides who may post to a channel.
pub(super) fn channels(config: &Config) -> Vec<ChannelOptions> {
    let channels = config.channels.iter().map(|(name, channel)| ChannelOptions {
        name: name.as_str().into(),
        plugin: channel.adapter(name).into(),
        wait: match channel.reply {
            ReplyMode::Async => None,
            ReplyMode::Sync => Some(channel.wait.into()),
        },
        max_open_deliveries: channel.max_waiting as usize,
        // A signed timestamp may lie in the future as well as in the past, so a captured webhook is valid for twice the
        // window.
        replay_window: Duration::from(channel.replay_window).saturating_mul(2),
    });
    channels.collect()
}

#[cfg(test)]
mod tests;
