//! `[[plugins]]`: WebAssembly components.

use std::{collections::BTreeMap, path::PathBuf};

use patchboard_core::plugin::PluginGrant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::SecretRef;

/// A WebAssembly plugin: tools, a channel adapter, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "path"]))]
pub struct PluginConfig {
    /// Name of the plugin; prefixes the names of tools whose own names are taken, and makes it the adapter of the
    /// channel of that name.
    #[schemars(example = &"webhook-json")]
    pub name: String,
    /// Whether the entry is used. `false` disables one that an earlier file configured.
    pub enabled: bool,
    /// The component file.
    #[schemars(example = &"plugins/webhook-json.wasm", extend("x-kind" = "path"))]
    pub path: PathBuf,
    /// What the plugin may access: `http:HOST`, `http:HOST:PORT`, `store:NAME`, `host-function:NAME`. Nothing else is
    /// accessible.
    #[schemars(example = ["http:hooks.example.com", "store:notes"])]
    pub grants: Vec<String>,
    /// The SHA-256 of the file, 64 hex digits. If set, no other file is loaded.
    #[schemars(example = &"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")]
    pub sha256: Option<String>,
    /// Settings that the plugin can read.
    #[schemars(example = serde_json::json!({"content_field": "text"}))]
    pub settings: BTreeMap<String, String>,
    /// Secrets that the plugin can use but not read: they replace `{{secret:NAME}}` in what it sends.
    #[schemars(example = serde_json::json!({"api_key": "env:HOOKS_API_KEY"}))]
    pub secrets: BTreeMap<String, SecretRef>,
}

impl Default for PluginConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            enabled: true,
            path: PathBuf::new(),
            grants: Vec::new(),
            sha256: None,
            settings: BTreeMap::new(),
            secrets: BTreeMap::new(),
        }
    }
}

impl PluginConfig {
    /// The parsed grants. Must be called only after they were validated.
    pub fn parsed_grants(&self) -> Vec<PluginGrant> {
        self.grants.iter().filter_map(|grant| grant.parse().ok()).collect()
    }

    pub fn parsed_sha256(&self) -> Option<[u8; 32]> {
        self.sha256.as_deref().and_then(parse_sha256)
    }
}

/// The bytes of a hash in 64 hex digits.
pub(crate) fn parse_sha256(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok().map(|()| bytes)
}
