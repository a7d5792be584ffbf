//! The server's plugin reports, parsed from JSON. Missing fields are left empty, so that a server of another version
//! can be read.

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::GatewayClient;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct PluginReport {
    pub(in crate::cli) name: String,
    pub(in crate::cli) state: String,
    pub(in crate::cli) sha256: Option<String>,
    /// `tools`, `channel`.
    pub(in crate::cli) kinds: Vec<String>,
    pub(in crate::cli) grants: Vec<String>,
    pub(in crate::cli) tools: Vec<String>,
    pub(in crate::cli) source: String,
    pub(in crate::cli) calls: u64,
    pub(in crate::cli) error: Option<String>,
    pub(in crate::cli) waiting_for_approval: Option<PendingVersion>,
}

/// A newer version that requires more than the previous one.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct PendingVersion {
    pub(in crate::cli) changes: Vec<String>,
}

/// `plugin.list` is not paged: the response is the whole list.
pub(in crate::cli) async fn fetch_plugins(client: &mut GatewayClient) -> anyhow::Result<Vec<Value>> {
    let mut answer = client.call("plugin.list", json!({})).await?;
    let items = answer.as_array_mut().context("the server's answer is no list of plugins")?;
    Ok(std::mem::take(items))
}

pub(in crate::cli) fn parse(value: &Value) -> anyhow::Result<PluginReport> {
    PluginReport::deserialize(value).map_err(|error| anyhow::anyhow!("the server's answer cannot be read: {error}"))
}
