//! What can go wrong inside, and the plain values rows are made of.

use jiff::Timestamp;
use patchboard_core::error::BoxError;
use patchboard_core::id::{RunId, SessionKey};
use patchboard_core::port::{Cursor, StoreError};
use uuid::Uuid;

/// No honest figure comes near it, and thousands of them still add up inside an integer of the database.
const MAX_FIGURE: u64 = 1 << 48;

#[derive(Debug)]
pub(super) enum Fault {
    Sqlite(rusqlite::Error),
    /// The transaction did not even begin: another program holds the database, or it is out of reach.
    NotBegun(rusqlite::Error),
    /// The write contradicts what is stored.
    Refused(String),
    Corrupt {
        what: &'static str,
        source: BoxError,
    },
    BadCursor,
}

impl Fault {
    pub(super) fn during(self, attempted: &'static str) -> StoreError {
        match self {
            Self::Sqlite(source) | Self::NotBegun(source) if is_full(&source) => StoreError::Full,
            Self::Sqlite(source) | Self::NotBegun(source) => StoreError::Failed { attempted, source: source.into() },
            Self::Refused(reason) => StoreError::Failed { attempted, source: reason.into() },
            Self::Corrupt { what, source } => StoreError::Corrupt { what, source },
            Self::BadCursor => StoreError::BadCursor,
        }
    }

    pub(super) fn corrupt(what: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Corrupt { what, source: source.into() }
    }
}

pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

pub(super) fn timestamp(microseconds: i64) -> Result<Timestamp, Fault> {
    Timestamp::from_microsecond(microseconds).map_err(|error| Fault::corrupt("time", error))
}

pub(super) fn session_key(text: &str) -> Result<SessionKey, Fault> {
    SessionKey::parse(text).ok_or_else(|| Fault::corrupt("session key", text))
}

pub(super) fn run_id(bytes: &[u8]) -> Result<RunId, Fault> {
    Uuid::from_slice(bytes).map(RunId).map_err(|error| Fault::corrupt("run id", error))
}

/// A figure of ours as the database keeps it.
pub(super) fn figure(value: u64) -> i64 {
    value.min(MAX_FIGURE).cast_signed()
}

/// The inverse. Nothing negative is ever written, so a negative number reads as nothing.
pub(super) fn count(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

/// Splits a cursor into its numbers.
pub(super) fn cursor_parts<const N: usize>(cursor: &Cursor) -> Result<[i64; N], Fault> {
    let mut parts = [0; N];
    let mut texts = cursor.0.split('.');
    for part in &mut parts {
        *part = texts.next().and_then(|text| text.parse().ok()).ok_or(Fault::BadCursor)?;
    }
    if texts.next().is_some() { Err(Fault::BadCursor) } else { Ok(parts) }
}

/// A number of rows asked for, as SQL takes it.
pub(super) fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit.min(super::MAX_ITEMS)).unwrap_or(0)
}
