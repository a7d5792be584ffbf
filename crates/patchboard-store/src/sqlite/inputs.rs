//! What runs wait for, and the answers that their runs have not taken note of yet.

use patchboard_core::event::InputAnswer;
use patchboard_core::id::{InputId, RunId};
use patchboard_core::record;
use patchboard_core::store::InputRow;
use rusqlite::{Connection, Row, params};

use super::events::TopicCache;
use super::interner::NameInterner;
use super::sql_error::{SqliteError, row_limit, run_id, session_key, timestamp};

const COLUMNS: &str = "SELECT topics.id, session.name, principal.name, inputs.asked_at, inputs.request, inputs.answer,
        inputs.answered_by
    FROM inputs
    JOIN topics ON topics.number = inputs.run
    JOIN names AS session ON session.number = inputs.session
    JOIN names AS principal ON principal.number = inputs.principal";

pub(super) fn open(
    db: &Connection,
    names: &mut NameInterner,
    topics: &mut TopicCache,
    row: &InputRow,
) -> Result<(), SqliteError> {
    db.prepare_cached(
        "INSERT INTO inputs (id, run, session, principal, asked_at, expires_at, request)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        row.request.input.0.as_bytes().as_slice(),
        topics.get_or_create_run(db, row.run)?.number,
        names.intern_session(db, &row.session)?,
        names.intern(db, &row.principal)?,
        row.asked_at.as_microsecond(),
        row.request.expires_at.as_microsecond(),
        record::encode_input_request(&row.request),
    ])?;
    Ok(())
}

/// The first answer wins; only the run itself notes that the time is over.
pub(super) fn answer(
    db: &Connection,
    input: InputId,
    answer: &InputAnswer,
    by: &str,
    at: jiff::Timestamp,
) -> Result<(), SqliteError> {
    let latest = if *answer == InputAnswer::Expired { i64::MIN } else { at.as_microsecond() };
    let answered = db
        .prepare_cached(
            "UPDATE inputs SET answer = ?2, answered_by = ?3 WHERE id = ?1 AND answer IS NULL AND expires_at > ?4",
        )?
        .execute(params![input.0.as_bytes().as_slice(), record::encode_input_answer(answer), by, latest])?;
    if answered == 0 { Err(SqliteError::Conflict) } else { Ok(()) }
}

pub(super) fn close(db: &Connection, input: InputId) -> Result<(), SqliteError> {
    db.prepare_cached("DELETE FROM inputs WHERE id = ?1")?.execute([input.0.as_bytes().as_slice()])?;
    Ok(())
}

pub(super) fn close_of_run(db: &Connection, run: i64) -> Result<(), SqliteError> {
    db.prepare_cached("DELETE FROM inputs WHERE run = ?1")?.execute([run])?;
    Ok(())
}

pub(super) fn list(db: &Connection, run: Option<RunId>, limit: usize) -> Result<Vec<InputRow>, SqliteError> {
    let limit = row_limit(limit);
    let mut rows = Vec::new();
    match run {
        Some(run) => {
            let sql = format!("{COLUMNS} WHERE topics.id = ?1 ORDER BY inputs.asked_at, inputs.id LIMIT ?2");
            let mut statement = db.prepare_cached(&sql)?;
            let mut found = statement.query(params![run.0.as_bytes().as_slice(), limit])?;
            while let Some(row) = found.next()? {
                rows.push(input_row(row)?);
            }
        }
        None => {
            let mut statement =
                db.prepare_cached(&format!("{COLUMNS} ORDER BY inputs.asked_at, inputs.id LIMIT ?1"))?;
            let mut found = statement.query([limit])?;
            while let Some(row) = found.next()? {
                rows.push(input_row(row)?);
            }
        }
    }
    Ok(rows)
}

pub(super) fn by_id(db: &Connection, input: InputId) -> Result<Option<InputRow>, SqliteError> {
    let mut statement = db.prepare_cached(&format!("{COLUMNS} WHERE inputs.id = ?1"))?;
    let mut rows = statement.query([input.0.as_bytes().as_slice()])?;
    rows.next()?.map(input_row).transpose()
}

fn input_row(row: &Row<'_>) -> Result<InputRow, SqliteError> {
    let corrupt = |error: record::RecordError| SqliteError::corrupt("what a run waits for", error);
    let id = row.get_ref(0)?.as_blob().map_err(|error| SqliteError::corrupt("run id", error))?;
    let answer: Option<Vec<u8>> = row.get(5)?;
    let answer = answer.map(|bytes| record::decode_input_answer(&bytes).map_err(corrupt)).transpose()?;
    let by: Option<String> = row.get(6)?;
    Ok(InputRow {
        run: run_id(id)?,
        session: session_key(&row.get::<_, String>(1)?)?,
        principal: row.get::<_, String>(2)?.into(),
        asked_at: timestamp(row.get(3)?)?,
        request: record::decode_input_request(&row.get::<_, Vec<u8>>(4)?).map_err(corrupt)?,
        answer: answer.zip(by.map(Into::into)),
    })
}
