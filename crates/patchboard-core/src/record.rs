//! Stored forms. Core types are free to change; what was written to disk is not. Every record carries its version,
//! every version has a fixture, and old versions stay readable. This is the only place in the core that serialises.

use crate::error::BoxError;
use crate::event::Event;
use crate::model::Message;

mod v1;

/// The version new records are written in.
pub const VERSION: u16 = 1;

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

pub fn encode_event(event: &Event) -> Vec<u8> {
    v1::encode(&v1::Event::from(event))
}

pub fn decode_event(version: u16, bytes: &[u8]) -> Result<Event, RecordError> {
    match version {
        1 => v1::decode::<v1::Event>(bytes)
            .and_then(Event::try_from)
            .map_err(|source| RecordError::Malformed { version, source }),
        other => Err(RecordError::UnknownVersion(other)),
    }
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
