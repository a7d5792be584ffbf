//! The audit trail, which is append-only.

use patchboard_core::store::AuditRow;
use rusqlite::{Connection, params};

use super::interner::NameInterner;
use super::sql_error::SqliteError;

pub(super) mod read;

pub(super) fn add(db: &Connection, names: &mut NameInterner, row: &AuditRow) -> Result<(), SqliteError> {
    db.prepare_cached(
        "INSERT INTO audit (at, principal, surface, run, action, subject, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        row.at.as_microsecond(),
        names.intern(db, &row.principal)?,
        names.intern(db, &row.surface)?,
        row.run.as_ref().map(|run| run.0.as_bytes().as_slice()),
        row.action,
        row.subject,
        row.detail,
    ])?;
    Ok(())
}
