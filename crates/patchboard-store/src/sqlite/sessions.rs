//! Sessions and their turns.

use std::sync::Arc;

use jiff::Timestamp;
use patchboard_core::conversation::title_of;
use patchboard_core::id::SessionKey;
use patchboard_core::record;
use patchboard_core::store::{
    HiddenSessions, NewTurn, PageCursor, ResultPage, RunRow, SessionFilter, SessionRow, TurnQuery, TurnRow,
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::events::TopicCache;
use super::interner::{self, NameInterner};
use super::sql_error::{SqliteError, cursor_parts, from_stored_count, row_limit, run_id, session_key, timestamp};
use super::{kv, runs, turn_index};

/// Bits for turn positions: a session holds up to 2^30 turns.
pub(super) const TURN_BITS: u32 = 30;
pub(super) const MAX_TURN: i64 = (1 << TURN_BITS) - 1;

const COLUMNS: &str = "SELECT names.name, created_at, used_at, sessions.number,
        ifnull((SELECT max(position) FROM turns
            WHERE position BETWEEN sessions.number << 30 AND (sessions.number << 30) + 1073741823)
            - (sessions.number << 30), 0) - hidden_turns,
        owner.name, title, hidden
    FROM sessions JOIN names ON names.number = sessions.number
    LEFT JOIN names AS owner ON owner.number = sessions.owner";

/// Called when a run is accepted: creates the session if necessary, updates its last use and ends its cleared state.
pub(super) fn mark_used(db: &Connection, number: i64, run: &RunRow, owner: i64) -> Result<(), SqliteError> {
    let at = run.started_at;
    let title = title_of(&run.input);
    // A cleared conversation begins anew, with a title of its own. The run will add a turn that is not indexed.
    let updated = db
        .prepare_cached(
            "UPDATE sessions SET used_at = ?2, cleared = 0, unindexed = 1,
                title = CASE WHEN cleared = 1 OR title IS NULL THEN ?3 ELSE title END
             WHERE number = ?1",
        )?
        .execute(params![number, at.as_microsecond(), title])?;
    if updated == 0 { create(db, number, &run.session, Some(owner), at, title) } else { Ok(()) }
}

fn create(
    db: &Connection,
    number: i64,
    key: &SessionKey,
    owner: Option<i64>,
    at: Timestamp,
    title: Option<Arc<str>>,
) -> Result<(), SqliteError> {
    let parts = key.conversation_parts();
    let (channel, account) = parts.map(|parts| (parts.channel, parts.account)).unzip();
    db.prepare_cached(
        "INSERT INTO sessions (number, created_at, used_at, channel, account, owner, title, unindexed)
         VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, 1)",
    )?
    .execute(params![number, at.as_microsecond(), channel, account, owner, title])?;
    Ok(())
}

/// Adds a turn, unless the run's session was purged since the run started.
pub(super) fn add_turn(
    db: &Connection,
    names: &mut NameInterner,
    topics: &TopicCache,
    turn: &NewTurn,
    payload: &[u8],
) -> Result<(), SqliteError> {
    let run = topics.find_run(db, turn.run)?;
    // The session was purged during the run; storing the turn would restore it.
    if run.as_ref().is_some_and(|run| run.purge_on_close) {
        return Ok(());
    }
    let session = names.intern_session(db, &turn.session)?;
    let (start, end) = turn_range(session);
    let last = last_position(db, session)?;
    match last {
        // Usually the session was created with its first run.
        None if !exists(db, session)? => {
            let owner = run.map(|run| runs::principal(db, run.number)).transpose()?.flatten();
            create(db, session, &turn.session, owner, turn.at, None)?;
        }
        Some(last) if last == end => {
            return Err(SqliteError::Rejected("the session has no room for another turn".to_owned()));
        }
        None | Some(_) => {}
    }
    db.prepare_cached("INSERT INTO turns (position, run, at, version, payload) VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(
        params![
            last.unwrap_or(start) + 1,
            turn.run.0.as_bytes().as_slice(),
            turn.at.as_microsecond(),
            record::RECORD_VERSION,
            payload,
        ],
    )?;
    // If the session was cleared while the turn was in progress, it is visible again.
    db.prepare_cached(
        "UPDATE sessions SET cleared = 0, unindexed = 1 WHERE number = ?1 AND (cleared = 1 OR unindexed = 0)",
    )?
    .execute([session])?;
    Ok(())
}

/// Hides the turns so far.
pub(super) fn clear(db: &Connection, session: &SessionKey) -> Result<(), SqliteError> {
    let Some(number) = interner::find(db, session.as_str())? else { return Ok(()) };
    let hidden_turns = last_position(db, number)?.map_or(0, |position| position & MAX_TURN);
    db.prepare_cached("UPDATE sessions SET cleared = 1, hidden_turns = ?2 WHERE number = ?1")?
        .execute([number, hidden_turns])?;
    Ok(())
}

/// Deletes the session with its turns.
pub(super) fn purge(db: &Connection, session: &SessionKey) -> Result<(), SqliteError> {
    with_secure_delete(db, || {
        kv::purge(db, session)?;
        let Some(number) = interner::find(db, session.as_str())? else { return Ok(()) };
        turn_index::delete_some_turns(db, number, usize::MAX)?;
        db.prepare_cached("DELETE FROM sessions WHERE number = ?1")?.execute([number])?;
        runs::purge(db, number)
    })
}

/// Overwrites what `work` deletes with zeros. Not used for ordinary deletes, because it writes more pages.
pub(super) fn with_secure_delete<T>(
    db: &Connection,
    work: impl FnOnce() -> Result<T, SqliteError>,
) -> Result<T, SqliteError> {
    db.pragma_update(None, "secure_delete", true)?;
    let result = work();
    db.pragma_update(None, "secure_delete", false)?;
    result
}

pub(super) fn by_key(db: &Connection, key: &SessionKey) -> Result<Option<SessionRow>, SqliteError> {
    let mut statement = db.prepare_cached(&format!("{COLUMNS} WHERE names.name = ?1"))?;
    let mut rows = statement.query([key.as_str()])?;
    rows.next()?.map(session_row).transpose()
}

pub(super) fn count_visible(db: &Connection, excluded_channels: &[&str]) -> Result<u64, SqliteError> {
    let by_channel =
        "SELECT channel, count(*) FROM sessions WHERE cleared = 0 AND channel IS NOT NULL GROUP BY channel";
    let mut statement = db.prepare_cached(by_channel)?;
    let mut rows = statement.query([])?;
    let mut visible = 0;
    while let Some(row) = rows.next()? {
        let channel: String = row.get(0)?;
        if !excluded_channels.contains(&channel.as_str()) {
            visible += from_stored_count(row.get(1)?);
        }
    }
    Ok(visible)
}

pub(super) fn list(
    db: &Connection,
    filter: &SessionFilter,
    limit: usize,
    cursor: Option<&PageCursor>,
) -> Result<ResultPage<SessionRow>, SqliteError> {
    let [used_before, number_before] = cursor.map_or(Ok([i64::MAX, i64::MAX]), cursor_parts)?;
    let limit = row_limit(limit);
    let fetched = limit + 1;
    // An account has few sessions, so they are looked up and sorted. A channel may have most of all sessions, so they
    // are read in the requested order (the unary plus keeps the condition from using the other index).
    let condition = match (&filter.channel, &filter.account) {
        (None, None) => "?4 IS NULL AND ?5 IS NULL",
        (Some(_), None) => "+channel = ?4 AND ?5 IS NULL",
        (None, Some(_)) => "?4 IS NULL AND account = ?5",
        (Some(_), Some(_)) => "channel = ?4 AND account = ?5",
    };
    let owners = filter.owners.as_deref().map(|owners| owner_ids_sql(db, owners)).transpose()?;
    let owned = owners.as_ref().map_or_else(String::new, |numbers| format!("AND sessions.owner IN ({numbers})"));
    let hidden = match filter.hidden {
        HiddenSessions::LeftOut => "AND hidden = 0",
        HiddenSessions::Included => "",
        HiddenSessions::Only => "AND hidden = 1",
    };
    let mut statement = db.prepare_cached(&format!(
        "{COLUMNS} WHERE cleared = 0 AND (used_at, sessions.number) < (?1, ?2) AND {condition} {owned} {hidden}
         ORDER BY used_at DESC, sessions.number DESC LIMIT ?3"
    ))?;
    let parameters: [&dyn ToSql; 5] = [&used_before, &number_before, &fetched, &filter.channel, &filter.account];
    let mut rows = statement.query(parameters.as_slice())?;
    let mut items = Vec::new();
    let mut last = None;
    while let Some(row) = rows.next()? {
        if i64::try_from(items.len()).unwrap_or(i64::MAX) == limit {
            return Ok(ResultPage {
                items,
                next: last.map(|(used_at, number)| PageCursor(format!("{used_at}.{number}"))),
            });
        }
        last = Some((row.get::<_, i64>(2)?, row.get::<_, i64>(3)?));
        items.push(session_row(row)?);
    }
    Ok(ResultPage { items, next: None })
}

/// Principals as an SQL list. Unknown principals own nothing and are omitted.
pub(super) fn owner_ids_sql(db: &Connection, owners: &[Arc<str>]) -> Result<String, SqliteError> {
    let numbers = owners.iter().map(|owner| interner::find(db, owner)).collect::<Result<Vec<_>, _>>()?;
    Ok(numbers.into_iter().flatten().map(|number| number.to_string()).collect::<Vec<_>>().join(", "))
}

pub(super) fn turns(db: &Connection, query: &TurnQuery) -> Result<ResultPage<TurnRow>, SqliteError> {
    let [before] = query.before.as_ref().map_or(Ok([MAX_TURN + 1]), cursor_parts)?;
    let limit = row_limit(query.limit);
    let empty = ResultPage { items: Vec::new(), next: None };
    let mut visible = db.prepare_cached(
        "SELECT number, hidden_turns FROM sessions WHERE number = (SELECT number FROM names WHERE name = ?1)",
    )?;
    let session = visible.query_row([query.session.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((number, hidden_turns)): Option<(i64, i64)> = session else { return Ok(empty) };
    let (start, _) = turn_range(number);
    let mut statement = db.prepare_cached(
        "SELECT position, run, at, version, payload FROM turns
         WHERE position > ?1 AND position < ?2 ORDER BY position DESC LIMIT ?3",
    )?;
    let before = start + before.clamp(0, MAX_TURN + 1);
    let mut rows = statement.query([start + hidden_turns, before, limit + 1])?;
    let mut page = empty;
    while let Some(row) = rows.next()? {
        if i64::try_from(page.items.len()).unwrap_or(i64::MAX) == limit {
            page.next = page.items.last().map(|oldest: &TurnRow| PageCursor(oldest.number.to_string()));
            break;
        }
        page.items.push(turn_row(row)?);
    }
    page.items.reverse();
    Ok(page)
}

/// All sessions of an account after a number, also cleared and hidden ones.
pub(super) fn list_of_account(
    db: &Connection,
    channel: &str,
    account: &str,
    after: i64,
    limit: usize,
) -> Result<ResultPage<SessionRow>, SqliteError> {
    let limit = row_limit(limit);
    let mut statement = db.prepare_cached(&format!(
        "{COLUMNS} WHERE account = ?2 AND channel = ?1 AND sessions.number > ?3 ORDER BY sessions.number LIMIT ?4"
    ))?;
    let mut rows = statement.query(params![channel, account, after, limit + 1])?;
    let mut page = ResultPage { items: Vec::new(), next: None };
    let mut last = after;
    while let Some(row) = rows.next()? {
        if i64::try_from(page.items.len()).unwrap_or(i64::MAX) == limit {
            page.next = Some(PageCursor(last.to_string()));
            break;
        }
        page.items.push(session_row(row)?);
        last = row.get(3)?;
    }
    Ok(page)
}

/// Stored turns of a session after a position, also hidden ones, oldest first, each with its position.
pub(super) fn stored_turns(
    db: &Connection,
    session: i64,
    after: i64,
    limit: i64,
) -> Result<Vec<(i64, TurnRow)>, SqliteError> {
    let (start, end) = turn_range(session);
    let mut statement = db.prepare_cached(
        "SELECT position, run, at, version, payload FROM turns
         WHERE position > ?1 AND position <= ?2 ORDER BY position LIMIT ?3",
    )?;
    let mut rows = statement.query([after.max(start), end, limit])?;
    let mut turns = Vec::new();
    while let Some(row) = rows.next()? {
        turns.push((row.get(0)?, turn_row(row)?));
    }
    Ok(turns)
}

/// The principal that created a session, if known, and how many turns of it are stored.
type CreatorAndTurns = (Option<Arc<str>>, u64);

/// `None` if there is no such session.
pub(super) fn creator_and_turns(db: &Connection, session: i64) -> Result<Option<CreatorAndTurns>, SqliteError> {
    let mut find = db.prepare_cached(
        "SELECT owner.name FROM sessions LEFT JOIN names AS owner ON owner.number = sessions.owner
         WHERE sessions.number = ?1",
    )?;
    let creator: Option<Option<Arc<str>>> = find.query_row([session], |row| row.get(0)).optional()?;
    let turns = last_position(db, session)?.map_or(0, |position| from_stored_count(position & MAX_TURN));
    Ok(creator.map(|creator| (creator, turns)))
}

pub(super) fn has_unfinished_run(db: &Connection, session: i64) -> Result<bool, SqliteError> {
    let mut find = db.prepare_cached("SELECT 1 FROM runs WHERE ended_at IS NULL AND session = ?1")?;
    Ok(find.exists([session])?)
}

pub(super) fn exists(db: &Connection, session: i64) -> Result<bool, SqliteError> {
    Ok(db.prepare_cached("SELECT 1 FROM sessions WHERE number = ?1")?.exists([session])?)
}

fn last_position(db: &Connection, session: i64) -> Result<Option<i64>, SqliteError> {
    let (start, end) = turn_range(session);
    let mut statement = db
        .prepare_cached("SELECT position FROM turns WHERE position BETWEEN ?1 AND ?2 ORDER BY position DESC LIMIT 1")?;
    Ok(statement.query_row([start, end], |row| row.get(0)).optional()?)
}

/// The range of the session's turn positions; position 0 is not used.
fn turn_range(session: i64) -> (i64, i64) {
    let start = session << TURN_BITS;
    (start, start + MAX_TURN)
}

fn session_row(row: &Row<'_>) -> Result<SessionRow, SqliteError> {
    Ok(SessionRow {
        key: session_key(&row.get::<_, String>(0)?)?,
        created_at: timestamp(row.get(1)?)?,
        used_at: timestamp(row.get(2)?)?,
        turns: from_stored_count(row.get(4)?),
        owner: row.get::<_, Option<String>>(5)?.map(Into::into),
        title: row.get(6)?,
        is_hidden: row.get(7)?,
    })
}

fn turn_row(row: &Row<'_>) -> Result<TurnRow, SqliteError> {
    let corrupt = |error| SqliteError::corrupt("turn", error);
    let payload = row.get_ref(4)?.as_blob().map_err(|error| SqliteError::corrupt("turn", error))?;
    Ok(TurnRow {
        number: from_stored_count(row.get::<_, i64>(0)? & MAX_TURN),
        run: run_id(row.get_ref(1)?.as_blob().map_err(|error| SqliteError::corrupt("run id", error))?)?,
        at: timestamp(row.get(2)?)?,
        messages: record::decode_messages(row.get(3)?, payload).map_err(corrupt)?,
    })
}
