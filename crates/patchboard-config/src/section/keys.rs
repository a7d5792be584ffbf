//! `[[keys]]`: keys of clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::SecretRef;

/// A key: a secret of one client, and what that client may do. Accepted wherever a listener accepts tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "secret"]))]
pub struct KeyConfig {
    /// Name of the key, by which runs, budgets and the audit trail know the client.
    #[schemars(example = &"ci")]
    pub name: String,
    /// The secret, 16 bytes or more.
    #[schemars(example = &"env:CI_KEY")]
    pub secret: Option<SecretRef>,
    /// Agents that the client may start, also as nested runs. Left out, all.
    #[schemars(example = ["default"])]
    pub agents: Option<Vec<String>>,
    /// Where the key is accepted. Left out, everywhere.
    #[schemars(example = ["gateway", "runs"])]
    pub surfaces: Option<Vec<KeySurface>>,
    /// Tools that the client and its runs may use, by name or with `*`. Left out, all.
    #[schemars(example = ["read", "app.*"])]
    pub tools: Option<Vec<String>>,
    /// Whether the client sees and steers the runs of all clients, reads their conversations and answers their
    /// approvals. It changes nothing of the server.
    pub oversee: bool,
    /// Token limits of all runs that the client starts, with their nested runs. Left out means unlimited.
    pub budget: KeyBudgetConfig,
    /// Headers of the client's requests that name the person it acts for. Checked and kept; no surface reads them yet.
    #[schemars(example = ["X-Forwarded-User"])]
    pub trust_headers: Vec<String>,
}

/// Token limits, input and output together. Left out means unlimited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyBudgetConfig {
    /// Tokens per day, UTC.
    #[schemars(range(min = 1), example = 100000)]
    pub daily: Option<u64>,
    /// Tokens per calendar month, UTC.
    #[schemars(range(min = 1), example = 2000000)]
    pub monthly: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeySurface {
    /// the chat gateway
    Gateway,
    /// agent runs
    Runs,
    /// MCP on the gateway's listener
    Mcp,
    /// the hub's HTTP routes
    Hub,
    /// the bridge
    Bridge,
}
