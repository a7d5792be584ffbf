//! The plugins and channels of the configuration.

use std::sync::Arc;
use std::time::Duration;

use patchboard_config::section::{PluginConfig, ReplyMode};
use patchboard_config::{Config, Secrets, sidecar};
use patchboard_core::channel::ChannelOptions;
use patchboard_core::port::{HttpFetcher, Store};
use patchboard_wasm::{FileAdmission, HostOptions, HostServices, PluginHost, PluginLimits, PluginOptions};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::system::SystemClock;
use crate::trust::guard::TrustGuard;

/// What plugins use of the rest of the server.
pub(super) struct PluginDependencies {
    pub(super) fetch: Arc<dyn HttpFetcher>,
    pub(super) store: Arc<dyn Store>,
    pub(super) guard: Arc<TrustGuard>,
}

/// Done when every plugin is loaded or refused, or when that takes long. None of them keeps the server from starting.
pub(super) async fn start_host(
    config: &Config,
    secrets: &Secrets,
    means: PluginDependencies,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) -> Arc<PluginHost> {
    let PluginDependencies { fetch, store, guard } = means;
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

/// What the board has to know about channels; who may post to them is the gateway's business.
pub(super) fn channels(config: &Config) -> Vec<ChannelOptions> {
    let channels = config.channels.iter().map(|(name, channel)| ChannelOptions {
        name: name.as_str().into(),
        plugin: channel.adapter(name).into(),
        wait: match channel.reply {
            ReplyMode::Async => None,
            ReplyMode::Sync => Some(channel.wait.into()),
        },
        max_open_deliveries: channel.max_waiting as usize,
        // A signed time may lie as far ahead as back, so a captured webhook is good for twice as long.
        replay_window: Duration::from(channel.replay_window).saturating_mul(2),
    });
    channels.collect()
}

#[cfg(test)]
mod tests;
