//! The tools of plugins as a tool host, and the server's tools as functions that plugins call.

use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::{CallContext, ContextToolHost, ToolExecutor, ToolRegistry};
use crate::id::CallId;
use crate::model::{ToolCall, ToolInput};
use crate::plugin::PLUGIN_METADATA_KEY;
use crate::port::{HostFunctions, IdGenerator, PluginCall, PluginRuntime, ToolHost, ToolScope};
use crate::tool::{StructuredOutput, ToolKind, ToolOutput, ToolSpec};

/// How many plugins may call each other in a row.
const MAX_PLUGIN_DEPTH: u8 = 3;

/// The tools of all plugins, as the registry offers them.
#[derive(Debug)]
pub(crate) struct PluginToolHost {
    plugins: Arc<dyn PluginRuntime>,
    /// Set once the registry exists, which holds these tools itself.
    caller: OnceLock<NestedCaller>,
}

/// What it takes to make a call on behalf of a plugin.
#[derive(Debug, Clone)]
pub(crate) struct NestedCaller {
    pub(crate) executor: Arc<ToolExecutor>,
    pub(crate) registry: Weak<ToolRegistry>,
    pub(crate) ids: Arc<dyn IdGenerator>,
    pub(crate) tracker: TaskTracker,
}

impl PluginToolHost {
    pub(crate) fn new(plugins: Arc<dyn PluginRuntime>) -> Self {
        Self { plugins, caller: OnceLock::new() }
    }

    pub(crate) fn bind(&self, caller: NestedCaller) {
        // Only one registry ever offers these tools.
        let _bound = self.caller.set(caller);
    }
}

impl ToolHost for PluginToolHost {
    fn kind(&self) -> ToolKind {
        ToolKind::Plugin
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        self.plugins.tools()
    }

    fn call<'a>(
        &'a self,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        _arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { ToolOutput::error(format!("{} cannot be called without a caller", call.name)) })
    }

    fn host_name<'a>(&'a self, tool: &'a ToolSpec) -> &'a str {
        let plugin = tool.traits.as_ref().and_then(|traits| traits.metadata.get(PLUGIN_METADATA_KEY));
        plugin.map_or(ToolKind::Plugin.name(), String::as_str)
    }

    fn qualifier_for(&self, tool: &ToolSpec) -> Option<Arc<str>> {
        let traits = tool.traits.as_ref()?;
        traits.metadata.get(PLUGIN_METADATA_KEY).map(|name| name.as_str().into())
    }
}

impl ContextToolHost for PluginToolHost {
    fn call_with_context<'a>(
        &'a self,
        context: &'a CallContext,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let functions = Arc::new(PluginFunctions {
            call: call.id.clone(),
            caller: self.caller.get().cloned(),
            context: CallContext {
                plugin_depth: context.plugin_depth.saturating_add(1),
                made_by: Some(format!("plugin {}", plugin_of(context, &call.name)).into()),
                ..context.clone()
            },
        });
        let plugin_call = PluginCall { tool: call.name.clone(), arguments: arguments.to_string().into(), functions };
        Box::pin(async move {
            let output = self.plugins.call(plugin_call, stop).await;
            match output.is_error || output.data.is_some() || !is_json(&output.content) {
                true => output,
                false => {
                    let json = Some(Bytes::copy_from_slice(output.content.as_bytes()));
                    output.with_structured(StructuredOutput { json, ..StructuredOutput::default() })
                }
            }
        })
    }
}

/// The name of the plugin that has the tool; the tool's own if its plugin is not known any more.
fn plugin_of(context: &CallContext, tool: &str) -> Arc<str> {
    let traits = context.tool_set.find(tool).and_then(|(spec, _)| spec.traits.as_ref());
    let name = traits.and_then(|traits| traits.metadata.get(PLUGIN_METADATA_KEY));
    name.map_or_else(|| tool.into(), |name| name.as_str().into())
}

/// Programs get a value where the plugin wrote one.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

/// The server's tools for one plugin call, on behalf of the caller of the plugin.
#[derive(Debug)]
struct PluginFunctions {
    call: CallId,
    caller: Option<NestedCaller>,
    context: CallContext,
}

impl HostFunctions for PluginFunctions {
    fn call_id(&self) -> &str {
        &self.call.0
    }

    fn call(&self, name: &str, arguments: Value, stop: CancellationToken) -> BoxFuture<'_, ToolOutput> {
        let name: Arc<str> = name.into();
        Box::pin(async move {
            if self.context.plugin_depth > MAX_PLUGIN_DEPTH {
                return ToolOutput::error(format!("plugins call each other at most {MAX_PLUGIN_DEPTH} deep"));
            }
            match &self.caller {
                Some(caller) => caller.call(&self.context, name, arguments, stop).await,
                None => ToolOutput::error("the server is shutting down"),
            }
        })
    }
}

impl NestedCaller {
    /// A tool of the server, for a plugin that works in `context`. Policy, approvals and records are those of the
    /// plugin's caller; the plugin's grants decide which tools there are. The call runs in a task of its own: a plugin
    /// can end in the middle of a call, whose end has to be recorded all the same. Dropping the future, like `stop`,
    /// cancels the call.
    async fn call(
        &self,
        context: &CallContext,
        name: Arc<str>,
        arguments: Value,
        stop: CancellationToken,
    ) -> ToolOutput {
        let Some(registry) = self.registry.upgrade() else {
            return ToolOutput::error("the server is shutting down");
        };
        let tool_set = registry.tool_set(None, context.scope.folder.as_deref());
        let context = CallContext { tool_set, ..context.clone() };
        let call = ToolCall {
            id: CallId(format!("call_{}", self.ids.next().simple()).into()),
            name,
            input: ToolInput::Json(Arc::new(arguments)),
        };
        let stop = stop.child_token();
        let _cancel_on_drop = stop.clone().drop_guard();
        let executor = self.executor.clone();
        let calling = async move { executor.call_nested(&context, call, &stop).await };
        match self.tracker.spawn(calling.in_current_span()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => ToolOutput::error(error.to_string()),
            Err(_) => ToolOutput::error("internal error: the call panicked"),
        }
    }
}

#[cfg(test)]
mod tests;
