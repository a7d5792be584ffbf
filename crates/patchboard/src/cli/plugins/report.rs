//! What the server says about its plugins, read from its JSON. What is missing is left empty: an older or newer server is
//! no reason to say nothing at all.

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::Client;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Plugin {
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
    pub(in crate::cli) waiting_for_approval: Option<Waiting>,
}

/// A newer version that wants more than the one before.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Waiting {
    pub(in crate::cli) changes: Vec<String>,
}

/// As the server says it: not a page, but all of them.
pub(in crate::cli) async fn all(client: &mut Client) -> anyhow::Result<Vec<Value>> {
    let mut answer = client.call("plugin.list", json!({})).await?;
    let items = answer.as_array_mut().context("the server's answer is no list of plugins")?;
    Ok(std::mem::take(items))
}

pub(in crate::cli) fn read(value: &Value) -> anyhow::Result<Plugin> {
    Plugin::deserialize(value).map_err(|error| anyhow::anyhow!("the server's answer cannot be read: {error}"))
}
