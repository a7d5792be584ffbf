//! The state of messages, indexed by state and age.

use jiff::Timestamp;
use patchboard_core::app::message::MessageState;
use patchboard_core::event::Topic;
use patchboard_core::id::MessageId;
use patchboard_core::store::{MessageQuery, MessageRow, PageCursor, ResultPage};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::events::{self, TopicCache};
use super::sql_error::{SqliteError, row_limit, timestamp};

/// Rows deleted per `prune` call, so that the writer is not blocked for long.
const PRUNE_MESSAGES: usize = 500;
const PRUNE_EVENTS: usize = 20_000;

const LIST: &str = "SELECT id, state, submitted_at, changed_at FROM messages
    WHERE (submitted_at, id) < (?1, ?2) ORDER BY submitted_at DESC, id DESC LIMIT ?3";
const LIST_OF_STATE: &str = "SELECT id, state, submitted_at, changed_at FROM messages
    WHERE state = ?4 AND (submitted_at, id) < (?1, ?2) ORDER BY submitted_at DESC, id DESC LIMIT ?3";
const OPEN: &str = "SELECT id, state, submitted_at, changed_at FROM messages
    WHERE state IN (0, 1, 2) ORDER BY submitted_at, id";
const FINISHED: &str = "SELECT number FROM messages WHERE state >= 3 AND changed_at < ?1 ORDER BY changed_at LIMIT ?2";

/// Inserts a message, or updates its state. `submitted_at` never changes.
pub(super) fn put(db: &Connection, topics: &mut TopicCache, row: &MessageRow) -> Result<(), SqliteError> {
    let topic = topics.get_or_create(db, &Topic::Message(row.message))?.number;
    db.prepare_cached(
        "INSERT INTO messages (number, id, state, submitted_at, changed_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (number) DO UPDATE SET state = excluded.state, changed_at = excluded.changed_at",
    )?
    .execute(params![
        topic,
        row.message.0.as_bytes().as_slice(),
        state_code(row.state),
        row.submitted_at.as_microsecond(),
        row.changed_at.as_microsecond(),
    ])?;
    Ok(())
}

pub(super) fn list(db: &Connection, query: &MessageQuery) -> Result<ResultPage<MessageRow>, SqliteError> {
    let (before, id_before) = query.cursor.as_ref().map_or(Ok((i64::MAX, Uuid::max())), parse_cursor)?;
    let limit = row_limit(query.limit);
    let (id_before, fetched) = (id_before.as_bytes().as_slice(), limit + 1);
    let mut statement = db.prepare_cached(match query.state {
        None => LIST,
        Some(_) => LIST_OF_STATE,
    })?;
    let mut rows = match query.state {
        None => statement.query(params![before, id_before, fetched])?,
        Some(state) => statement.query(params![before, id_before, fetched, state_code(state)])?,
    };
    let mut items: Vec<MessageRow> = Vec::new();
    while let Some(row) = rows.next()? {
        if i64::try_from(items.len()).unwrap_or(i64::MAX) == limit {
            return Ok(ResultPage { next: items.last().map(to_cursor), items });
        }
        items.push(message_row(row)?);
    }
    Ok(ResultPage { items, next: None })
}

pub(super) fn open(db: &Connection) -> Result<Vec<MessageRow>, SqliteError> {
    let mut statement = db.prepare_cached(OPEN)?;
    let mut rows = statement.query([])?;
    let mut open = Vec::new();
    while let Some(row) = rows.next()? {
        open.push(message_row(row)?);
    }
    Ok(open)
}

/// Deletes final messages last changed before then, with their topics and events.
pub(super) fn prune(db: &Connection, before: Timestamp) -> Result<bool, SqliteError> {
    // One extra row shows whether any are left.
    let limit = i64::try_from(PRUNE_MESSAGES).unwrap_or(0) + 1;
    let mut find = db.prepare_cached(FINISHED)?;
    let found = find.query_map(params![before.as_microsecond(), limit], |row| row.get(0))?;
    let found = found.collect::<Result<Vec<i64>, _>>()?;
    let mut deleted_events = 0;
    for (deleted, topic) in found.into_iter().enumerate() {
        if deleted == PRUNE_MESSAGES || deleted_events >= PRUNE_EVENTS {
            return Ok(true);
        }
        db.prepare_cached("DELETE FROM messages WHERE number = ?1")?.execute([topic])?;
        db.prepare_cached("DELETE FROM topics WHERE number = ?1")?.execute([topic])?;
        deleted_events += events::delete(db, topic)?;
    }
    Ok(false)
}

fn to_cursor(row: &MessageRow) -> PageCursor {
    PageCursor(format!("{}.{}", row.submitted_at.as_microsecond(), row.message.0.simple()))
}

/// The inverse of `to_cursor`.
fn parse_cursor(cursor: &PageCursor) -> Result<(i64, Uuid), SqliteError> {
    let (submitted_at, id) = cursor.0.split_once('.').ok_or(SqliteError::BadCursor)?;
    let submitted_at = submitted_at.parse().map_err(|_| SqliteError::BadCursor)?;
    Ok((submitted_at, Uuid::try_parse(id).map_err(|_| SqliteError::BadCursor)?))
}

fn message_row(row: &Row<'_>) -> Result<MessageRow, SqliteError> {
    let id = row.get_ref(0)?.as_blob().map_err(|error| SqliteError::corrupt("message id", error))?;
    Ok(MessageRow {
        message: Uuid::from_slice(id).map(MessageId).map_err(|error| SqliteError::corrupt("message id", error))?,
        state: state(row.get(1)?)?,
        submitted_at: timestamp(row.get(2)?)?,
        changed_at: timestamp(row.get(3)?)?,
    })
}

/// Final states are 3 and above: the schema and the queries above rely on it.
fn state_code(state: MessageState) -> u8 {
    match state {
        MessageState::Queued => 0,
        MessageState::Sent => 1,
        MessageState::Held => 2,
        MessageState::Delivered => 3,
        MessageState::Refused => 4,
        MessageState::Expired => 5,
        MessageState::Cancelled => 6,
    }
}

fn state(code: u8) -> Result<MessageState, SqliteError> {
    let found = MessageState::ALL.into_iter().find(|state| state_code(*state) == code);
    found.ok_or_else(|| SqliteError::corrupt("message state", format!("unknown code: {code}")))
}

#[cfg(test)]
mod tests;
