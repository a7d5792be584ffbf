//! Examines a database from outside, for `doctor`, also while a server uses it.

use std::fs;
use std::path::{Path, PathBuf};

use super::schema;
use crate::OpenError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseReport {
    /// The database with its write-ahead log.
    pub size_bytes: u64,
    /// Identifies the format of the database, which is this program's.
    pub fingerprint: u32,
    /// Problems found by SQLite's own check; empty if there are none.
    pub problems: Vec<String>,
}

/// Reads the whole file once. Refuses files that are not a Patchboard database or have another format.
pub fn inspect(path: &Path) -> Result<DatabaseReport, OpenError> {
    let path = schema::absolute(path)?;
    let open_error = |source| OpenError::Open { path: path.clone(), source };
    let db = schema::open_for_reading(&path).map_err(open_error)?;
    schema::check_format(&db, &path)?;
    // At most ten problems: a corrupt database has many of the same kind.
    let mut statement = db.prepare("PRAGMA quick_check(10)").map_err(open_error)?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0)).map_err(open_error)?;
    let mut problems = lines.collect::<Result<Vec<_>, _>>().map_err(open_error)?;
    problems.retain(|line| line != "ok");
    let size_bytes = file_size(&path) + file_size(&wal_path(&path));
    Ok(DatabaseReport { size_bytes, fingerprint: schema::FINGERPRINT, problems })
}

fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

fn file_size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}
