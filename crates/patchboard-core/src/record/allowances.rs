//! The stored form of what was allowed for a session.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{RECORD_VERSION, RecordError, model_messages};
use crate::allowance::{AllowanceScope, SessionAllowance};
use crate::error::BoxError;

/// One variant per version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VersionedAllowances {
    V1(Vec<StoredAllowance>),
}

#[derive(Serialize, Deserialize)]
struct StoredAllowance {
    tool: Arc<str>,
    scope: StoredScope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    until: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredScope {
    Folder,
    Host(Arc<str>),
    Command(Arc<str>),
}

pub(crate) fn encode_allowances(allowances: &[SessionAllowance]) -> Vec<u8> {
    let stored = allowances.iter().map(|allowance| StoredAllowance {
        tool: allowance.tool.clone(),
        scope: match &allowance.scope {
            AllowanceScope::Folder => StoredScope::Folder,
            AllowanceScope::Host(host) => StoredScope::Host(host.clone()),
            AllowanceScope::Command(word) => StoredScope::Command(word.clone()),
        },
        folder: allowance.folder.as_ref().map(|folder| folder.to_string_lossy().into_owned()),
        until: allowance.until.to_string(),
    });
    model_messages::encode(&VersionedAllowances::V1(stored.collect()))
}

pub(crate) fn decode_allowances(bytes: &[u8]) -> Result<Vec<SessionAllowance>, RecordError> {
    let malformed = |source: BoxError| RecordError::Malformed { version: RECORD_VERSION, source };
    let VersionedAllowances::V1(stored) = model_messages::decode(bytes).map_err(malformed)?;
    let allowances = stored.into_iter().map(|stored| {
        Ok(SessionAllowance {
            tool: stored.tool,
            scope: match stored.scope {
                StoredScope::Folder => AllowanceScope::Folder,
                StoredScope::Host(host) => AllowanceScope::Host(host),
                StoredScope::Command(word) => AllowanceScope::Command(word),
            },
            folder: stored.folder.map(|folder| Arc::from(Path::new(&folder))),
            until: stored.until.parse()?,
        })
    });
    allowances.collect::<Result<_, BoxError>>().map_err(malformed)
}

#[cfg(test)]
mod tests;
