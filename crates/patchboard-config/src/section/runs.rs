//! `[runs]`: agent runs over WebSocket.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{ListenAddress, SecretRef, TimeSpan};

/// Agent runs over WebSocket, with their events, tools and working folders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunsConfig {
    /// Address to listen on. Port 0 picks a free port; `off` disables runs.
    pub listen: ListenAddress,
    /// Token that clients must present; left out, the gateway's.
    #[schemars(example = &"env:PATCHBOARD_TOKEN")]
    pub token: Option<SecretRef>,
    /// Working folder of tools if a request names none. Left out, the folder in which the server is started.
    #[schemars(extend("x-kind" = "path"))]
    pub working_folder: PathBuf,
    /// Folders that must contain a request's working folder. Left out, the folder in which the server is started.
    #[schemars(extend("x-kind" = "path"))]
    pub allowed_roots: Vec<PathBuf>,
    /// Send `run_start`, `got_expand` and `thought_chunk` as `custom` events, for clients that reject unknown types.
    pub strict_clients: bool,
    /// Close the connection after a failed run instead of keeping it open.
    pub close_on_error: bool,
    /// How long a client may leave events unread before it is disconnected; its run continues.
    pub stall_timeout: TimeSpan,
    /// Browser origins that may connect, added to loopback origins.
    pub allowed_origins: Vec<String>,
    /// Names accepted in the `Host` header, added to loopback names and the listen address.
    pub allowed_hosts: Vec<String>,
    /// Allow plaintext off loopback. Tokens and prompts are readable in transit; use it only behind a TLS proxy or on a
    /// private link.
    pub insecure: bool,
    /// Connections open at once; further ones wait until one is closed.
    #[schemars(range(min = 1))]
    pub max_connections: u32,
}

impl Default for RunsConfig {
    fn default() -> Self {
        Self {
            listen: ListenAddress::loopback(8080),
            token: None,
            working_folder: PathBuf::from("."),
            allowed_roots: vec![PathBuf::from(".")],
            strict_clients: false,
            close_on_error: false,
            stall_timeout: TimeSpan::from_secs(30),
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            insecure: false,
            max_connections: 1_000,
        }
    }
}
