//! Created keys. Key-value entries have no version column, so each value names its version itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{RecordError, model_messages};
use crate::error::BoxError;
use crate::keys::{self, KeyBudget, KeyHash, KeyRights, KeySource, KeySpec};
use crate::tool::Glob;

/// One variant per version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VersionedKey {
    V1(StoredKey),
}

#[derive(Serialize, Deserialize)]
struct StoredKey {
    name: Arc<str>,
    /// The SHA-256 of the secret in hex digits.
    hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agents: Option<Vec<Arc<str>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    surfaces: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
    #[serde(default)]
    oversee: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    daily: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    monthly: Option<u64>,
    created_at: String,
}

/// `None` for a key of the file, which is not stored.
pub(crate) fn encode_key(key: &KeySpec) -> Option<Vec<u8>> {
    let KeySpec { name, hash, rights, source } = key;
    let KeySource::Created(created_at) = source else { return None };
    let KeyRights { agents, surfaces, tools, oversee, budget, trust_headers: _ } = rights;
    Some(model_messages::encode(&VersionedKey::V1(StoredKey {
        name: name.clone(),
        hash: hex::encode(hash.0),
        agents: agents.clone(),
        surfaces: surfaces.as_ref().map(|all| all.iter().map(|surface| surface.name().to_owned()).collect()),
        tools: tools.as_ref().map(|all| all.iter().map(ToString::to_string).collect()),
        oversee: *oversee,
        daily: budget.daily,
        monthly: budget.monthly,
        created_at: created_at.to_string(),
    })))
}

pub(crate) fn decode_key(bytes: &[u8]) -> Result<KeySpec, RecordError> {
    let VersionedKey::V1(stored) = model_messages::decode(bytes).map_err(malformed)?;
    read(stored).map_err(malformed)
}

fn read(stored: StoredKey) -> Result<KeySpec, BoxError> {
    let mut hash = [0; 32];
    hex::decode_to_slice(&stored.hash, &mut hash).map_err(|error| error.to_string())?;
    // A surface that this version does not know is left out; an empty list accepts the key nowhere.
    let surfaces = |names: Vec<String>| names.iter().filter_map(|name| keys::key_surface(name)).collect();
    let globs = |patterns: Vec<String>| patterns.into_iter().map(Glob::new).collect();
    Ok(KeySpec {
        name: stored.name,
        hash: KeyHash(hash),
        rights: KeyRights {
            agents: stored.agents,
            surfaces: stored.surfaces.map(surfaces),
            tools: stored.tools.map(globs),
            oversee: stored.oversee,
            budget: KeyBudget { daily: stored.daily, monthly: stored.monthly },
            trust_headers: Vec::new(),
        },
        source: KeySource::Created(stored.created_at.parse()?),
    })
}

fn malformed(source: BoxError) -> RecordError {
    RecordError::Malformed { version: 1, source }
}

#[cfg(test)]
mod tests;
