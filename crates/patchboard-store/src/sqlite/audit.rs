//! The audit trail, which is append-only.

use patchboard_core::store::{AuditRow, AuditSubject, FORGOTTEN, PageCursor, ResultPage};
use rusqlite::{Connection, params};

use super::interner::{self, NameInterner};
use super::sql_error::{SqliteError, cursor_parts, row_limit, run_id, session_key, timestamp};

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

fn read_subject(text: String, name: Option<Option<String>>) -> Result<AuditSubject, SqliteError> {
    let unreadable = || SqliteError::corrupt("audit subject", format!("unknown kind: {text}"));
    Ok(match (text.as_str(), name) {
        (_, None) => AuditSubject::Text(text.into()),
        (_, Some(None)) => AuditSubject::Forgotten,
        (SESSION, Some(Some(name))) => AuditSubject::Session(session_key(&name)?),
        (ACCOUNT, Some(Some(name))) => AuditSubject::Account(interner::owner_of_name(&name).ok_or_else(unreadable)?),
        (_, Some(Some(_))) => return Err(unreadable()),
    })
}

pub(super) fn read(
    db: &Connection,
    limit: usize,
    cursor: Option<&PageCursor>,
) -> Result<ResultPage<AuditRow>, SqliteError> {
    let [before] = cursor.map_or(Ok([i64::MAX]), cursor_parts)?;
    let limit = row_limit(limit);
    let mut statement = db.prepare_cached(
        "SELECT audit.number, at, principal.name, surface.name, run, action, audit.subject, detail,
            audit.subject_name, subject.name FROM audit
         JOIN names AS principal ON principal.number = audit.principal
         JOIN names AS surface ON surface.number = audit.surface
         LEFT JOIN names AS subject ON subject.number = audit.subject_name
         WHERE audit.number < ?1 ORDER BY audit.number DESC LIMIT ?2",
    )?;
    let mut rows = statement.query([before, limit + 1])?;
    let mut items = Vec::new();
    let mut last = None;
    while let Some(row) = rows.next()? {
        if i64::try_from(items.len()).unwrap_or(i64::MAX) == limit {
            return Ok(ResultPage { items, next: last.map(|number: i64| PageCursor(number.to_string())) });
        }
        last = Some(row.get(0)?);
        items.push(AuditRow {
            at: timestamp(row.get(1)?)?,
            principal: row.get(2)?,
            surface: row.get(3)?,
            run: row.get::<_, Option<Vec<u8>>>(4)?.map(|bytes| run_id(&bytes)).transpose()?,
            action: row.get(5)?,
            subject: read_subject(row.get(6)?, row.get::<_, Option<i64>>(8)?.map(|_| row.get(9)).transpose()?)?,
            detail: row.get(7)?,
        });
    }
    Ok(ResultPage { items, next: None })
}
