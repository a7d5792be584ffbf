//! `[tools]`: what tools may do.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::types::TimeSpan;

/// What tools may do, and who is asked first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolsConfig {
    /// Whether a tool runs at once, asks first or is refused, by glob over its name. The most specific pattern wins, a tie goes to the stricter.
    /// With no pattern that fits, read-only tools run, and others run for local runs, ask on the gateway and are refused to webhooks.
    #[schemars(example = serde_json::json!({"bash": "ask", "*": "allow"}))]
    pub approval: BTreeMap<String, Approval>,
    /// How long one `bash` command may take.
    pub bash_timeout: TimeSpan,
    /// Hosts that fetching tools may reach although they are loopback, private or link-local.
    #[schemars(example = ["intranet.example.com"])]
    pub fetch_private_hosts: Vec<String>,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self { approval: BTreeMap::new(), bash_timeout: TimeSpan::from_secs(120), fetch_private_hosts: Vec::new() }
    }
}

// Ordered from lenient to strict, so that the stricter of two is the larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Approval {
    /// the tool runs at once
    Allow,
    /// the run pauses until somebody approves
    Ask,
    /// the call is refused
    Deny,
}
