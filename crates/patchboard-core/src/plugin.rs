//! Plugins: what they may reach, what is known about them, and their tools on the one path of every call.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::board::{Board, WeakBoard};
use crate::error::{BoardError, ErrorKind};
use crate::model::ToolCall;
use crate::port::{PluginRuntime, ToolHost};
use crate::tool::{CallContext, StructuredOutput, ToolOutput, ToolScope, ToolSpec};

mod grant;
pub use grant::{GrantParseError, HostGrant, PluginGrant};

/// The kind of tools that are plugins.
pub const PLUGIN_KIND: &str = "wasm";
/// Under this name the metadata of a tool names its plugin.
pub const PLUGIN_METADATA_KEY: &str = "plugin";
/// How many plugins may call each other in a row.
pub const MAX_PLUGIN_DEPTH: u8 = 3;

/// What a plugin is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginState {
    /// Its file is being read and compiled.
    Loading,
    Ready,
    /// Its file has changed in a way the operator has to approve, and no earlier version is at work.
    AwaitingApproval,
    /// Its file cannot be used.
    Refused,
    Unloaded,
}

impl PluginState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::AwaitingApproval => "held",
            Self::Refused => "refused",
            Self::Unloaded => "unloaded",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginReport {
    pub name: Arc<str>,
    pub state: PluginState,
    /// Where it comes from: a path.
    pub source: Arc<str>,
    /// Of the version at work or, if none is, of the last one seen. Lower-case hex.
    pub sha256: Option<Arc<str>>,
    pub has_tools: bool,
    pub has_channel: bool,
    pub grants: Vec<PluginGrant>,
    pub tools: Vec<Arc<str>>,
    pub loaded_at: Option<Timestamp>,
    /// Calls since the server started, and those that failed.
    pub calls: u64,
    pub failures: u64,
    /// Why it is refused, or why its newest file is.
    pub problem: Option<Arc<str>>,
    /// What a newer version of it wants that was not approved; empty when none waits.
    pub changes: Vec<Arc<str>>,
}

/// Why a plugin could not be loaded, unloaded or approved. Sentences for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("{0}")]
    Unknown(String),
    /// Its file cannot be used.
    #[error("{0}")]
    Refused(String),
    /// It was read, and waits for approval.
    #[error("{0}")]
    AwaitingApproval(String),
    #[error("{0}")]
    Failed(String),
}

impl From<PluginError> for BoardError {
    fn from(error: PluginError) -> Self {
        let kind = match &error {
            PluginError::Unknown(_) => ErrorKind::NotFound,
            PluginError::Refused(_) => ErrorKind::Invalid,
            PluginError::AwaitingApproval(_) => ErrorKind::Conflict,
            PluginError::Failed(_) => ErrorKind::Unavailable,
        };
        Self::new(kind, error.to_string())
    }
}

/// One call of a plugin's tool.
#[derive(Debug, Clone)]
pub struct PluginCall {
    /// As it was offered: its own name, or `PLUGIN.NAME`.
    pub tool: Arc<str>,
    /// A JSON object that fits the schema.
    pub arguments: Arc<str>,
    /// For what the plugin calls in turn.
    pub functions: Arc<dyn HostFunctions>,
}

/// The server's tools, for a plugin that works on somebody's behalf. Whether the plugin was granted a tool has been
/// checked before.
pub trait HostFunctions: Send + Sync + std::fmt::Debug {
    fn call(&self, name: &str, arguments: Value, stop: CancellationToken) -> BoxFuture<'_, ToolOutput>;
}

/// Plugins' tools, as the registry knows tools.
#[derive(Debug)]
pub(crate) struct PluginTools {
    plugins: Arc<dyn PluginRuntime>,
    /// Set once there is one: the board offers these tools and carries out what they call.
    board: OnceLock<WeakBoard>,
}

impl PluginTools {
    pub(crate) fn new(plugins: Arc<dyn PluginRuntime>) -> Self {
        Self { plugins, board: OnceLock::new() }
    }

    pub(crate) fn bind(&self, board: &Board) {
        // Only ever one board has these tools.
        let _bound = self.board.set(board.downgrade());
    }
}

impl ToolHost for PluginTools {
    fn kind(&self) -> &'static str {
        PLUGIN_KIND
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
        Box::pin(async move { ToolOutput::error(format!("{} has to know who asks", call.name)) })
    }

    fn call_with_context<'a>(
        &'a self,
        context: &'a CallContext,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let functions = Arc::new(BoardFunctions {
            board: self.board.get().cloned(),
            context: CallContext { plugin_depth: context.plugin_depth.saturating_add(1), ..context.clone() },
        });
        let called = PluginCall { tool: call.name.clone(), arguments: arguments.to_string().into(), functions };
        Box::pin(async move {
            let output = self.plugins.call(called, stop).await;
            match output.is_error || output.data.is_some() || !is_json(&output.content) {
                true => output,
                false => {
                    let json = Some(Bytes::copy_from_slice(output.content.as_bytes()));
                    output.with_structured(StructuredOutput { json, ..StructuredOutput::default() })
                }
            }
        })
    }

    fn qualifier_for(&self, tool: &ToolSpec) -> Option<Arc<str>> {
        let traits = tool.traits.as_ref()?;
        traits.metadata.get(PLUGIN_METADATA_KEY).map(|name| name.as_str().into())
    }
}

/// Programs get a value where the plugin wrote one.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

/// On behalf of whoever called the plugin, on the path of every call.
#[derive(Debug)]
struct BoardFunctions {
    board: Option<WeakBoard>,
    context: CallContext,
}

impl HostFunctions for BoardFunctions {
    fn call(&self, name: &str, arguments: Value, stop: CancellationToken) -> BoxFuture<'_, ToolOutput> {
        let name: Arc<str> = name.into();
        Box::pin(async move {
            if self.context.plugin_depth > MAX_PLUGIN_DEPTH {
                return ToolOutput::error(format!("plugins call each other at most {MAX_PLUGIN_DEPTH} deep"));
            }
            let Some(board) = self.board.as_ref().and_then(WeakBoard::upgrade) else {
                return ToolOutput::error("the server is shutting down");
            };
            board.call_for_plugin(&self.context, name, arguments, stop).await
        })
    }
}

#[cfg(test)]
mod tests;
