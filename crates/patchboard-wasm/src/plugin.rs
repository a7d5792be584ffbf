//! One loaded version of a plugin. Every holder of a reference can complete its calls, even if another version has
//! replaced it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use patchboard_core::port::HostFunctions;
use patchboard_core::port::{FetchError, FetchResponse};
use patchboard_core::tool::{ToolFault, ToolOutput, ToolSpec};
use patchboard_core::webhook::{ChannelError, ChannelReply, ChannelRequest, FormattedReply, ParsedWebhook, Webhook};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::call::{GuestEntry, GuestFailure, GuestFuture};
use crate::compile::{CompiledPlugin, PluginFileError};
use crate::describe::{self, DescribeContext};
use crate::engine::{CallPace, PluginQuota};
use crate::imports;
use crate::machine::PluginMachine;
use crate::main_runtime::OnMainRuntime;
use crate::rights::{HostServices, PluginLimits, PluginOptions, PluginRights};
use crate::state::GuestCall;
use crate::telemetry::GuestCallOutcome;

mod map;

/// Timeout of the `describe` call; a plugin that exceeds it is not loaded.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct LoadedPlugin {
    name: Arc<str>,
    machine: PluginMachine,
    compiled: CompiledPlugin,
    rights: Arc<PluginRights>,
    tools: Arc<[ToolSpec]>,
    quota: PluginQuota,
    pace: Arc<CallPace>,
    main_runtime: Handle,
    calls: AtomicU64,
    failures: AtomicU64,
}

impl LoadedPlugin {
    /// Checks the file's hash, compiles it, creates a first instance and queries its tools, without any rights.
    pub(crate) async fn load(
        machine: &PluginMachine,
        options: &PluginOptions,
        bytes: Bytes,
        services: &HostServices,
    ) -> Result<Self, PluginFileError> {
        let main_runtime = Handle::current();
        let compiled = machine.compile(bytes, options.sha256).await?;
        tracing::debug!(
            plugin = %options.name,
            size_bytes = compiled.size,
            duration_ms = u64::try_from(compiled.compile_time.as_millis()).unwrap_or(u64::MAX),
            from_cache = compiled.from_cache,
            "plugin compiled"
        );
        let mut services = services.clone();
        services.fetch = OnMainRuntime::fetch(services.fetch, main_runtime.clone());
        let context = DescribeContext {
            plugin: &options.name,
            has_grants: !options.grants.is_empty(),
            time: machine.limits().time,
        };
        let quota = machine.slots().quota();
        let guest_call = GuestCall {
            rights: Arc::new(PluginRights::for_describe(options.name.clone(), services.clone())),
            functions: None,
            stop: CancellationToken::new(),
            quota: quota.clone(),
            // The plugin is untrusted and its speed unknown, so its first calls do not run inline.
            pace: Arc::default(),
            main_runtime: main_runtime.clone(),
        };
        let tools = describe(machine, &compiled, guest_call, &context).await?;
        Ok(Self {
            name: options.name.clone(),
            machine: machine.clone(),
            compiled,
            rights: Arc::new(PluginRights::new(options, services)),
            tools,
            quota,
            pace: Arc::default(),
            main_runtime,
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })
    }

    /// The SHA-256 of the file, in lower-case hex.
    pub(crate) fn sha256(&self) -> &Arc<str> {
        &self.compiled.sha256
    }

    /// Short names of the imported `patchboard:plugin` interfaces.
    pub(crate) fn imports(&self) -> &BTreeSet<Arc<str>> {
        &self.compiled.imports
    }

    pub(crate) fn compiled(&self) -> &CompiledPlugin {
        &self.compiled
    }

    pub(crate) fn tools(&self) -> &Arc<[ToolSpec]> {
        &self.tools
    }

    pub(crate) fn has_tools(&self) -> bool {
        self.compiled.tools.is_some()
    }

    pub(crate) fn has_channel(&self) -> bool {
        self.compiled.channel.is_some()
    }

    /// Calls so far, and those that failed. An error result of a tool is not a failure.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.failures.load(Ordering::Relaxed))
    }

    /// `tool` is the plugin's own name for the tool, `arguments` a JSON object.
    pub(crate) async fn call(
        self: &Arc<Self>,
        tool: &str,
        arguments: Arc<str>,
        functions: Arc<dyn HostFunctions>,
        stop: CancellationToken,
    ) -> ToolOutput {
        let Some(indices) = self.compiled.tools.clone() else {
            return ToolOutput::fault(ToolFault::NotFound, format!("plugin {} has no tools", self.name));
        };
        let (name, limit) = (tool.to_owned(), self.machine.limits().output);
        let entry: GuestEntry<ToolOutput> = Box::new(move |store, instance| -> GuestFuture<'_, ToolOutput> {
            Box::pin(async move {
                let guest = indices.load(&mut *store, &instance)?;
                map::tool_output(guest.call_call(store, &name, &arguments).await?, limit)
            })
        });
        let is_error = |output: &ToolOutput| output.is_error;
        match self.run(tool, Some(functions), stop, entry, is_error).await {
            Ok(output) => output,
            Err(failure) => failure.output(&self.name),
        }
    }

    pub(crate) async fn parse_incoming(
        self: &Arc<Self>,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> Result<ParsedWebhook, ChannelError> {
        let indices = self.channel_exports()?;
        let limit = self.machine.limits().output;
        let entry: GuestEntry<Result<ParsedWebhook, String>> = Box::new(move |store, instance| {
            Box::pin(async move {
                let guest = indices.load(&mut *store, &instance)?;
                map::incoming(guest.call_parse_incoming(store, &map::webhook(webhook)).await?, limit)
            })
        });
        self.call_adapter("parse-incoming", stop, entry).await
    }

    pub(crate) async fn format_outgoing(
        self: &Arc<Self>,
        reply: ChannelReply,
        stop: CancellationToken,
    ) -> Result<FormattedReply, ChannelError> {
        let indices = self.channel_exports()?;
        let limit = self.machine.limits().output;
        let entry: GuestEntry<Result<FormattedReply, String>> = Box::new(move |store, instance| {
            Box::pin(async move {
                let guest = indices.load(&mut *store, &instance)?;
                map::outgoing(guest.call_format_outgoing(store, &map::reply(reply)).await?, limit)
            })
        });
        self.call_adapter("format-outgoing", stop, entry).await
    }

    /// Sends a request that the plugin wrote, under its grants and with its secrets.
    pub(crate) async fn send(
        self: &Arc<Self>,
        request: ChannelRequest,
        stop: CancellationToken,
    ) -> Result<FetchResponse, FetchError> {
        imports::http::send(&self.rights, request, Instant::now() + self.machine.limits().time, stop).await
    }

    fn channel_exports(
        &self,
    ) -> Result<crate::world::exports::patchboard::plugin::channel::GuestIndices, ChannelError> {
        self.compiled
            .channel
            .clone()
            .ok_or_else(|| ChannelError::Unavailable(format!("plugin {} is not a channel adapter", self.name)))
    }

    async fn call_adapter<T: Send + 'static>(
        &self,
        function: &'static str,
        stop: CancellationToken,
        entry: GuestEntry<Result<T, String>>,
    ) -> Result<T, ChannelError> {
        match self.run(function, None, stop, entry, Result::is_err).await {
            Ok(answer) => answer.map_err(ChannelError::Rejected),
            Err(failure) => Err(match failure {
                GuestFailure::QueueFull | GuestFailure::QueueTimeout(_) | GuestFailure::Cancelled => {
                    ChannelError::Unavailable(failure.message(&self.name))
                }
                GuestFailure::Time(_)
                | GuestFailure::Memory(_)
                | GuestFailure::Fuel(_)
                | GuestFailure::Output(_)
                | GuestFailure::HostcallData(_)
                | GuestFailure::Stack
                | GuestFailure::Panic(_)
                | GuestFailure::Exit(_)
                | GuestFailure::Trap(_)
                | GuestFailure::HostError(_) => ChannelError::Failed(failure.message(&self.name)),
            }),
        }
    }

    /// `tool` names the called function in the log.
    async fn run<T: Send + 'static>(
        &self,
        tool: &str,
        functions: Option<Arc<dyn HostFunctions>>,
        stop: CancellationToken,
        entry: GuestEntry<T>,
        is_error: impl FnOnce(&T) -> bool,
    ) -> Result<T, GuestFailure> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut metrics = CallMetricsGuard {
            machine: &self.machine,
            started_at: Instant::now(),
            outcome: GuestCallOutcome::Cancelled,
        };
        let (rights, quota, main_runtime) = (self.rights.clone(), self.quota.clone(), self.main_runtime.clone());
        let guest_call = GuestCall { rights, functions, stop, quota, pace: self.pace.clone(), main_runtime };
        let result = self.machine.run(self.compiled.pre.clone(), guest_call, *self.machine.limits(), entry).await;
        metrics.outcome = match &result {
            Ok(answer) if is_error(answer) => GuestCallOutcome::Failed,
            Ok(_) => GuestCallOutcome::Answered,
            Err(failure) => failure.outcome(),
        };
        match &result {
            Ok(_) => {}
            Err(GuestFailure::Cancelled) => {
                tracing::debug!(plugin = %self.name, tool.name = tool, "plugin call cancelled");
            }
            Err(failure) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                let reason = failure.message(&self.name);
                let duration_ms = u64::try_from(metrics.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
                tracing::warn!(plugin = %self.name, tool.name = tool, duration_ms, %reason, "plugin call failed");
            }
        }
        result
    }
}

impl std::fmt::Debug for LoadedPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedPlugin")
            .field("name", &self.name)
            .field("compiled", &self.compiled)
            .finish_non_exhaustive()
    }
}

/// Counts a call on drop, so that dropped calls are counted too.
struct CallMetricsGuard<'a> {
    machine: &'a PluginMachine,
    started_at: Instant,
    outcome: GuestCallOutcome,
}

impl Drop for CallMetricsGuard<'_> {
    fn drop(&mut self) {
        self.machine.metrics().call_ended(self.outcome, self.started_at.elapsed());
    }
}

/// Lists the plugin's tools, which also checks that it can be instantiated.
async fn describe(
    machine: &PluginMachine,
    compiled: &CompiledPlugin,
    guest_call: GuestCall,
    context: &DescribeContext<'_>,
) -> Result<Arc<[ToolSpec]>, PluginFileError> {
    let limits = PluginLimits { time: machine.limits().time.min(DESCRIBE_TIMEOUT), ..*machine.limits() };
    let (tools, channel) = (compiled.tools.clone(), compiled.channel.clone());
    let entry: GuestEntry<Vec<_>> = Box::new(move |store, instance| {
        Box::pin(async move {
            if let Some(indices) = channel {
                indices.load(&mut *store, &instance)?;
            }
            match tools {
                Some(indices) => indices.load(&mut *store, &instance)?.call_describe(store).await,
                None => Ok(Vec::new()),
            }
        })
    });
    let described = machine.run(compiled.pre.clone(), guest_call, limits, entry).await;
    let described = described.map_err(|failure| {
        PluginFileError::new(format!("cannot say what it offers: {}", failure.message(context.plugin)))
    })?;
    describe::specs(described, context).map_err(PluginFileError::new)
}

#[cfg(test)]
mod tests;
