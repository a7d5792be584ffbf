//! `[mcp.NAME]`: MCP servers, whose tools are added to the registry.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{SecretRef, TimeSpan};

/// An MCP server: a program with stdio transport (`command`) or an HTTP endpoint (`url`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpConfig {
    /// Whether the entry is used. `false` disables one that an earlier file configured.
    pub enabled: bool,
    /// Program and arguments of a stdio server.
    #[schemars(example = ["npx", "some-mcp-server"])]
    pub command: Vec<String>,
    /// Folder the program runs in. Left out, a private one in the data directory; paths in `command` are then relative
    /// to the folder in which Patchboard was started.
    #[schemars(example = &"servers", extend("x-kind" = "path"))]
    pub working_folder: Option<PathBuf>,
    /// Environment variables of the program: text, `env:NAME` or `file:PATH`. It gets no others except `PATH`, `HOME`
    /// and locale.
    #[schemars(example = serde_json::json!({"API_TOKEN": "env:FILES_TOKEN"}), extend("x-kind" = "environment"))]
    pub env: BTreeMap<String, String>,
    /// Endpoint of an HTTP server, instead of `command`.
    #[schemars(example = &"https://mcp.example.com/mcp", extend("x-kind" = "url"))]
    pub url: Option<String>,
    /// Bearer token for the HTTP server.
    #[schemars(example = &"env:MCP_TOKEN")]
    pub token: Option<SecretRef>,
    /// How long the server may take to start and initialise.
    pub start_timeout: TimeSpan,
    /// Time limit of one tool call.
    pub call_timeout: TimeSpan,
}

impl Default for McpConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            command: Vec::new(),
            working_folder: None,
            env: BTreeMap::new(),
            url: None,
            token: None,
            start_timeout: TimeSpan::from_secs(20),
            call_timeout: TimeSpan::from_secs(30),
        }
    }
}
