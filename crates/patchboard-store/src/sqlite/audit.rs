//! The audit trail, which is append-only.

use patchboard_core::store::{AuditRow, PageCursor, ResultPage};
use rusqlite::{Connection, params};

use super::interner::NameInterner;
use super::sql_error::{SqliteError, cursor_parts, row_limit, run_id, timestamp};

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

pub(super) fn read(
    db: &Connection,
    limit: usize,
    cursor: Option<&PageCursor>,
) -> Result<ResultPage<AuditRow>, SqliteError> {
    let [before] = cursor.map_or(Ok([i64::MAX]), cursor_parts)?;
    let limit = row_limit(limit);
    let mut statement = db.prepare_cached(
        "SELECT audit.number, at, principal.name, surface.name, run, action, subject, detail FROM audit
         JOIN names AS principal ON principal.number = audit.principal
         JOIN names AS surface ON surface.number = audit.surface
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
            subject: row.get(6)?,
            detail: row.get(7)?,
        });
    }
    Ok(ResultPage { items, next: None })
}
