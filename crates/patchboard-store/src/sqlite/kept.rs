//! Small things kept under a key, in the space of a session or of the server.

use jiff::Timestamp;
use patchboard_core::id::SessionKey;
use patchboard_core::port::Space;
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::sessions;

pub(super) fn keep(
    db: &Connection,
    space: &Space,
    key: &str,
    value: Option<&[u8]>,
    at: Timestamp,
) -> Result<(), Fault> {
    let name = name(space);
    // A purge can only overwrite what it still finds, so what is replaced in a session is overwritten at once.
    sessions::overwriting(db, || {
        match value {
            Some(value) => db
                .prepare_cached(
                    "INSERT INTO kept (space, key, at, value) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (space, key) DO UPDATE SET at = excluded.at, value = excluded.value",
                )?
                .execute(params![name, key, at.as_microsecond(), value])?,
            None => db.prepare_cached("DELETE FROM kept WHERE space = ?1 AND key = ?2")?.execute([&*name, key])?,
        };
        Ok(())
    })
}

pub(super) fn read(db: &Connection, space: &Space, key: &str) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = db.prepare_cached("SELECT value FROM kept WHERE space = ?1 AND key = ?2")?;
    Ok(statement.query_row([&*name(space), key], |row| row.get(0)).optional()?)
}

pub(super) fn purge(db: &Connection, session: &SessionKey) -> Result<(), Fault> {
    let name = name(&Space::Session(session.clone()));
    db.prepare_cached("DELETE FROM kept WHERE space = ?1")?.execute([name])?;
    Ok(())
}

/// The space's name in storage: unique and stable.
fn name(space: &Space) -> String {
    match space {
        Space::Session(key) => format!("session/{key}"),
        Space::Server => "server".to_owned(),
    }
}
