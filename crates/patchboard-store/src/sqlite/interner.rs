//! Interned names: stored once and referenced by number.

use std::collections::HashMap;

use patchboard_core::id::{MemoryOwner, SessionKey};
use rusqlite::{Connection, OptionalExtension};

use super::sql_error::SqliteError;

/// Cached names. When the cache is full it is cleared; a new lookup takes a few microseconds.
const MAX_CACHED_NAMES: usize = 4096;

/// The writer's cache of names. Must be cleared after a rollback.
#[derive(Debug, Default)]
pub(super) struct NameInterner {
    cached: HashMap<Box<str>, i64>,
}

impl NameInterner {
    /// The name's number; assigns one to a new name.
    pub(super) fn intern(&mut self, db: &Connection, name: &str) -> Result<i64, SqliteError> {
        if let Some(&number) = self.cached.get(name) {
            return Ok(number);
        }
        let number = match find(db, name)? {
            Some(number) => number,
            None => db.prepare_cached("INSERT INTO names (name) VALUES (?1)")?.insert([name])?,
        };
        if self.cached.len() >= MAX_CACHED_NAMES {
            self.cached.clear();
        }
        self.cached.insert(name.into(), number);
        Ok(number)
    }

    /// The number of a session key. Refuses keys that could not be parsed when read.
    pub(super) fn intern_session(&mut self, db: &Connection, key: &SessionKey) -> Result<i64, SqliteError> {
        if key.as_str().len() > SessionKey::MAX_BYTES {
            return Err(SqliteError::Rejected(format!(
                "the session key is longer than {} bytes",
                SessionKey::MAX_BYTES
            )));
        }
        self.intern(db, key.as_str())
    }

    pub(super) fn clear(&mut self) {
        self.cached.clear();
    }
}

/// Distinguishes an account from a principal of the same spelling, whose name must outlive the account.
const OWNER_PREFIX: &str = "account/";

/// The name under which the owner of facts is stored.
pub(super) fn owner_name(owner: &MemoryOwner) -> String {
    format!("{OWNER_PREFIX}{owner}")
}

pub(super) fn owner_of_name(name: &str) -> Option<MemoryOwner> {
    MemoryOwner::parse(name.strip_prefix(OWNER_PREFIX)?)
}

pub(super) fn find(db: &Connection, name: &str) -> Result<Option<i64>, SqliteError> {
    let mut statement = db.prepare_cached("SELECT number FROM names WHERE name = ?1")?;
    Ok(statement.query_row([name], |row| row.get(0)).optional()?)
}
