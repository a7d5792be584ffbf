//! `[bridge]`: tools over gRPC.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{ListenAddress, SecretRef, TimeSpan};

/// The bridge: gRPC between tools, workers and other programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BridgeConfig {
    /// Address to listen on. Port 0 picks a free port; `off` disables the bridge.
    pub listen: ListenAddress,
    /// Forward pickled values to workers. The server itself never unpickles them; a worker that does executes whatever
    /// code they contain.
    pub allow_pickle: bool,
    /// How long an unused session is kept.
    pub session_ttl: TimeSpan,
    /// Sessions open at once; further ones are refused. One connection may have three quarters of them, all clients
    /// with the same rights nine tenths; the rest is reserved for others.
    #[schemars(range(min = 1))]
    pub max_sessions: u32,
    /// How long a call may wait for a free worker.
    pub queue_timeout: TimeSpan,
    /// Calls that may wait at once; further ones are refused.
    #[schemars(range(min = 1))]
    pub max_queue: u32,
    /// Time limit of a call; a caller may request less.
    pub call_timeout: TimeSpan,
    /// Time limit of a call that streams its result.
    pub stream_timeout: TimeSpan,
    /// Tools of the server that clients may call, besides those that are open to all: read-only tools, memory,
    /// variables, `hub_send`.
    #[schemars(example = ["agent.*", "write"], extend("x-kind" = "glob"))]
    pub expose: Vec<String>,
    /// Unix socket to listen on as well, for processes of the same user. Relative to the data folder.
    #[schemars(example = &"bridge.sock", extend("x-kind" = "data-path"))]
    pub unix_socket: Option<PathBuf>,
    /// Token that callers must send as `authorization: Bearer …`.
    #[schemars(example = &"env:PATCHBOARD_BRIDGE_TOKEN")]
    pub token: Option<SecretRef>,
    /// Certificate and key for TLS. Off loopback, TLS and either a token or `client_ca` are required.
    pub tls: Option<TlsConfig>,
    /// Allow plaintext off loopback. Tokens and values are readable in transit; use it only on a private link.
    pub insecure: bool,
    /// Host names by which clients may address the server, added to loopback names and the listen address.
    #[schemars(example = ["board.example.com"])]
    pub allowed_hosts: Vec<String>,
    /// Connections open at once; further ones are refused.
    #[schemars(range(min = 1))]
    pub max_connections: u32,
    /// Loopback ports reserved for workers when the server starts: two for each, one for its calls to the server and
    /// one for calls to it. Closed to `bash`, to MCP servers and to other workers, on every machine. A worker is not
    /// started without free ports.
    #[schemars(range(min = 2, max = 8192))]
    pub private_ports: u16,
}

impl Default for BridgeConfig {
    fn default() -> Self {
        Self {
            listen: ListenAddress::loopback(50051),
            allow_pickle: false,
            session_ttl: TimeSpan::from_secs(3600),
            max_sessions: 10_000,
            queue_timeout: TimeSpan::from_secs(10),
            max_queue: 1_000,
            call_timeout: TimeSpan::from_millis(298_800),
            stream_timeout: TimeSpan::from_secs(900),
            expose: Vec::new(),
            unix_socket: None,
            token: None,
            tls: None,
            insecure: false,
            allowed_hosts: Vec::new(),
            max_connections: 1_000,
            private_ports: 512,
        }
    }
}

/// Certificate files in PEM form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["cert", "key"]))]
pub struct TlsConfig {
    /// Certificate chain of the server.
    #[schemars(example = &"cert.pem", extend("x-kind" = "path"))]
    pub cert: PathBuf,
    /// Private key of the server.
    #[schemars(example = &"key.pem", extend("x-kind" = "path"))]
    pub key: PathBuf,
    /// Authority that must have issued client certificates. If set, every client needs one.
    #[schemars(example = &"ca.pem", extend("x-kind" = "path"))]
    pub client_ca: Option<PathBuf>,
}
