//! Commands about plugins, and what plugins call in turn.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Board;
use crate::access::Caller;
use crate::error::{BoardError, ErrorKind};
use crate::id::CallId;
use crate::model::{ToolCall, ToolInput};
use crate::plugin::{PluginReport, PluginState};
use crate::port::{AuditRow, Durability, PluginRuntime, StoreWrite, WriteBatch};
use crate::reply::BoardReply;
use crate::tool::{CallContext, ToolOutput};

impl Board {
    pub(super) fn plugins(&self) -> Vec<PluginReport> {
        self.0.plugins.as_ref().map(|plugins| plugins.list()).unwrap_or_default()
    }

    pub(super) fn loaded_plugins(&self) -> u64 {
        self.plugins().iter().filter(|plugin| plugin.state == PluginState::Ready).count() as u64
    }

    pub(super) async fn load_plugin(
        &self,
        caller: &Caller,
        named: &str,
        stop: CancellationToken,
    ) -> Result<BoardReply, BoardError> {
        let report = self.plugin_host()?.load(named, stop).await?;
        self.audit_plugin(caller, "plugin.load", &report.name, report.sha256.as_deref().unwrap_or_default()).await?;
        Ok(BoardReply::Plugin(Box::new(report)))
    }

    pub(super) async fn unload_plugin(&self, caller: &Caller, name: &str) -> Result<BoardReply, BoardError> {
        self.plugin_host()?.unload(name).await?;
        self.audit_plugin(caller, "plugin.unload", name, "").await?;
        Ok(BoardReply::Done)
    }

    pub(super) async fn approve_plugin(&self, caller: &Caller, name: &str) -> Result<BoardReply, BoardError> {
        let report = self.plugin_host()?.approve(name).await?;
        self.audit_plugin(caller, "plugin.approve", name, report.sha256.as_deref().unwrap_or_default()).await?;
        Ok(BoardReply::Plugin(Box::new(report)))
    }

    /// A tool of the server, for a plugin that works in `context`. Policy, approvals and records are those of whoever
    /// called the plugin; which tools there are is for the plugin's grants to say. A task of its own: plugins end in the
    /// middle of what they do, and what they called still has its end recorded. Dropping this ends it, as `stop` does.
    pub(crate) async fn call_for_plugin(
        &self,
        context: &CallContext,
        name: Arc<str>,
        arguments: Value,
        stop: CancellationToken,
    ) -> ToolOutput {
        let offer = self.0.run_deps.registry.tool_set(None, context.scope.folder.as_deref());
        let context = CallContext { tool_set: offer, ..context.clone() };
        let call = ToolCall {
            id: CallId(format!("call_{}", self.0.ids.next().simple()).into()),
            name,
            input: ToolInput::Json(Arc::new(arguments)),
        };
        let stop = stop.child_token();
        let _wanted = stop.clone().drop_guard();
        let deps = self.0.run_deps.clone();
        let calling = async move { deps.tool_executor.call_nested(&context, call, &stop).await };
        match self.0.tracker.spawn(calling.in_current_span()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => ToolOutput::error(error.to_string()),
            Err(_) => ToolOutput::error("the call failed inside"),
        }
    }

    fn plugin_host(&self) -> Result<&Arc<dyn PluginRuntime>, BoardError> {
        let missing = || BoardError::new(ErrorKind::Unavailable, "this server has no plugin host");
        self.0.plugins.as_ref().ok_or_else(missing)
    }

    async fn audit_plugin(&self, caller: &Caller, action: &str, name: &str, detail: &str) -> Result<(), BoardError> {
        let audit = AuditRow {
            at: self.0.clock.now(),
            principal: caller.principal.clone(),
            surface: caller.surface.name().into(),
            action: action.into(),
            subject: name.into(),
            run: None,
            detail: detail.into(),
        };
        self.0
            .store
            .commit(WriteBatch { durability: Durability::Boundary, writes: vec![StoreWrite::Audit(audit)] })
            .await?;
        Ok(())
    }
}
