//! `[tools]`: permissions of tools.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{SecretRef, TimeSpan};

/// Permissions of tools, and when approval is required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolsConfig {
    /// Whether a tool runs at once, requires approval or is refused, by glob over its name. The most specific pattern
    /// wins; among equals, the stricter setting. If no pattern matches, read-only tools run, and others run in local
    /// runs, require approval on the gateway and are refused to webhooks.
    #[schemars(example = serde_json::json!({"bash": "ask", "*": "allow"}))]
    pub approval: BTreeMap<String, ToolApproval>,
    /// Time limit of one `bash` command.
    pub bash_timeout: TimeSpan,
    /// Permissions of `bash` commands, besides work in their folder and outgoing connections.
    pub bash: BashConfig,
    /// Loopback, private and link-local hosts that fetching tools may reach.
    #[schemars(example = ["intranet.example.com"])]
    pub fetch_private_hosts: Vec<String>,
    /// Endpoint of `websearch` and `codesearch`. Left out, these tools do not exist.
    pub search: Option<SearchConfig>,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            approval: BTreeMap::new(),
            bash_timeout: TimeSpan::from_secs(120),
            bash: BashConfig::default(),
            fetch_private_hosts: Vec::new(),
            search: None,
        }
    }
}

/// Permissions of `bash` commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BashConfig {
    /// Folders that commands may read and run programs from, besides the system's. The data directory and files with
    /// keys stay closed even inside them.
    #[schemars(example = ["~/.cargo", "~/.rustup"], extend("x-kind" = "path"))]
    pub readable: Vec<PathBuf>,
    /// Folders searched for programs before the usual ones. They become readable too.
    #[schemars(example = ["~/.cargo/bin"], extend("x-kind" = "path"))]
    pub path: Vec<PathBuf>,
    /// TCP ports that commands may connect to, on this machine or another: those of shells, the web, version control
    /// and common development servers and databases. The server's own ports are always refused.
    pub connect: Vec<u16>,
    /// Whether commands may connect to every port except this server's own. Each command then takes about 50 ms longer.
    pub connect_any: bool,
    /// Whether commands may listen on TCP ports, as servers under test do.
    pub listen: bool,
    /// Whether commands may use Unix sockets with a path, such as those of a container engine, a database or an SSH
    /// agent. They can then reach every process of the server's user that has one, except this server and its workers.
    pub unix_sockets: bool,
}

impl Default for BashConfig {
    fn default() -> Self {
        Self {
            readable: Vec::new(),
            path: Vec::new(),
            connect: vec![
                21, 22, 80, 443, 873, 3000, 3001, 3306, 4000, 4200, 5000, 5173, 5432, 6379, 8000, 8001, 8081, 8443,
                8888, 9000, 9200, 9418, 11434, 27017,
            ],
            connect_any: false,
            listen: false,
            unix_sockets: false,
        }
    }
}

/// A search endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["kind", "url"]))]
pub struct SearchConfig {
    /// Which API the endpoint speaks.
    #[schemars(example = &"searxng")]
    pub kind: SearchKind,
    /// Address of the endpoint itself, including its path. It may be on this machine or a private network.
    #[schemars(example = &"http://127.0.0.1:8888/search", extend("x-kind" = "url"))]
    pub url: String,
    /// Key for the endpoint, if it requires one.
    #[schemars(example = &"env:SEARCH_API_KEY")]
    pub api_key: Option<SecretRef>,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self { kind: SearchKind::Searxng, url: String::new(), api_key: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SearchKind {
    /// the Exa search API: JSON by POST, the key in `x-api-key`
    Exa,
    /// the JSON API of a SearXNG server
    Searxng,
}

// Ordered from lenient to strict, so that the stricter of two is the larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolApproval {
    /// the tool runs at once
    Allow,
    /// the run pauses until the call is approved
    Ask,
    /// the call is refused
    Deny,
}
