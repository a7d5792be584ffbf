//! Loads components as plugin versions, on an engine that is started with the first one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use patchboard_core::port::PluginCall;
use patchboard_core::port::{FetchError, FetchResponse};
use patchboard_core::tool::{ToolOutput, ToolSpec};
use patchboard_core::webhook::{ChannelError, ChannelReply, ChannelRequest, FormattedReply, ParsedWebhook, Webhook};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::version::{PluginVersion, VersionLoader};
use crate::machine::PluginMachine;
use crate::plugin::LoadedPlugin;
use crate::rights::{HostServices, PluginLimits, PluginOptions};

pub(super) type StartMachine = fn(PluginLimits, Option<PathBuf>) -> Result<PluginMachine, String>;

/// The engine is started on first use, so that a server without plugins has none.
#[derive(Debug)]
pub(super) struct MachineLoader {
    pub(super) start: StartMachine,
    limits: PluginLimits,
    cache: PathBuf,
    services: HostServices,
    machine: OnceCell<PluginMachine>,
}

impl MachineLoader {
    pub(super) fn new(limits: PluginLimits, cache: PathBuf, services: HostServices) -> Self {
        Self { start: PluginMachine::start, limits, cache, services, machine: OnceCell::new() }
    }

    async fn machine(&self) -> Result<&PluginMachine, String> {
        let init = || async {
            let (start, limits, cache) = (self.start, self.limits, self.cache.clone());
            let result = tokio::task::spawn_blocking(move || start(limits, Some(cache))).await;
            result.unwrap_or_else(|error| Err(error.to_string()))
        };
        let result = self.machine.get_or_try_init(init).await;
        result.map_err(|problem| format!("this server cannot run plugins: {problem}"))
    }
}

impl VersionLoader for MachineLoader {
    fn load(&self, options: PluginOptions, bytes: Bytes) -> BoxFuture<'_, Result<Arc<dyn PluginVersion>, String>> {
        Box::pin(async move {
            let machine = self.machine().await?;
            let plugin = LoadedPlugin::load(machine, &options, bytes, &self.services).await;
            let plugin: Arc<dyn PluginVersion> = Arc::new(plugin.map_err(|error| error.to_string())?);
            Ok(plugin)
        })
    }
}

impl PluginVersion for LoadedPlugin {
    fn sha256(&self) -> &Arc<str> {
        self.sha256()
    }

    fn imports(&self) -> &BTreeSet<Arc<str>> {
        self.imports()
    }

    fn tools(&self) -> &Arc<[ToolSpec]> {
        self.tools()
    }

    fn has_tools(&self) -> bool {
        self.has_tools()
    }

    fn has_channel(&self) -> bool {
        self.has_channel()
    }

    fn counts(&self) -> (u64, u64) {
        self.counts()
    }

    fn call(
        self: Arc<Self>,
        tool: Arc<str>,
        call: PluginCall,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ToolOutput> {
        Box::pin(async move { LoadedPlugin::call(&self, &tool, call.arguments, call.functions, stop).await })
    }

    fn parse_incoming(
        self: Arc<Self>,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<ParsedWebhook, ChannelError>> {
        Box::pin(async move { LoadedPlugin::parse_incoming(&self, webhook, stop).await })
    }

    fn format_outgoing(
        self: Arc<Self>,
        reply: ChannelReply,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<FormattedReply, ChannelError>> {
        Box::pin(async move { LoadedPlugin::format_outgoing(&self, reply, stop).await })
    }

    fn send(
        self: Arc<Self>,
        request: ChannelRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<FetchResponse, FetchError>> {
        Box::pin(async move { LoadedPlugin::send(&self, request, stop).await })
    }
}
