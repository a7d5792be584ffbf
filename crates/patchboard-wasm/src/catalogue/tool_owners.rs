//! Whose a tool's own name is. A name belongs to the plugin that had it first and stays that plugin's while it is unloaded,
//! held, refused or gone: approvals, grants and agents' lists go by names, and must not come to mean another's tool.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchboard_core::port::Clock;
use patchboard_core::store::{Durability, KvNamespace, Store, StoreError, StoreWrite, WriteBatch};

const KEY: &str = "plugins/names";

/// From a tool's name to its plugin's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToolNameOwners(BTreeMap<Arc<str>, Arc<str>>);

impl ToolNameOwners {
    /// The plugin has these tools now: names nobody has are its own from now on, and what it had besides is free.
    pub(super) fn assign<'a>(&mut self, plugin: &Arc<str>, tools: impl Iterator<Item = &'a Arc<str>> + Clone) {
        self.0.retain(|name, owner| owner != plugin || tools.clone().any(|tool| tool == name));
        for tool in tools {
            self.0.entry(tool.clone()).or_insert_with(|| plugin.clone());
        }
    }

    pub(super) fn owner(&self, tool: &str) -> Option<&Arc<str>> {
        self.0.get(tool)
    }

    /// Plugins that are not there any more let go of their names.
    pub(super) fn retain_plugins(&mut self, is_known: impl Fn(&str) -> bool) {
        self.0.retain(|_, owner| is_known(owner));
    }
}

/// What nobody can read is as good as nothing: names are then given anew, in the plugins' order.
pub(super) async fn read(store: &dyn Store) -> Result<ToolNameOwners, StoreError> {
    let kept = store.kv_get(&KvNamespace::Server, KEY).await?;
    let names = kept.map(|bytes| serde_json::from_slice::<BTreeMap<Arc<str>, Arc<str>>>(&bytes)).transpose();
    Ok(ToolNameOwners(names.ok().flatten().unwrap_or_default()))
}

pub(super) async fn write(store: &dyn Store, clock: &dyn Clock, names: &ToolNameOwners) -> Result<(), StoreError> {
    let value = serde_json::to_vec(&names.0)
        .map_err(|error| StoreError::Failed { attempted: "write down names of tools", source: error.into() })?;
    let keep =
        StoreWrite::PutValue { namespace: KvNamespace::Server, key: KEY.into(), value: Some(value), at: clock.now() };
    store.commit(WriteBatch { durability: Durability::Boundary, writes: vec![keep] }).await
}

#[cfg(test)]
mod tests;
