//! Owners of unqualified tool names. A name belongs to the first plugin that used it and stays with it while the plugin
//! is unloaded, held, refused or missing: approvals, grants and agents' tool lists refer to names, and must not come to
//! mean another plugin's tool.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchboard_core::port::Clock;
use patchboard_core::store::{KvNamespace, Store, StoreError, StoreWrite, WriteBatch};

const KEY: &str = "plugins/names";

/// Plugin names by tool name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToolNameOwners(BTreeMap<Arc<str>, Arc<str>>);

impl ToolNameOwners {
    /// Records a plugin's current tools: it gets all names without an owner, and releases names it no longer uses.
    pub(super) fn assign<'a>(&mut self, plugin: &Arc<str>, tools: impl Iterator<Item = &'a Arc<str>> + Clone) {
        self.0.retain(|name, owner| owner != plugin || tools.clone().any(|tool| tool == name));
        for tool in tools {
            self.0.entry(tool.clone()).or_insert_with(|| plugin.clone());
        }
    }

    pub(super) fn owner(&self, tool: &str) -> Option<&Arc<str>> {
        self.0.get(tool)
    }

    /// Releases the names of plugins that no longer exist.
    pub(super) fn retain_plugins(&mut self, is_known: impl Fn(&str) -> bool) {
        self.0.retain(|_, owner| is_known(owner));
    }
}

/// Unreadable data counts as empty: names are then assigned again, in the plugins' order.
pub(super) async fn read(store: &dyn Store) -> Result<ToolNameOwners, StoreError> {
    let stored = store.kv_get(&KvNamespace::Server, KEY).await?;
    let names = stored.map(|bytes| serde_json::from_slice::<BTreeMap<Arc<str>, Arc<str>>>(&bytes)).transpose();
    Ok(ToolNameOwners(names.ok().flatten().unwrap_or_default()))
}

pub(super) async fn write(store: &dyn Store, clock: &dyn Clock, names: &ToolNameOwners) -> Result<(), StoreError> {
    let value = serde_json::to_vec(&names.0)
        .map_err(|error| StoreError::Failed { attempted: "store the owners of tool names", source: error.into() })?;
    let keep = StoreWrite::put(KvNamespace::Server, KEY.into(), Some(value), clock.now());
    store.commit(WriteBatch::boundary(vec![keep])).await
}

#[cfg(test)]
mod tests;
