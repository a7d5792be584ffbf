//! The backend's error type, and conversions of column values.

use jiff::Timestamp;
use patchboard_core::error::BoxError;
use patchboard_core::id::{RunId, SessionKey};
use patchboard_core::store::{PageCursor, StoreError};
use uuid::Uuid;

/// Far above legitimate counts; thousands of them still fit into the database's 64-bit integers.
const MAX_STORED_COUNT: u64 = 1 << 48;

#[derive(Debug)]
pub(super) enum SqliteError {
    Sqlite(rusqlite::Error),
    /// The transaction could not begin: another program has locked the database, or it is inaccessible.
    BeginFailed(rusqlite::Error),
    /// The write contradicts the stored state.
    Rejected(String),
    /// A value is not of the expected version.
    Conflict,
    Corrupt {
        what: &'static str,
        source: BoxError,
    },
    BadCursor,
}

impl SqliteError {
    pub(super) fn into_store_error(self, attempted: &'static str) -> StoreError {
        match self {
            Self::Sqlite(source) | Self::BeginFailed(source) if is_full(&source) => StoreError::Full,
            Self::Sqlite(source) | Self::BeginFailed(source) => StoreError::Failed { attempted, source: source.into() },
            Self::Rejected(reason) => StoreError::Failed { attempted, source: reason.into() },
            Self::Corrupt { what, source } => StoreError::Corrupt { what, source },
            Self::BadCursor => StoreError::BadCursor,
            Self::Conflict => StoreError::Conflict,
        }
    }

    pub(super) fn corrupt(what: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Corrupt { what, source: source.into() }
    }
}

pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

pub(super) fn timestamp(microseconds: i64) -> Result<Timestamp, SqliteError> {
    Timestamp::from_microsecond(microseconds).map_err(|error| SqliteError::corrupt("time", error))
}

pub(super) fn session_key(text: &str) -> Result<SessionKey, SqliteError> {
    SessionKey::parse(text).ok_or_else(|| SqliteError::corrupt("session key", text))
}

pub(super) fn run_id(bytes: &[u8]) -> Result<RunId, SqliteError> {
    Uuid::from_slice(bytes).map(RunId).map_err(|error| SqliteError::corrupt("run id", error))
}

/// Converts a count to its stored form.
pub(super) fn to_stored_count(value: u64) -> i64 {
    value.min(MAX_STORED_COUNT).cast_signed()
}

/// The inverse of `to_stored_count`. Negative numbers are never written and read as 0.
pub(super) fn from_stored_count(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

/// Splits a cursor into its numbers.
pub(super) fn cursor_parts<const N: usize>(cursor: &PageCursor) -> Result<[i64; N], SqliteError> {
    let mut parts = [0; N];
    let mut texts = cursor.0.split('.');
    for part in &mut parts {
        *part = texts.next().and_then(|text| text.parse().ok()).ok_or(SqliteError::BadCursor)?;
    }
    if texts.next().is_some() { Err(SqliteError::BadCursor) } else { Ok(parts) }
}

/// A requested number of rows as an SQL limit.
pub(super) fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit.min(super::MAX_ITEMS)).unwrap_or(0)
}
