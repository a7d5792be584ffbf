//! Pins: what was approved of a plugin, that is its file, imports, grants and tool descriptions. Stored, so that
//! changes across a restart are detected too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchboard_core::plugin::PluginGrant;
use patchboard_core::port::Clock;
use patchboard_core::store::{KvNamespace, Store, StoreError, StoreWrite, WriteBatch};
use patchboard_core::tool::{ToolEffect, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::version::PluginVersion;

/// Version of the stored form. Pins of another version are unreadable, so that the plugin needs approval again.
const PIN_FORMAT: u32 = 1;

/// The properties of a plugin version that matter for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PluginPin {
    pub(super) sha256: Arc<str>,
    /// Imported interfaces.
    pub(super) imports: BTreeSet<Arc<str>>,
    pub(super) grants: BTreeSet<PluginGrant>,
    pub(super) has_channel: bool,
    pub(super) tools: BTreeMap<Arc<str>, PinnedTool>,
}

/// A tool as approved. Hashes suffice to detect changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PinnedTool {
    pub(super) description: String,
    pub(super) input_schema: String,
    pub(super) read_only: bool,
}

/// The stored pin of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PinLookup {
    /// The plugin was never pinned.
    Missing,
    Known(PluginPin),
    /// A pin exists, but what was approved cannot be read.
    Unreadable(String),
}

impl PluginPin {
    pub(super) fn of(version: &dyn PluginVersion, grants: &[PluginGrant]) -> Self {
        Self {
            sha256: version.sha256().clone(),
            imports: version.imports().clone(),
            grants: grants.iter().cloned().collect(),
            has_channel: version.has_channel(),
            tools: version.tools().iter().map(|tool| (tool.name.clone(), PinnedTool::of(tool))).collect(),
        }
    }

    fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&StoredPin {
            version: PIN_FORMAT,
            sha256: self.sha256.clone(),
            imports: self.imports.clone(),
            grants: self.grants.iter().map(ToString::to_string).collect(),
            channel: self.has_channel,
            tools: self.tools.clone(),
        })
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let form: PinHeader = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if form.version != PIN_FORMAT {
            return Err(format!("it is of form {}, and this server reads form {PIN_FORMAT}", form.version));
        }
        let stored: StoredPin = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let grants = stored.grants.iter().map(|grant| grant.parse().map_err(|bad| format!("{bad}")));
        Ok(Self {
            sha256: stored.sha256,
            imports: stored.imports,
            grants: grants.collect::<Result<_, String>>()?,
            has_channel: stored.channel,
            tools: stored.tools,
        })
    }
}

impl PinnedTool {
    fn of(tool: &ToolSpec) -> Self {
        let mut schema = Sha256::new();
        hash_json(&tool.input_schema, &mut schema);
        Self {
            description: hex::encode(Sha256::digest(tool.description.as_bytes())),
            input_schema: hex::encode(schema.finalize()),
            read_only: tool.effect == ToolEffect::ReadOnly,
        }
    }
}

/// `Err` if the store fails, which must not be mistaken for a missing pin.
pub(super) async fn read(store: &dyn Store, plugin: &str) -> Result<PinLookup, StoreError> {
    Ok(match store.kv_get(&KvNamespace::Server, &key(plugin)).await? {
        None => PinLookup::Missing,
        Some(bytes) => match PluginPin::from_bytes(&bytes) {
            Ok(pin) => PinLookup::Known(pin),
            Err(problem) => PinLookup::Unreadable(problem),
        },
    })
}

pub(super) async fn write(
    store: &dyn Store,
    clock: &dyn Clock,
    plugin: &str,
    pin: &PluginPin,
) -> Result<(), StoreError> {
    let value = pin
        .to_bytes()
        .map_err(|error| StoreError::Failed { attempted: "store a plugin's pin", source: error.into() })?;
    let keep = StoreWrite::put(KvNamespace::Server, key(plugin).into(), Some(value), clock.now());
    store.commit(WriteBatch::boundary(vec![keep])).await
}

fn key(plugin: &str) -> String {
    format!("plugins/pins/{plugin}")
}

#[derive(Deserialize)]
struct PinHeader {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPin {
    version: u32,
    sha256: Arc<str>,
    imports: BTreeSet<Arc<str>>,
    grants: Vec<String>,
    channel: bool,
    tools: BTreeMap<Arc<str>, PinnedTool>,
}

/// Hashes JSON independently of key order. Every part is prefixed with its type and length, so that different contents
/// cannot hash the same input.
fn hash_json(value: &Value, into: &mut Sha256) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            into.update(format!("object {}\n", sorted.len()));
            for (key, value) in sorted {
                into.update(format!("key {}\n{key}\n", key.len()));
                hash_json(value, into);
            }
        }
        Value::Array(items) => {
            into.update(format!("array {}\n", items.len()));
            for item in items {
                hash_json(item, into);
            }
        }
        Value::String(text) => into.update(format!("text {}\n{text}\n", text.len())),
        Value::Null | Value::Bool(_) | Value::Number(_) => into.update(format!("{value}\n")),
    }
}

#[cfg(test)]
mod tests;
