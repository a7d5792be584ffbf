//! The full-text index of turns. It is filled behind the turns: sessions with turns that are not in it are marked.

use std::collections::HashMap;
use std::sync::Arc;

use patchboard_core::model::ModelMessage;
use patchboard_core::store::{FoundTurn, PageCursor, ResultPage, TurnRow, TurnSearchQuery};
use rusqlite::{Connection, OptionalExtension, params};

use super::search_terms;
use super::sessions::{self, MAX_TURN, TURN_BITS};
use super::sql_error::{SqliteError, cursor_parts, from_stored_count, row_limit};
use super::{accounts, interner};

/// Distinct words of a turn that are indexed; further ones are not found.
const MAX_TERMS_PER_TURN: usize = 400;
/// Turns indexed per call, so that the writer is not blocked for long.
const MAX_INDEXED_TURNS: i64 = 200;
/// Sessions looked at per call.
const MAX_MARKED_SESSIONS: usize = 2000;
/// Turns with the words that are looked at per page, also those of other callers. A page that ends here has fewer
/// items, and a cursor.
const MAX_EXAMINED_TURNS: usize = 5000;
/// Characters of an excerpt before and after the word that was found.
const EXCERPT_BEFORE: usize = 60;
const EXCERPT_AFTER: usize = 140;

/// Indexes some turns; `true` if more are left.
pub(super) fn fill(db: &Connection) -> Result<bool, SqliteError> {
    let mut find =
        db.prepare_cached("SELECT number, indexed_turns FROM sessions WHERE unindexed = 1 ORDER BY number LIMIT ?1")?;
    let marked = find.query_map([row_limit_of(MAX_MARKED_SESSIONS)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let marked = marked.collect::<Result<Vec<(i64, i64)>, _>>()?;
    let is_last_page = marked.len() < MAX_MARKED_SESSIONS;
    let mut left = MAX_INDEXED_TURNS;
    let mut has_progressed = false;
    for (session, indexed) in marked {
        if left == 0 {
            return Ok(true);
        }
        let turns = sessions::stored_turns(db, session, (session << TURN_BITS) + indexed, left)?;
        left -= i64::try_from(turns.len()).unwrap_or(left);
        let mut last = indexed;
        for (position, turn) in turns {
            let text = indexed_text(&turn);
            db.prepare_cached("INSERT INTO turn_words (rowid, words) VALUES (?1, ?2)")?
                .execute(params![position, text])?;
            last = position & MAX_TURN;
        }
        // A running run will add a turn without marking its session again.
        let is_complete = left > 0 && !sessions::has_unfinished_run(db, session)?;
        if last != indexed || is_complete {
            has_progressed = true;
            db.prepare_cached("UPDATE sessions SET indexed_turns = ?2, unindexed = ?3 WHERE number = ?1")?
                .execute(params![session, last, !is_complete])?;
        }
    }
    Ok(left == 0 || (!is_last_page && has_progressed))
}

/// Deletes at most `limit` turns of a session with their words; returns how many.
pub(super) fn delete_some_turns(db: &Connection, session: i64, limit: usize) -> Result<usize, SqliteError> {
    let mut find = db.prepare_cached("SELECT indexed_turns FROM sessions WHERE number = ?1")?;
    let indexed: i64 = find.query_row([session], |row| row.get(0)).optional()?.unwrap_or(0);
    let turns = sessions::stored_turns(db, session, session << TURN_BITS, row_limit_of(limit))?;
    let deleted = turns.len();
    for (position, turn) in turns {
        if position & MAX_TURN <= indexed {
            // The index knows a turn by its words, so these must be the words it was indexed with.
            db.prepare_cached("INSERT INTO turn_words (turn_words, rowid, words) VALUES ('delete', ?1, ?2)")?
                .execute(params![position, indexed_text(&turn)])?;
        }
        db.prepare_cached("DELETE FROM turns WHERE position = ?1")?.execute([position])?;
    }
    Ok(deleted)
}

pub(super) fn search(db: &Connection, query: &TurnSearchQuery) -> Result<ResultPage<FoundTurn>, SqliteError> {
    let [before] = query.cursor.as_ref().map_or(Ok([i64::MAX]), cursor_parts)?;
    let mut page = ResultPage { items: Vec::new(), next: None };
    let terms = search_terms::query_terms(&query.text);
    let limit = usize::try_from(row_limit(query.limit)).unwrap_or(0);
    if terms.is_empty() || limit == 0 {
        return Ok(page);
    }
    let expressions: Vec<String> = terms.iter().map(|word| search_terms::plain_expression(word)).collect();
    let owners = match &query.owners {
        Some(owners) => {
            let numbers = owners.iter().map(|owner| interner::find(db, owner)).collect::<Result<Vec<_>, _>>()?;
            Some(numbers.into_iter().flatten().collect::<Vec<i64>>())
        }
        None => None,
    };
    let mut find =
        db.prepare_cached("SELECT rowid FROM turn_words WHERE turn_words MATCH ?1 AND rowid < ?2 ORDER BY rowid DESC")?;
    let mut rows = find.query(params![expressions.join(" AND "), before])?;
    let mut sessions_seen: HashMap<i64, Option<i64>> = HashMap::new();
    let mut examined = 0;
    let mut last = before;
    while let Some(row) = rows.next()? {
        let position: i64 = row.get(0)?;
        if page.items.len() == limit || examined == MAX_EXAMINED_TURNS {
            page.next = Some(PageCursor(last.to_string()));
            break;
        }
        examined += 1;
        last = position;
        let session = position >> TURN_BITS;
        let hidden_turns = match sessions_seen.get(&session) {
            Some(known) => *known,
            None => {
                let readable = readable_from(db, session, owners.as_deref())?;
                sessions_seen.insert(session, readable);
                readable
            }
        };
        if hidden_turns.is_some_and(|hidden| position & MAX_TURN > hidden) {
            page.items.extend(found_turn(db, session, position, &terms)?);
        }
    }
    Ok(page)
}

/// The number of turns of the session that a clear hides; `None` if nothing of it may be found.
fn readable_from(db: &Connection, session: i64, owners: Option<&[i64]>) -> Result<Option<i64>, SqliteError> {
    let mut find = db.prepare_cached("SELECT hidden_turns, owner FROM sessions WHERE number = ?1 AND cleared = 0")?;
    let found: Option<(i64, Option<i64>)> =
        find.query_row([session], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let is_own = |owner: Option<i64>| owners.is_none_or(|owners| owner.is_some_and(|owner| owners.contains(&owner)));
    Ok(found.filter(|(_, owner)| is_own(*owner)).map(|(hidden_turns, _)| hidden_turns))
}

fn found_turn(
    db: &Connection,
    session: i64,
    position: i64,
    terms: &[String],
) -> Result<Option<FoundTurn>, SqliteError> {
    let Some(key) = accounts::name(db, session)? else { return Ok(None) };
    let mut find = db.prepare_cached("SELECT title FROM sessions WHERE number = ?1")?;
    let title: Option<Arc<str>> = find.query_row([session], |row| row.get(0)).optional()?.flatten();
    let turns = sessions::stored_turns(db, session, position - 1, 1)?;
    Ok(turns.into_iter().next().map(|(_, turn)| FoundTurn {
        session: key,
        title,
        turn: from_stored_count(position & MAX_TURN),
        run: turn.run,
        at: turn.at,
        excerpt: excerpt(&spoken_text(&turn), terms),
    }))
}

/// The words under which a turn is found.
fn indexed_text(turn: &TurnRow) -> String {
    search_terms::distinct_terms_up_to(&spoken_text(turn), MAX_TERMS_PER_TURN).join(" ")
}

/// What the user and the agent said, without tool calls and results.
fn spoken_text(turn: &TurnRow) -> String {
    turn.messages.iter().map(ModelMessage::text).collect::<Vec<_>>().join("\n")
}

/// The passage around the first word of the query, in one line.
fn excerpt(text: &str, terms: &[String]) -> String {
    let folded: Vec<char> =
        text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    let lower: Vec<char> = folded.iter().map(|character| character.to_lowercase().next().unwrap_or(' ')).collect();
    let found = terms.iter().filter_map(|term| {
        let term: Vec<char> = term.chars().collect();
        lower.windows(term.len().max(1)).position(|window| window == term.as_slice())
    });
    let at = found.min().unwrap_or(0);
    let (start, end) = (at.saturating_sub(EXCERPT_BEFORE), (at + EXCERPT_AFTER).min(folded.len()));
    let shown: String = folded.get(start..end).unwrap_or_default().iter().collect();
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < folded.len() { "…" } else { "" });
    format!("{before}{}{after}", shown.trim())
}

fn row_limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
