//! The stored form of known hub apps.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{RecordError, model_messages};
use crate::app;

/// One variant per version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VersionedKnownApps {
    V1(Vec<StoredKnownApp>),
}

#[derive(Serialize, Deserialize)]
struct StoredKnownApp {
    name: Arc<str>,
    description: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    capabilities: Vec<Arc<str>>,
    /// Microseconds since 1970.
    seen_at: i64,
    #[serde(default)]
    approved: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<[u8; 32]>,
}

pub(crate) fn encode_known_apps(known: &[app::KnownApp]) -> Vec<u8> {
    let stored = known.iter().map(|known| StoredKnownApp {
        name: known.profile.name.clone(),
        description: known.profile.description.clone(),
        version: known.profile.version.clone(),
        capabilities: known.profile.capabilities.clone(),
        seen_at: known.seen_at.as_microsecond(),
        approved: known.is_approved,
        token: known.token,
    });
    model_messages::encode(&VersionedKnownApps::V1(stored.collect()))
}

pub(crate) fn decode_known_apps(bytes: &[u8]) -> Result<Vec<app::KnownApp>, RecordError> {
    let VersionedKnownApps::V1(stored) =
        model_messages::decode(bytes).map_err(|source| RecordError::Malformed { version: 1, source })?;
    let known = stored.into_iter().map(|stored| app::KnownApp {
        profile: Arc::new(app::AppProfile {
            name: stored.name,
            description: stored.description,
            version: stored.version,
            capabilities: stored.capabilities,
        }),
        seen_at: Timestamp::from_microsecond(stored.seen_at).unwrap_or(Timestamp::UNIX_EPOCH),
        is_approved: stored.approved,
        token: stored.token,
    });
    Ok(known.collect())
}

#[cfg(test)]
mod tests;
