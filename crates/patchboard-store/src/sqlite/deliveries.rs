//! Deliveries of channel messages, recorded so that none is answered twice and none is lost.

use jiff::Timestamp;
use patchboard_core::store::{DeliveryQuery, DeliveryRow, EarlierDelivery, PageCursor, ResultPage, TakenDelivery};
use patchboard_core::webhook::{DeliveryId, DeliveryState};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::sessions;
use super::sql_error::{SqliteError, cursor_parts, row_limit, timestamp};

/// Rows deleted per `prune` call, so that the writer is not blocked for long.
const PRUNE_DELIVERIES: usize = 500;

const FIND: &str = "SELECT id, channel, key, state, received_at, changed_at, body FROM deliveries
    WHERE channel = ?1 AND key = ?2";
const OPEN: &str = "SELECT id, channel, key, state, received_at, changed_at, body FROM deliveries
    WHERE state < 2 ORDER BY received_at, id";
const LIST: &str = "SELECT id, channel, key, state, received_at, changed_at, body, number FROM deliveries
    WHERE number < ?1 ORDER BY number DESC LIMIT ?2";
/// Rows that one call of `list` looks at; the page then ends and the next call goes on.
const MAX_SCANNED: i64 = 20_000;
const FINISHED: &str =
    "SELECT number FROM deliveries WHERE state >= 2 AND changed_at < ?1 ORDER BY changed_at LIMIT ?2";

/// Inserts a delivery, or updates its state and body. Its other columns never change.
pub(super) fn put(db: &Connection, row: &DeliveryRow) -> Result<(), SqliteError> {
    // The body repeats text of the session. A purge does not reach old bodies left in free pages, so they are
    // overwritten at once.
    sessions::with_secure_delete(db, || write(db, row))
}

fn write(db: &Connection, row: &DeliveryRow) -> Result<(), SqliteError> {
    db.prepare_cached(
        "INSERT INTO deliveries (id, channel, key, state, received_at, changed_at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (id) DO UPDATE SET state = excluded.state, changed_at = excluded.changed_at, body = excluded.body",
    )?
    .execute(params![
        row.id.0.as_bytes().as_slice(),
        &*row.channel,
        &*row.key,
        state_code(row.state),
        row.received_at.as_microsecond(),
        row.changed_at.as_microsecond(),
        row.body,
    ])?;
    Ok(())
}

pub(super) fn find(db: &Connection, channel: &str, key: &str) -> Result<Option<DeliveryRow>, SqliteError> {
    let mut statement = db.prepare_cached(FIND)?;
    let mut rows = statement.query([channel, key])?;
    rows.next()?.map(delivery_row).transpose()
}

/// Inserts a delivery unless an earlier one is the same.
pub(super) fn take(
    db: &Connection,
    row: &DeliveryRow,
    earlier: &EarlierDelivery,
) -> Result<TakenDelivery, SqliteError> {
    // A delivery under the row's own key is the same, even if the clock was changed since.
    let mut found = find(db, &row.channel, &row.key)?;
    for key in &earlier.keys {
        if found.is_some() {
            break;
        }
        let is_recent = |stored: &DeliveryRow| earlier.not_before.is_none_or(|moment| stored.received_at > moment);
        found = find(db, &row.channel, key)?.filter(is_recent);
    }
    match found {
        Some(stored) => Ok(TakenDelivery::Earlier(stored)),
        None => put(db, row).map(|()| TakenDelivery::Stored),
    }
}

/// Newest first, in the order they were recorded. Bodies are read only of the rows that match.
pub(super) fn list(db: &Connection, query: &DeliveryQuery) -> Result<ResultPage<DeliveryRow>, SqliteError> {
    let [before] = query.cursor.as_ref().map_or(Ok([i64::MAX]), cursor_parts)?;
    let limit = usize::try_from(row_limit(query.limit)).unwrap_or(0);
    let mut statement = db.prepare_cached(LIST)?;
    let mut rows = statement.query([before, MAX_SCANNED + 1])?;
    let mut items = Vec::new();
    let (mut last, mut scanned) = (None, 0);
    while let Some(row) = rows.next()? {
        if items.len() == limit || scanned == MAX_SCANNED {
            return Ok(ResultPage { items, next: last.map(|number: i64| PageCursor(number.to_string())) });
        }
        scanned += 1;
        last = Some(row.get(7)?);
        let channel = row.get_ref(1)?.as_str().map_err(|error| SqliteError::corrupt("channel", error))?;
        let code: u8 = row.get(3)?;
        let is_channel = query.channel.as_ref().is_none_or(|wanted| **wanted == *channel);
        if is_channel && query.state.is_none_or(|state| code == state_code(state)) {
            items.push(delivery_row(row)?);
        }
    }
    Ok(ResultPage { items, next: None })
}

/// Open deliveries, oldest first.
pub(super) fn open(db: &Connection) -> Result<Vec<DeliveryRow>, SqliteError> {
    let mut statement = db.prepare_cached(OPEN)?;
    let mut rows = statement.query([])?;
    let mut open = Vec::new();
    while let Some(row) = rows.next()? {
        open.push(delivery_row(row)?);
    }
    Ok(open)
}

/// Deletes final deliveries last changed before then; returns `true` if more are left.
pub(super) fn prune(db: &Connection, before: Timestamp) -> Result<bool, SqliteError> {
    // One extra row shows whether any are left.
    let limit = i64::try_from(PRUNE_DELIVERIES).unwrap_or(0) + 1;
    let mut find = db.prepare_cached(FINISHED)?;
    let found = find.query_map(params![before.as_microsecond(), limit], |row| row.get(0))?;
    let found = found.collect::<Result<Vec<i64>, _>>()?;
    for number in found.iter().take(PRUNE_DELIVERIES) {
        db.prepare_cached("DELETE FROM deliveries WHERE number = ?1")?.execute([number])?;
    }
    Ok(found.len() > PRUNE_DELIVERIES)
}

fn delivery_row(row: &Row<'_>) -> Result<DeliveryRow, SqliteError> {
    let id = row.get_ref(0)?.as_blob().map_err(|error| SqliteError::corrupt("delivery id", error))?;
    Ok(DeliveryRow {
        id: Uuid::from_slice(id).map(DeliveryId).map_err(|error| SqliteError::corrupt("delivery id", error))?,
        channel: row.get::<_, String>(1)?.into(),
        key: row.get::<_, String>(2)?.into(),
        state: state(row.get(3)?)?,
        received_at: timestamp(row.get(4)?)?,
        changed_at: timestamp(row.get(5)?)?,
        body: row.get(6)?,
    })
}

/// Final states are 2 and above: the schema and the queries above rely on it.
fn state_code(state: DeliveryState) -> u8 {
    match state {
        DeliveryState::Received => 0,
        DeliveryState::Answered => 1,
        DeliveryState::Sent => 2,
        DeliveryState::Failed => 3,
    }
}

fn state(code: u8) -> Result<DeliveryState, SqliteError> {
    let found = DeliveryState::ALL.into_iter().find(|state| state_code(*state) == code);
    found.ok_or_else(|| SqliteError::corrupt("delivery state", format!("unknown code: {code}")))
}

#[cfg(test)]
mod tests;
