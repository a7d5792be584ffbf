//! The plugins and channels of the configuration.

use std::sync::Arc;
use std::time::Duration;

use patchboard_core::channel::ChannelOptions;
use patchboard_core::port::{Fetch, Store};
use patchboard_wasm::{HostOptions, PluginHost, PluginLimits, PluginOptions, Services};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::section::{PluginConfig, ReplyMode};
use crate::config::{Config, Secrets, sidecar};
use crate::system::SystemClock;

/// Done when every plugin is loaded or refused, or when that takes long. None of them keeps the server from starting.
pub(super) async fn host(
    config: &Config,
    secrets: &Secrets,
    fetch: Arc<dyn Fetch>,
    store: Arc<dyn Store>,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) -> Arc<PluginHost> {
    let services = Services::new(fetch, store, Arc::new(SystemClock));
    PluginHost::start(host_options(config, secrets), services, tracker, stop).await
}

fn host_options(config: &Config, secrets: &Secrets) -> HostOptions {
    HostOptions {
        plugins: config.plugins.iter().map(|plugin| options(plugin, secrets)).collect(),
        folder: config.wasm.folder.clone(),
        sidecar: Arc::new(sidecar::read),
        cache: config.data_dir.join("cache").join("plugins"),
        watch: config.wasm.watch,
        limits: limits(config),
    }
}

fn options(plugin: &PluginConfig, secrets: &Secrets) -> PluginOptions {
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
        max_waiting: channel.max_waiting as usize,
        // A signed time may lie as far ahead as back, so a captured webhook is good for twice as long.
        replay_window: Duration::from(channel.replay_window).saturating_mul(2),
    });
    channels.collect()
}

#[cfg(test)]
mod tests;
