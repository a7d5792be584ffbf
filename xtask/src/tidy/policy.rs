//! `deny.toml`, the one home of the lists of licences, bans and sources; cargo-deny reads the same file.

use anyhow::Context as _;
use serde::Deserialize;

use crate::tidy::tree::Tree;

pub(super) const FILE: &str = "deny.toml";

#[derive(Debug, Deserialize)]
pub(crate) struct Policy {
    pub(crate) licenses: Licenses,
    pub(crate) bans: Bans,
    pub(crate) sources: Sources,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Licenses {
    pub(crate) allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Bans {
    pub(crate) deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Ban {
    #[serde(rename = "crate")]
    pub(crate) name: String,
    pub(crate) reason: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Sources {
    #[serde(rename = "allow-registry")]
    pub(crate) allow_registry: Vec<String>,
}

impl Policy {
    pub(crate) fn load(tree: &Tree) -> anyhow::Result<Policy> {
        let file = tree.get(FILE).with_context(|| format!("`{FILE}` is missing"))?;
        Policy::parse(&file.text)
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Policy> {
        toml::from_str(text).with_context(|| format!("cannot read `{FILE}`"))
    }
}

#[cfg(test)]
mod tests;
