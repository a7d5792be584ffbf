//! Titles, hidden sessions and forks.

use patchboard_core::id::SessionKey;
use patchboard_core::store::{MAX_FORKED_TURNS, NewFork};
use rusqlite::{Connection, params};

use super::interner::{self, NameInterner};
use super::sessions::TURN_BITS;
use super::sql_error::SqliteError;

pub(super) fn rename(db: &Connection, session: &SessionKey, title: &str) -> Result<(), SqliteError> {
    let Some(number) = interner::find(db, session.as_str())? else { return Ok(()) };
    db.prepare_cached("UPDATE sessions SET title = ?2 WHERE number = ?1")?.execute(params![number, title])?;
    Ok(())
}

pub(super) fn hide(db: &Connection, session: &SessionKey, hidden: bool) -> Result<(), SqliteError> {
    let Some(number) = interner::find(db, session.as_str())? else { return Ok(()) };
    db.prepare_cached("UPDATE sessions SET hidden = ?2 WHERE number = ?1")?.execute(params![number, hidden])?;
    Ok(())
}

pub(super) fn fork(db: &Connection, names: &mut NameInterner, fork: &NewFork) -> Result<(), SqliteError> {
    let Some(source) = interner::find(db, fork.from.as_str())? else { return Ok(()) };
    let mut hidden = db.prepare_cached("SELECT hidden_turns FROM sessions WHERE number = ?1")?;
    let hidden: i64 = hidden.query_row([source], |row| row.get(0))?;
    let target = names.intern_session(db, &fork.into)?;
    let owner = names.intern(db, &fork.owner)?;
    let (channel, account) = fork.into.conversation_parts().map(|parts| (parts.channel, parts.account)).unzip();
    db.prepare_cached(
        "INSERT INTO sessions (number, created_at, used_at, channel, account, owner, title, unindexed)
         VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, 1)",
    )?
    .execute(params![target, fork.at.as_microsecond(), channel, account, owner, fork.title.as_deref()])?;
    let through = i64::try_from(fork.through).unwrap_or(0);
    let first = hidden.max(through.saturating_sub(MAX_FORKED_TURNS.cast_signed()));
    let shift = (target << TURN_BITS) - (source << TURN_BITS) - first;
    db.prepare_cached(
        "INSERT INTO turns (position, run, at, version, payload)
         SELECT position + ?3, run, at, version, payload FROM turns WHERE position > ?1 AND position <= ?2
         ORDER BY position",
    )?
    .execute([(source << TURN_BITS) + first, (source << TURN_BITS) + through, shift])?;
    Ok(())
}
