//! Reading the audit trail: newest first, by time and by what the rows are about.

use patchboard_core::store::{AuditFilter, AuditQuery, AuditRow, AuditSubject, PageCursor, ResultPage};
use rusqlite::{Connection, Row};

use super::{ACCOUNT, SESSION};
use crate::sqlite::interner;
use crate::sqlite::sql_error::{SqliteError, cursor_parts, row_limit, run_id, session_key, timestamp};

/// Rows that one call looks at; the page then ends and the next call goes on. A search for a rare row thus holds one of
/// the few reading threads for tens of milliseconds and not for the length of the trail.
const MAX_SCANNED: i64 = 20_000;

pub(in crate::sqlite) fn page(db: &Connection, query: &AuditQuery) -> Result<ResultPage<AuditRow>, SqliteError> {
    scan(db, query, MAX_SCANNED)
}

/// `max_scanned` is at least 1.
pub(super) fn scan(db: &Connection, query: &AuditQuery, max_scanned: i64) -> Result<ResultPage<AuditRow>, SqliteError> {
    let [before_at, before_number] = query.cursor.as_ref().map_or(Ok([i64::MAX, i64::MAX]), cursor_parts)?;
    let AuditFilter { since, until, .. } = &query.filter;
    let since = since.map_or(i64::MIN, |since| since.as_microsecond());
    let until = until.map_or(i64::MAX, |until| until.as_microsecond());
    let limit = usize::try_from(row_limit(query.limit)).unwrap_or(0);
    let mut statement = db.prepare_cached(
        "SELECT at, audit.number, principal.name, surface.name, run, action, audit.subject, detail,
            audit.subject_name, subject.name FROM audit
         JOIN names AS principal ON principal.number = audit.principal
         JOIN names AS surface ON surface.number = audit.surface
         LEFT JOIN names AS subject ON subject.number = audit.subject_name
         WHERE at >= ?1 AND at < ?2 AND at <= ?3 AND (at < ?3 OR audit.number < ?4)
         ORDER BY at DESC, audit.number DESC LIMIT ?5",
    )?;
    let mut rows = statement.query([since, until, before_at, before_number, max_scanned.saturating_add(1)])?;
    let mut items = Vec::new();
    let (mut last, mut scanned) = (None, 0);
    while let Some(row) = rows.next()? {
        if items.len() == limit || scanned == max_scanned {
            let next = last.map(|(at, number): (i64, i64)| PageCursor(format!("{at}.{number}")));
            return Ok(ResultPage { items, next });
        }
        scanned += 1;
        last = Some((row.get(0)?, row.get(1)?));
        let row = audit_row(row)?;
        if query.filter.matches(&row) {
            items.push(row);
        }
    }
    Ok(ResultPage { items, next: None })
}

fn audit_row(row: &Row<'_>) -> Result<AuditRow, SqliteError> {
    Ok(AuditRow {
        at: timestamp(row.get(0)?)?,
        principal: row.get(2)?,
        surface: row.get(3)?,
        run: row.get::<_, Option<Vec<u8>>>(4)?.map(|bytes| run_id(&bytes)).transpose()?,
        action: row.get(5)?,
        subject: read_subject(row.get(6)?, row.get::<_, Option<i64>>(8)?.map(|_| row.get(9)).transpose()?)?,
        detail: row.get(7)?,
    })
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

#[cfg(test)]
mod tests;
