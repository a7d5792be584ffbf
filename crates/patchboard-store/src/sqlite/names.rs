//! Names stored once and meant by their number.

use std::collections::HashMap;

use patchboard_core::id::SessionKey;
use rusqlite::{Connection, OptionalExtension};

use super::fault::Fault;

/// Names kept at hand. When there are more, all are forgotten and looked up again: a few microseconds each.
const MAX_KNOWN: usize = 4096;

/// The writer's memory of names. Only valid as long as what was committed stays committed.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: HashMap<Box<str>, i64>,
}

impl Names {
    /// The name's number; an unknown name gets one.
    pub(super) fn number(&mut self, db: &Connection, name: &str) -> Result<i64, Fault> {
        if let Some(&number) = self.known.get(name) {
            return Ok(number);
        }
        let number = match find(db, name)? {
            Some(number) => number,
            None => db.prepare_cached("INSERT INTO names (name) VALUES (?1)")?.insert([name])?,
        };
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(name.into(), number);
        Ok(number)
    }

    /// The number of a session's key. What could not be read back is not written.
    pub(super) fn session(&mut self, db: &Connection, key: &SessionKey) -> Result<i64, Fault> {
        if key.as_str().len() > SessionKey::MAX_BYTES {
            return Err(Fault::Refused(format!("the session key is longer than {} bytes", SessionKey::MAX_BYTES)));
        }
        self.number(db, key.as_str())
    }

    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

pub(super) fn find(db: &Connection, name: &str) -> Result<Option<i64>, Fault> {
    let mut statement = db.prepare_cached("SELECT number FROM names WHERE name = ?1")?;
    Ok(statement.query_row([name], |row| row.get(0)).optional()?)
}
