//! `[wasm]`: discovery of plugins without a configuration entry.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The plugin host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WasmConfig {
    /// Folder in which every `NAME.wasm` is a plugin, with `grants` and `settings` in a `NAME.toml` beside it. It need
    /// not exist. Left out, `plugins` in the data folder.
    #[schemars(example = &"plugins", extend("x-kind" = "path"))]
    pub folder: Option<PathBuf>,
    /// Reload plugins when their files change, and load those that are added to the folder.
    pub watch: bool,
}

impl Default for WasmConfig {
    fn default() -> Self {
        Self { folder: None, watch: true }
    }
}
