//! `[tools]`: what tools may do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{SecretRef, TimeSpan};

/// What tools may do, and who is asked first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolsConfig {
    /// Whether a tool runs at once, asks first or is refused, by glob over its name. The most specific pattern wins, a tie goes to the stricter.
    /// With no pattern that fits, read-only tools run, and others run for local runs, ask on the gateway and are refused to webhooks.
    #[schemars(example = serde_json::json!({"bash": "ask", "*": "allow"}))]
    pub approval: BTreeMap<String, ToolApproval>,
    /// How long one `bash` command may take.
    pub bash_timeout: TimeSpan,
    /// What `bash` commands may do besides working in their folder and connecting to others.
    pub bash: BashConfig,
    /// Hosts that fetching tools may reach although they are loopback, private or link-local.
    #[schemars(example = ["intranet.example.com"])]
    pub fetch_private_hosts: Vec<String>,
    /// Where `websearch` and `codesearch` ask. Left out, there are no such tools.
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

/// What `bash` commands may do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BashConfig {
    /// Folders that commands may read and run programs from, besides the system's own. The data directory and files with keys stay closed even in there.
    #[schemars(example = ["~/.cargo", "~/.rustup"], extend("x-kind" = "path"))]
    pub readable: Vec<PathBuf>,
    /// Folders in which programs are looked for first, before the usual ones. They become readable too.
    #[schemars(example = ["~/.cargo/bin"], extend("x-kind" = "path"))]
    pub path: Vec<PathBuf>,
    /// TCP ports that commands may connect to, on this machine or another: those of shells, the web, version control and common development servers and databases. Never this server's own.
    pub connect: Vec<u16>,
    /// Whether commands may connect to every port but this server's own. Each command then takes some 50 ms longer.
    pub connect_any: bool,
    /// Whether commands may open TCP ports, as servers under test do.
    pub listen: bool,
    /// Whether commands may use sockets that have a path, such as those of a container engine, a database or an SSH agent. They then reach every program of the server's user that has one, but not this server and its workers.
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
    /// Address of the endpoint itself, its path included. It may be on this machine or a private network.
    #[schemars(example = &"http://127.0.0.1:8888/search", extend("x-kind" = "url"))]
    pub url: String,
    /// Key for the endpoint, where it wants one.
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
    /// the run pauses until somebody approves
    Ask,
    /// the call is refused
    Deny,
}
