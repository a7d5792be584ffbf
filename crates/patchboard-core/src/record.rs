//! Stored forms. Core types are free to change; what was written to disk is not. Every record carries its version,
//! every version has a fixture, and old versions stay readable. This is the only place in the core that serialises.

use crate::error::BoxError;
use crate::event::{Event, NewEvent};
use crate::id::NodeId;
use crate::model::ModelMessage;

mod agent_run_events;
mod apps;
mod chat_run_events;
mod deliveries;
mod hub_message_events;
mod run_briefing;
mod todos;
mod training_data;
mod variables;
mod workspaces;

pub(crate) use apps::{decode_known_apps, encode_known_apps};
pub(crate) use deliveries::{decode_delivery_payload, encode_delivery_payload};
pub(crate) use todos::{decode_todos, encode_todos};
pub(crate) use training_data::{decode_training_data, encode_training_data};
pub(crate) use variables::{decode_value, decode_variable_set, encode_value, encode_variable_set};
pub(crate) use workspaces::{decode_workspace_threads, decode_workspaces, encode_workspace_threads, encode_workspaces};

/// The version messages of turns are written in.
pub const MESSAGES_VERSION: u16 = 1;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("record version {0} is newer than this program; upgrade it to read this data")]
    UnknownVersion(u16),
    #[error("record of version {version} is malformed")]
    Malformed {
        version: u16,
        #[source]
        source: BoxError,
    },
}

/// The bytes and the version they are written in: the oldest that can hold the entry, so that what an older program
/// understands stays as short as it was.
pub fn encode_entry(node: Option<NodeId>, event: &Event) -> (u16, Vec<u8>) {
    if let Some(entry) = run_briefing::StoredBriefingEntry::from_event(node, event) {
        return (4, chat_run_events::encode(&entry));
    }
    match (node, agent_run_events::StoredRunEvent::of(event)) {
        (None, Ok(agent_run_events::StoredRunEvent::V1(event))) => (1, chat_run_events::encode(&event)),
        (node, Ok(event @ (agent_run_events::StoredRunEvent::V1(_) | agent_run_events::StoredRunEvent::V2(_)))) => {
            (2, chat_run_events::encode(&agent_run_events::StoredRunEntry::new(node, event)))
        }
        (node, Err(message)) => {
            (3, chat_run_events::encode(&hub_message_events::StoredMessageEntry::new(node, message)))
        }
    }
}

pub fn decode_entry(version: u16, bytes: &[u8]) -> Result<(Option<NodeId>, Event), RecordError> {
    match version {
        1 => chat_run_events::decode::<chat_run_events::StoredChatEvent>(bytes)
            .and_then(Event::try_from)
            .map(|event| (None, event)),
        2 => chat_run_events::decode::<agent_run_events::StoredRunEntry>(bytes)
            .and_then(NewEvent::try_from)
            .map(|NewEvent { node, event }| (node, event)),
        3 => chat_run_events::decode::<hub_message_events::StoredMessageEntry>(bytes)
            .and_then(NewEvent::try_from)
            .map(|NewEvent { node, event }| (node, event)),
        4 => chat_run_events::decode::<run_briefing::StoredBriefingEntry>(bytes)
            .and_then(NewEvent::try_from)
            .map(|NewEvent { node, event }| (node, event)),
        other => return Err(RecordError::UnknownVersion(other)),
    }
    .map_err(|source| RecordError::Malformed { version, source })
}

pub fn encode_messages(messages: &[ModelMessage]) -> Vec<u8> {
    let stored: Vec<chat_run_events::StoredModelMessage> =
        messages.iter().map(chat_run_events::StoredModelMessage::from).collect();
    chat_run_events::encode(&stored)
}

pub fn decode_messages(version: u16, bytes: &[u8]) -> Result<Vec<ModelMessage>, RecordError> {
    match version {
        1 => chat_run_events::decode::<Vec<chat_run_events::StoredModelMessage>>(bytes)
            .and_then(|stored| stored.into_iter().map(ModelMessage::try_from).collect())
            .map_err(|source| RecordError::Malformed { version, source }),
        other => Err(RecordError::UnknownVersion(other)),
    }
}

#[cfg(test)]
mod tests;
