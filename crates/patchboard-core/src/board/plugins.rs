//! Plugin commands.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Board;
use crate::caller::Caller;
use crate::error::{BoardError, ErrorKind};
use crate::plugin::{PluginReport, PluginState};
use crate::port::PluginRuntime;
use crate::store::{AuditRow, StoreWrite, WriteBatch};

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
        name_or_path: &str,
        stop: CancellationToken,
    ) -> Result<PluginReport, BoardError> {
        let report = self.plugin_host()?.load(name_or_path, stop).await?;
        self.audit_plugin(caller, "plugin.load", &report.name, report.sha256.as_deref().unwrap_or_default()).await?;
        Ok(report)
    }

    pub(super) async fn unload_plugin(&self, caller: &Caller, name: &str) -> Result<(), BoardError> {
        self.plugin_host()?.unload(name).await?;
        self.audit_plugin(caller, "plugin.unload", name, "").await?;
        Ok(())
    }

    pub(super) async fn approve_plugin(&self, caller: &Caller, name: &str) -> Result<PluginReport, BoardError> {
        let report = self.plugin_host()?.approve(name).await?;
        self.audit_plugin(caller, "plugin.approve", name, report.sha256.as_deref().unwrap_or_default()).await?;
        Ok(report)
    }

    fn plugin_host(&self) -> Result<&Arc<dyn PluginRuntime>, BoardError> {
        let missing = || BoardError::new(ErrorKind::Unavailable, "this server has no plugin host");
        self.0.plugins.as_ref().ok_or_else(missing)
    }

    async fn audit_plugin(&self, caller: &Caller, action: &str, name: &str, detail: &str) -> Result<(), BoardError> {
        let audit = AuditRow {
            at: self.0.clock.now(),
            principal: caller.principal.text(),
            surface: caller.surface.name().into(),
            action: action.into(),
            subject: name.into(),
            run: None,
            detail: detail.into(),
        };
        self.0.store.commit(WriteBatch::boundary(vec![StoreWrite::Audit(audit)])).await?;
        Ok(())
    }
}
