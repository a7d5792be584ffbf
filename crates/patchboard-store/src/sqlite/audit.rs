//! The audit trail, which is append-only.

use patchboard_core::store::{AuditRow, AuditSubject, FORGOTTEN};
use rusqlite::{Connection, params};

use super::interner::{self, NameInterner};
use super::sql_error::SqliteError;

pub(super) mod read;

/// Kinds of subjects that are stored as the number of their name.
const SESSION: &str = "session";
const ACCOUNT: &str = "account";

pub(super) fn add(db: &Connection, names: &mut NameInterner, row: &AuditRow) -> Result<(), SqliteError> {
    // What names a user is stored as the number of its name: forgetting it leaves the row as it is.
    let (subject, name) = match &row.subject {
        AuditSubject::Text(text) => (&**text, None),
        AuditSubject::Session(key) => (SESSION, Some(names.intern_session(db, key)?)),
        AuditSubject::Account(owner) => (ACCOUNT, Some(names.intern(db, &interner::owner_name(owner))?)),
        AuditSubject::Forgotten => (FORGOTTEN, None),
    };
    db.prepare_cached(
        "INSERT INTO audit (at, principal, surface, run, action, subject, subject_name, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        row.at.as_microsecond(),
        names.intern(db, &row.principal)?,
        names.intern(db, &row.surface)?,
        row.run.as_ref().map(|run| run.0.as_bytes().as_slice()),
        row.action,
        subject,
        name,
        row.detail,
    ])?;
    Ok(())
}
