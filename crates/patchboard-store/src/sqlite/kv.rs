//! Key-value entries in the namespace of a session, of plugins or of the server.

use std::sync::Arc;

use jiff::Timestamp;
use patchboard_core::id::SessionKey;
use patchboard_core::store::{ExpectedVersion, KvEntry, KvNamespace, KvUsage};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::sessions;
use super::sql_error::{SqliteError, row_limit};

const KEYS: &str = "SELECT key FROM kv WHERE namespace = ?1 AND key >= ?2 AND key IS NOT ?3 ORDER BY key LIMIT ?4";
const KEYS_UNTIL: &str =
    "SELECT key FROM kv WHERE namespace = ?1 AND key >= ?2 AND key < ?5 AND key IS NOT ?3 ORDER BY key LIMIT ?4";

/// The number of the next version of any value. Versions only grow, so that none is used twice for a key.
#[derive(Debug, Default)]
pub(super) struct NextVersion(Option<i64>);

impl NextVersion {
    /// The version that the writer chose, or the next one.
    pub(super) fn or_given(&mut self, db: &Connection, given: Option<u64>) -> Result<i64, SqliteError> {
        let next = match self.0 {
            Some(next) => next,
            None => db.query_row("SELECT coalesce(max(version), 0) + 1 FROM kv", [], |row| row.get(0))?,
        };
        let version = given.map_or(next, u64::cast_signed);
        self.0 = Some(next.max(version.saturating_add(1)));
        Ok(version)
    }
}

pub(super) fn check_version(
    db: &Connection,
    namespace: &KvNamespace,
    key: &str,
    expected: ExpectedVersion,
) -> Result<(), SqliteError> {
    if expected == ExpectedVersion::Any {
        return Ok(());
    }
    let mut find = db.prepare_cached("SELECT version FROM kv WHERE namespace = ?1 AND key = ?2")?;
    let stored: Option<i64> = find.query_row([&*namespace_key(namespace), key], |row| row.get(0)).optional()?;
    if expected.matches(stored.map(i64::cast_unsigned)) { Ok(()) } else { Err(SqliteError::Conflict) }
}

pub(super) fn put(
    db: &Connection,
    namespace: &KvNamespace,
    key: &str,
    value: Option<&[u8]>,
    version: i64,
    at: Timestamp,
) -> Result<(), SqliteError> {
    let name = namespace_key(namespace);
    // A purge can only overwrite what is still stored, so replaced values of a session are overwritten at once.
    sessions::with_secure_delete(db, || {
        match value {
            Some(value) => db
                .prepare_cached(
                    "INSERT INTO kv (namespace, key, version, at, value) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (namespace, key)
                     DO UPDATE SET version = excluded.version, at = excluded.at, value = excluded.value",
                )?
                .execute(params![name, key, version, at.as_microsecond(), value])?,
            None => db.prepare_cached("DELETE FROM kv WHERE namespace = ?1 AND key = ?2")?.execute([&*name, key])?,
        };
        Ok(())
    })
}

pub(super) fn get(db: &Connection, namespace: &KvNamespace, key: &str) -> Result<Option<KvEntry>, SqliteError> {
    let mut statement = db.prepare_cached("SELECT version, value FROM kv WHERE namespace = ?1 AND key = ?2")?;
    let entry = |row: &Row<'_>| Ok(KvEntry { version: row.get::<_, i64>(0)?.cast_unsigned(), value: row.get(1)? });
    Ok(statement.query_row([&*namespace_key(namespace), key], entry).optional()?)
}

/// Keys in byte order, read from the index within the requested range, so that the cost does not depend on other keys.
pub(super) fn keys(
    db: &Connection,
    namespace: &KvNamespace,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Arc<str>>, SqliteError> {
    let (name, limit) = (namespace_key(namespace), row_limit(limit));
    let from = after.map_or(prefix, |after| after.max(prefix));
    let key = |row: &Row<'_>| row.get::<_, String>(0).map(Arc::from);
    let keys: rusqlite::Result<Vec<Arc<str>>> = match prefix_end(prefix) {
        Some(end) => {
            let mut statement = db.prepare_cached(KEYS_UNTIL)?;
            statement.query_map(params![name, from, after, limit, end], key)?.collect()
        }
        None => db.prepare_cached(KEYS)?.query_map(params![name, from, after, limit], key)?.collect(),
    };
    Ok(keys?)
}

/// The smallest text greater than every text with `prefix`; `None` if there is none. Rust and SQLite both order texts
/// by code point.
fn prefix_end(prefix: &str) -> Option<String> {
    let mut end: Vec<char> = prefix.chars().collect();
    while let Some(last) = end.pop() {
        // At most the surrogate gap lies between two characters.
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end.into_iter().collect());
        }
    }
    None
}

pub(super) fn usage(db: &Connection, namespace: &KvNamespace) -> Result<KvUsage, SqliteError> {
    let mut statement = db.prepare_cached(
        "SELECT count(*), coalesce(sum(length(CAST(key AS BLOB)) + length(value)), 0) FROM kv WHERE namespace = ?1",
    )?;
    let size =
        statement.query_row([namespace_key(namespace)], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    Ok(KvUsage { keys: size.0.unsigned_abs(), bytes: size.1.unsigned_abs() })
}

pub(super) fn purge(db: &Connection, session: &SessionKey) -> Result<(), SqliteError> {
    let name = namespace_key(&KvNamespace::Session(session.clone()));
    db.prepare_cached("DELETE FROM kv WHERE namespace = ?1")?.execute([name])?;
    Ok(())
}

/// The namespace's stored key: unique and stable.
fn namespace_key(namespace: &KvNamespace) -> String {
    match namespace {
        KvNamespace::Session(key) => format!("session/{key}"),
        KvNamespace::Server => "server".to_owned(),
        KvNamespace::Plugins(store) => format!("plugins/{store}"),
    }
}

#[cfg(test)]
mod tests;
