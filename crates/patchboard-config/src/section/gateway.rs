//! `[gateway]`: WebSocket JSON-RPC, webhooks, MCP over HTTP and the console.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{ListenAddress, SecretRef, TimeSpan};

/// The chat gateway: WebSocket JSON-RPC, webhooks, metrics and the web console.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayConfig {
    /// Address to listen on. Port 0 picks a free port; `off` disables the gateway.
    pub listen: ListenAddress,
    /// Token that clients must present. Required off loopback; if set, required on loopback too.
    #[schemars(example = &"env:PATCHBOARD_TOKEN")]
    pub token: Option<SecretRef>,
    /// Browser origins that may connect, added to loopback origins.
    #[schemars(example = ["https://console.example.com"])]
    pub allowed_origins: Vec<String>,
    /// Names accepted in the `Host` header, added to loopback names and the listen address.
    #[schemars(example = ["board.example.com"])]
    pub allowed_hosts: Vec<String>,
    /// Allow plaintext off loopback. Tokens and chats are readable in transit; use it only behind a TLS proxy or on a
    /// private link.
    pub insecure: bool,
    /// Connections open at once; further ones wait until one is closed.
    #[schemars(range(min = 1))]
    pub max_connections: u32,
    /// Rate limit of requests per connection. `ping` does not count.
    pub rate_limit: RateLimitConfig,
    /// How long a turn continues after its connection has closed, so that a client can rejoin it.
    #[schemars(extend("x-zero" = true))]
    pub orphan_grace: TimeSpan,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            listen: ListenAddress::loopback(7200),
            token: None,
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            insecure: false,
            max_connections: 20_000,
            rate_limit: RateLimitConfig::default(),
            orphan_grace: TimeSpan::from_secs(60),
        }
    }
}

/// A token bucket per connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimitConfig {
    /// Sustained requests per second.
    #[schemars(range(min = 1))]
    pub per_second: u32,
    /// Requests accepted at once after a pause.
    #[schemars(range(min = 1))]
    pub burst: u32,
}

impl Default for RateLimitConfig {
    fn default() -> Self {
        Self { per_second: 1000, burst: 2000 }
    }
}
