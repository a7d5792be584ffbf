//! `[[plugins]]`: WebAssembly components.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A WebAssembly plugin: tools or a channel adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "path"]))]
pub(crate) struct PluginConfig {
    /// Name of the plugin; a channel adapter's name is its channel.
    #[schemars(example = &"echo")]
    pub name: String,
    /// The component file.
    #[schemars(example = &"plugins/echo.wasm", extend("x-kind" = "path"))]
    pub path: PathBuf,
    /// What the plugin may reach: `http:HOST`, `store:NAME`, `host-function:NAME`. Nothing else is reachable.
    #[schemars(example = ["http:api.example.com", "store:notes"])]
    pub grants: Vec<String>,
}
