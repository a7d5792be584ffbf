//! Stored forms, apart from the core types, which are free to change. Every record carries its version and has a
//! fixture. Until the first release there is one version, edited in place; a store refuses a database with another
//! fingerprint. This is the only place in the core that serialises.

use crate::error::BoxError;
use crate::event::{Event, NewEvent};
use crate::id::NodeId;
use crate::model::ModelMessage;

mod allowances;
mod apps;
mod deliveries;
mod findings;
mod hub_message_events;
mod inputs;
mod keys;
mod model_messages;
mod run_briefing;
mod run_events;
mod todos;
mod training_data;
mod variables;
mod workspaces;

pub(crate) use allowances::{decode_allowances, encode_allowances};
pub(crate) use apps::{decode_known_apps, encode_known_apps};
pub(crate) use deliveries::{decode_delivery_payload, encode_delivery_payload};
pub use inputs::{decode_input_answer, decode_input_request, encode_input_answer, encode_input_request};
pub(crate) use keys::{decode_key, encode_key};
pub(crate) use todos::{decode_todos, encode_todos};
pub(crate) use training_data::{decode_training_data, encode_training_data};
pub(crate) use variables::{decode_value, decode_variable_set, encode_value, encode_variable_set};
pub(crate) use workspaces::{decode_workspace_threads, decode_workspaces, encode_workspace_threads, encode_workspaces};

/// The version of all records. Part of a database's fingerprint: a change of any stored form raises it.
pub const RECORD_VERSION: u16 = 1;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("record version {0} is not the one this program reads")]
    UnknownVersion(u16),
    #[error("record of version {version} is malformed")]
    Malformed {
        version: u16,
        #[source]
        source: BoxError,
    },
}

/// The bytes of an event with its node, in the present version.
pub fn encode_entry(node: Option<NodeId>, event: &Event) -> Vec<u8> {
    model_messages::encode(&run_events::StoredEntry::new(node, event))
}

pub fn decode_entry(version: u16, bytes: &[u8]) -> Result<(Option<NodeId>, Event), RecordError> {
    check_version(version)?;
    model_messages::decode::<run_events::StoredEntry>(bytes)
        .and_then(NewEvent::try_from)
        .map(|NewEvent { node, event }| (node, event))
        .map_err(|source| RecordError::Malformed { version, source })
}

pub fn encode_messages(messages: &[ModelMessage]) -> Vec<u8> {
    let stored: Vec<_> = messages.iter().map(model_messages::StoredModelMessage::from).collect();
    model_messages::encode(&stored)
}

pub fn decode_messages(version: u16, bytes: &[u8]) -> Result<Vec<ModelMessage>, RecordError> {
    check_version(version)?;
    model_messages::decode::<Vec<model_messages::StoredModelMessage>>(bytes)
        .and_then(|stored| stored.into_iter().map(ModelMessage::try_from).collect())
        .map_err(|source| RecordError::Malformed { version, source })
}

fn check_version(version: u16) -> Result<(), RecordError> {
    if version == RECORD_VERSION { Ok(()) } else { Err(RecordError::UnknownVersion(version)) }
}

#[cfg(test)]
mod tests;
