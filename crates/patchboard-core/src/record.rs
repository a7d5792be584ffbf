//! Stored forms. Core types are free to change; what was written to disk is not. Every record carries its version,
//! every version has a fixture, and old versions stay readable. This is the only place in the core that serialises.

use crate::error::BoxError;
use crate::event::{Entry, Event};
use crate::id::NodeId;
use crate::model::Message;

mod apps;
mod deliveries;
mod kept;
mod learned;
mod v1;
mod v2;
mod v3;
mod v4;
mod variables;
mod workspaces;

pub(crate) use apps::{decode_known_apps, encode_known_apps};
pub(crate) use deliveries::{decode_letter, encode_letter};
pub(crate) use kept::{decode_todos, encode_todos};
pub(crate) use learned::{decode_lessons, encode_lessons};
pub(crate) use variables::{decode_shelf, decode_value, encode_shelf, encode_value};
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
    if let Some(entry) = v4::Entry::of(node, event) {
        return (4, v1::encode(&entry));
    }
    match (node, v2::Stored::of(event)) {
        (None, Ok(v2::Stored::V1(event))) => (1, v1::encode(&event)),
        (node, Ok(event @ (v2::Stored::V1(_) | v2::Stored::V2(_)))) => (2, v1::encode(&v2::Entry::new(node, event))),
        (node, Err(message)) => (3, v1::encode(&v3::Entry::new(node, message))),
    }
}

pub fn decode_entry(version: u16, bytes: &[u8]) -> Result<(Option<NodeId>, Event), RecordError> {
    match version {
        1 => v1::decode::<v1::Event>(bytes).and_then(Event::try_from).map(|event| (None, event)),
        2 => v1::decode::<v2::Entry>(bytes).and_then(Entry::try_from).map(|Entry { node, event }| (node, event)),
        3 => v1::decode::<v3::Entry>(bytes).and_then(Entry::try_from).map(|Entry { node, event }| (node, event)),
        4 => v1::decode::<v4::Entry>(bytes).and_then(Entry::try_from).map(|Entry { node, event }| (node, event)),
        other => return Err(RecordError::UnknownVersion(other)),
    }
    .map_err(|source| RecordError::Malformed { version, source })
}

pub fn encode_messages(messages: &[Message]) -> Vec<u8> {
    let stored: Vec<v1::Message> = messages.iter().map(v1::Message::from).collect();
    v1::encode(&stored)
}

pub fn decode_messages(version: u16, bytes: &[u8]) -> Result<Vec<Message>, RecordError> {
    match version {
        1 => v1::decode::<Vec<v1::Message>>(bytes)
            .and_then(|stored| stored.into_iter().map(Message::try_from).collect())
            .map_err(|source| RecordError::Malformed { version, source }),
        other => Err(RecordError::UnknownVersion(other)),
    }
}

#[cfg(test)]
mod tests;
