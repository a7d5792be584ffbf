//! What a session keeps, besides its long values, which are kept under keys of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{RecordError, v1};
use crate::bridge::variables::shelf;
use crate::error::BoxError;

/// One variant for each version; frozen like the versions of other records.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Shelf {
    V1 { cursor: u64, floor: u64, variables: BTreeMap<Arc<str>, Variable>, gone: BTreeMap<Arc<str>, Gone> },
}

#[derive(Serialize, Deserialize)]
struct Variable {
    /// As JSON text, so that what it holds cannot make the record deeper. Left out where it is kept apart.
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
struct Gone {
    version: u64,
    changed: u64,
}

/// `is_apart` says of which variables the values are not in the record.
pub(crate) fn encode_shelf(kept: &shelf::Shelf, is_apart: fn(&shelf::Variable) -> bool) -> Vec<u8> {
    let one = |(name, variable): (&Arc<str>, &shelf::Variable)| {
        let stored = Variable {
            value: (!is_apart(variable)).then(|| variable.value.to_string()),
            version: variable.version,
            updated_at: variable.updated_at.to_string(),
            depends_on: variable.depends_on.to_vec(),
            stale: variable.is_stale,
            set: variable.set,
            changed: variable.changed,
        };
        (name.clone(), stored)
    };
    let gone =
        |(name, gone): (&Arc<str>, &shelf::Gone)| (name.clone(), Gone { version: gone.version, changed: gone.changed });
    v1::encode(&Shelf::V1 {
        cursor: kept.cursor,
        floor: kept.floor,
        variables: kept.variables.iter().map(one).collect(),
        gone: kept.gone.iter().map(gone).collect(),
    })
}

/// Also names the variables whose values are to be read from elsewhere; until then they are `null`.
pub(crate) fn decode_shelf(bytes: &[u8]) -> Result<(shelf::Shelf, Vec<Arc<str>>), RecordError> {
    let malformed = |source| RecordError::Malformed { version: 1, source };
    let Shelf::V1 { cursor, floor, variables, gone } = v1::decode(bytes).map_err(malformed)?;
    let apart = variables.iter().filter(|(_, stored)| stored.value.is_none()).map(|(name, _)| name.clone()).collect();
    let variables = variables
        .into_iter()
        .map(|(name, stored)| Ok((name, shelf::Variable::try_from(stored)?)))
        .collect::<Result<_, BoxError>>()
        .map_err(malformed)?;
    let gone =
        gone.into_iter().map(|(name, Gone { version, changed })| (name, shelf::Gone { version, changed })).collect();
    Ok((shelf::Shelf { cursor, floor, variables, gone }, apart))
}

/// A value that is kept apart.
pub(crate) fn encode_value(value: &Value) -> Vec<u8> {
    v1::encode(value)
}

pub(crate) fn decode_value(bytes: &[u8]) -> Result<Value, RecordError> {
    v1::decode(bytes).map_err(|source| RecordError::Malformed { version: 1, source })
}

impl TryFrom<Variable> for shelf::Variable {
    type Error = BoxError;

    fn try_from(stored: Variable) -> Result<Self, BoxError> {
        let Variable { value, version, updated_at, depends_on, stale, set, changed } = stored;
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
            set,
            changed,
        })
    }
}

#[cfg(test)]
mod tests;
