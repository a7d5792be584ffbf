//! Opens connections and creates the schema. The only place that opens a database.

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use patchboard_core::record::RECORD_VERSION;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::OpenError;

/// Until the first release it is edited in place: a database is created with it or refused, never migrated.
const SCHEMA: &str = include_str!("schema.sql");
/// Marks the file as Patchboard's ("PBrd").
const APPLICATION_ID: i32 = 0x5042_7264;

/// The writer itself checkpoints the log at about 16 MiB: rarely enough that frequently rewritten pages are copied
/// once, often enough that a start after a crash is quick.
const WRITER_PRAGMAS: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 33554432;
    PRAGMA cache_size = -4096;
    PRAGMA temp_store = MEMORY;
    PRAGMA trusted_schema = OFF;
";
const READER_PRAGMAS: &str = "
    PRAGMA query_only = ON;
    PRAGMA cache_size = -1024;
    PRAGMA temp_store = MEMORY;
    PRAGMA trusted_schema = OFF;
";
/// Only another program (a backup, a shell) can hold a lock; commits wait this long for it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const CACHED_STATEMENTS: usize = 64;

/// Identifies the schema and the version of its records; stored as the database's `user_version`.
pub(super) const FINGERPRINT: u32 = fingerprint(SCHEMA, RECORD_VERSION);

/// FNV-1a, cut to the positive numbers that `user_version` can hold; 0 is an empty file.
const fn fingerprint(schema: &str, record_version: u16) -> u32 {
    let mut hash: u32 = 0x811c_9dc5 ^ record_version as u32;
    let mut bytes = schema.as_bytes();
    while let Some((first, rest)) = bytes.split_first() {
        hash = (hash ^ *first as u32).wrapping_mul(0x0100_0193);
        bytes = rest;
    }
    (hash & 0x7fff_ffff) | 1
}

/// A relative path could begin with `file:`, which SQLite parses as a URI with options.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, OpenError> {
    std::path::absolute(path).map_err(|source| OpenError::Create { path: path.into(), source })
}

pub(super) fn open_for_writing(path: &Path) -> Result<Connection, OpenError> {
    create_private(path).map_err(|source| OpenError::Create { path: path.into(), source })?;
    let open_error = |source| OpenError::Open { path: path.into(), source };
    let mut db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(open_error)?;
    let is_empty = check_format(&db, path)?;
    db.execute_batch(WRITER_PRAGMAS).map_err(open_error)?;
    if is_empty {
        create(&mut db).map_err(|source| OpenError::CreateSchema { path: path.into(), source })?;
    }
    Ok(db)
}

pub(super) fn open_for_reading(path: &Path) -> rusqlite::Result<Connection> {
    // Opened for writing, because a read-only connection cannot recover the log of a crashed process.
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.execute_batch(READER_PRAGMAS)?;
    Ok(db)
}

fn connect(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    // Each connection is used by one thread at a time, so SQLite's mutexes are not needed.
    let db = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(LOCK_TIMEOUT)?;
    db.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // Without this, statements are planned again when a bound value changes, which is on every execution.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(db)
}

/// The other files (log, shared memory) inherit the database's mode.
fn create_private(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// Refuses what this program cannot use; returns whether the database is still empty.
pub(super) fn check_format(db: &Connection, path: &Path) -> Result<bool, OpenError> {
    let read = || -> rusqlite::Result<(i32, u32, bool)> {
        let id = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let found = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let empty = db.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))?;
        Ok((id, found, empty))
    };
    let (id, found, empty) = read().map_err(|source| OpenError::Open { path: path.into(), source })?;
    if empty && id == 0 {
        return Ok(true);
    }
    if id != APPLICATION_ID {
        return Err(OpenError::NotPatchboard { path: path.into() });
    }
    if found != FINGERPRINT {
        return Err(OpenError::OtherFormat { path: path.into(), found, known: FINGERPRINT });
    }
    Ok(false)
}

fn create(db: &mut Connection) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FINGERPRINT)?;
    transaction.commit()
}
