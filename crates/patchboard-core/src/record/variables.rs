//! The stored form of a session's variables, without long values, which have keys of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{RecordError, model_messages};
use crate::error::BoxError;
use crate::variable_set;

/// One variant per version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VersionedVariableSet {
    V1 {
        cursor: u64,
        floor: u64,
        variables: BTreeMap<Arc<str>, StoredVariable>,
        gone: BTreeMap<Arc<str>, StoredTombstone>,
    },
}

#[derive(Serialize, Deserialize)]
struct StoredVariable {
    /// As JSON text, so that its nesting does not deepen the record. Missing if stored separately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    version: u64,
    updated_at: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
    set: u64,
    changed: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredTombstone {
    version: u64,
    changed: u64,
}

/// `is_stored_separately` selects the variables whose values are not part of the record.
pub(crate) fn encode_variable_set(
    set: &variable_set::VariableSet,
    is_stored_separately: fn(&variable_set::Variable) -> bool,
) -> Vec<u8> {
    let stored_variable = |(name, variable): (&Arc<str>, &variable_set::Variable)| {
        let stored = StoredVariable {
            value: (!is_stored_separately(variable)).then(|| variable.value.to_string()),
            version: variable.version,
            updated_at: variable.updated_at.to_string(),
            depends_on: variable.depends_on.to_vec(),
            stale: variable.is_stale,
            set: variable.set_cursor,
            changed: variable.changed_cursor,
        };
        (name.clone(), stored)
    };
    let tombstone = |(name, deleted): (&Arc<str>, &variable_set::DeletedVariable)| {
        (name.clone(), StoredTombstone { version: deleted.version, changed: deleted.deleted_cursor })
    };
    model_messages::encode(&VersionedVariableSet::V1 {
        cursor: set.cursor,
        floor: set.oldest_complete_cursor,
        variables: set.variables.iter().map(stored_variable).collect(),
        gone: set.deleted.iter().map(tombstone).collect(),
    })
}

/// Also returns the variables whose values are stored separately; until they are read, they are `null`.
pub(crate) fn decode_variable_set(bytes: &[u8]) -> Result<(variable_set::VariableSet, Vec<Arc<str>>), RecordError> {
    let malformed = |source| RecordError::Malformed { version: 1, source };
    let VersionedVariableSet::V1 { cursor, floor, variables, gone } =
        model_messages::decode(bytes).map_err(malformed)?;
    let separate_names =
        variables.iter().filter(|(_, stored)| stored.value.is_none()).map(|(name, _)| name.clone()).collect();
    let variables = variables
        .into_iter()
        .map(|(name, stored)| Ok((name, variable_set::Variable::try_from(stored)?)))
        .collect::<Result<_, BoxError>>()
        .map_err(malformed)?;
    let gone = gone
        .into_iter()
        .map(|(name, StoredTombstone { version, changed })| {
            (name, variable_set::DeletedVariable { version, deleted_cursor: changed })
        })
        .collect();
    Ok((variable_set::VariableSet { cursor, oldest_complete_cursor: floor, variables, deleted: gone }, separate_names))
}

/// Encodes a value that is stored separately.
pub(crate) fn encode_value(value: &Value) -> Vec<u8> {
    model_messages::encode(value)
}

pub(crate) fn decode_value(bytes: &[u8]) -> Result<Value, RecordError> {
    model_messages::decode(bytes).map_err(|source| RecordError::Malformed { version: 1, source })
}

impl TryFrom<StoredVariable> for variable_set::Variable {
    type Error = BoxError;

    fn try_from(stored: StoredVariable) -> Result<Self, BoxError> {
        let StoredVariable { value, version, updated_at, depends_on, stale, set, changed } = stored;
        let (value, bytes) = match value {
            Some(text) => (serde_json::from_str(&text)?, text.len()),
            None => (Value::Null, 0),
        };
        Ok(Self {
            value: Arc::new(value),
            bytes,
            version,
            updated_at: updated_at.parse::<Timestamp>()?,
            depends_on: depends_on.into(),
            is_stale: stale,
            set_cursor: set,
            changed_cursor: changed,
        })
    }
}

#[cfg(test)]
mod tests;
