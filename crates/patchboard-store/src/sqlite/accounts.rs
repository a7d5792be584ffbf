//! Reads about accounts: what is stored of each, page by page.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchboard_core::id::{MemoryOwner, RunId, SessionKey};
use patchboard_core::store::{
    AccountContents, AccountRow, AccountTurn, FactListQuery, FactRecord, FactRow, PageCursor, ResultPage, RunRow,
    SessionRow, Superseded,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::sql_error::{SqliteError, cursor_parts, from_stored_count, row_limit, run_id, session_key, timestamp};
use super::{interner, runs, sessions};

const FACT_COLUMNS: &str = "SELECT facts.number, subject, predicate, object, confidence, names.name, learned_at, run,
        superseded_at, superseded_by, (SELECT max(old.number) FROM facts AS old WHERE old.superseded_by = facts.number)
    FROM facts JOIN names ON names.number = facts.session WHERE owner = ?1";

/// Every session of the account that has a name, with its number; also those of which nothing else is stored.
pub(super) fn named_sessions(db: &Connection, account: &MemoryOwner) -> Result<Vec<(i64, SessionKey)>, SqliteError> {
    // Most names are excluded by the database; the rest is parsed, because an agent's name may contain the account's.
    let mut statement = db.prepare_cached("SELECT number, name FROM names WHERE instr(name, ?1)")?;
    let mut rows = statement.query([format!(":{account}:")])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if let Some(key) = SessionKey::parse(&row.get::<_, String>(1)?)
            && key.memory_owner().as_ref() == Some(account)
        {
            found.push((row.get(0)?, key));
        }
    }
    Ok(found)
}

pub(super) fn list(
    db: &Connection,
    owners: Option<&[Arc<str>]>,
    limit: usize,
    cursor: Option<&PageCursor>,
) -> Result<ResultPage<AccountRow>, SqliteError> {
    let after = cursor.map(|cursor| MemoryOwner::parse(&cursor.0).ok_or(SqliteError::BadCursor)).transpose()?;
    let owned = match owners {
        Some(owners) => {
            let numbers = sessions::owner_ids_sql(db, owners)?;
            format!("HAVING min(ifnull(owner IN ({numbers}), 0)) = 1")
        }
        None => String::new(),
    };
    let mut rows: BTreeMap<MemoryOwner, AccountRow> = BTreeMap::new();
    let mut statement = db.prepare_cached(&format!(
        "SELECT channel, account, count(*), max(used_at),
            sum(ifnull((SELECT max(position) FROM turns
                WHERE position BETWEEN sessions.number << 30 AND (sessions.number << 30) + 1073741823)
                - (sessions.number << 30), 0))
         FROM sessions WHERE channel IS NOT NULL GROUP BY channel, account {owned}"
    ))?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let account = MemoryOwner::account(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?);
        let counted = AccountRow {
            account: account.clone(),
            sessions: from_stored_count(row.get(2)?),
            used_at: Some(timestamp(row.get(3)?)?),
            turns: from_stored_count(row.get(4)?),
            facts: 0,
        };
        rows.insert(account, counted);
    }
    let mut statement = db.prepare_cached(
        "SELECT names.name, count(*) FROM facts JOIN names ON names.number = facts.owner
         WHERE superseded_at IS NULL GROUP BY facts.owner",
    )?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let Some(account) = interner::owner_of_name(&row.get::<_, String>(0)?) else { continue };
        let facts = from_stored_count(row.get(1)?);
        match rows.get_mut(&account) {
            Some(counted) => counted.facts = facts,
            // Facts of an account without sessions belong to no client.
            None if owners.is_some() => {}
            None => {
                let counted = AccountRow { account: account.clone(), sessions: 0, turns: 0, facts, used_at: None };
                rows.insert(account, counted);
            }
        }
    }
    let rest = rows.into_values().filter(|row| after.as_ref().is_none_or(|after| row.account > *after));
    let limit = usize::try_from(row_limit(limit)).unwrap_or(0);
    let mut items: Vec<AccountRow> = rest.take(limit + 1).collect();
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|last| PageCursor(last.account.to_string()));
    Ok(ResultPage { items, next })
}

pub(super) fn contents(db: &Connection, account: &MemoryOwner) -> Result<AccountContents, SqliteError> {
    let mut contents = AccountContents::default();
    for (session, _) in named_sessions(db, account)? {
        contents.names += 1;
        contents.runs += runs::count_of_session(db, session)?;
        let Some((owner, turns)) = sessions::creator_and_turns(db, session)? else { continue };
        contents.sessions += 1;
        contents.turns += turns;
        contents.session_owners.push(owner);
    }
    contents.session_owners.sort();
    contents.session_owners.dedup();
    if let Some(owner) = interner::find(db, &interner::owner_name(account))? {
        contents.names += 1;
        let mut count = db.prepare_cached(
            "SELECT count(*) FILTER (WHERE superseded_at IS NULL), count(superseded_at) FROM facts WHERE owner = ?1",
        )?;
        let (current, superseded) = count.query_row([owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
        contents.facts = from_stored_count(current);
        contents.superseded_facts = from_stored_count(superseded);
    }
    contents.has_remains = db.prepare_cached("SELECT 1 FROM remains")?.exists([])?;
    Ok(contents)
}

pub(super) fn facts(db: &Connection, query: &FactListQuery) -> Result<ResultPage<FactRecord>, SqliteError> {
    let [before] = query.cursor.as_ref().map_or(Ok([i64::MAX]), cursor_parts)?;
    let limit = row_limit(query.limit);
    let empty = ResultPage { items: Vec::new(), next: None };
    let Some(owner) = interner::find(db, &interner::owner_name(&query.owner))? else { return Ok(empty) };
    let current = if query.with_superseded { "" } else { "AND superseded_at IS NULL" };
    let mut statement = db.prepare_cached(&format!(
        "{FACT_COLUMNS} AND facts.number < ?2 {current} ORDER BY facts.number DESC LIMIT ?3"
    ))?;
    let mut rows = statement.query([owner, before, limit + 1])?;
    let mut page = empty;
    while let Some(row) = rows.next()? {
        if i64::try_from(page.items.len()).unwrap_or(i64::MAX) == limit {
            page.next = page.items.last().map(|last: &FactRecord| PageCursor(last.fact.number.to_string()));
            break;
        }
        page.items.push(fact_record(row)?);
    }
    Ok(page)
}

pub(super) fn fact(db: &Connection, account: &MemoryOwner, number: u64) -> Result<Option<FactRecord>, SqliteError> {
    let Some(owner) = interner::find(db, &interner::owner_name(account))? else { return Ok(None) };
    let mut statement = db.prepare_cached(&format!("{FACT_COLUMNS} AND facts.number = ?2"))?;
    let mut rows = statement.query([owner, i64::try_from(number).unwrap_or(0)])?;
    rows.next()?.map(fact_record).transpose()
}

fn fact_record(row: &Row<'_>) -> Result<FactRecord, SqliteError> {
    let superseded = row.get::<_, Option<i64>>(8)?.map(timestamp).transpose()?;
    let superseded_by = row.get::<_, Option<i64>>(9)?.map(from_stored_count);
    Ok(FactRecord {
        fact: FactRow {
            number: from_stored_count(row.get(0)?),
            subject: row.get(1)?,
            predicate: row.get(2)?,
            object: row.get(3)?,
            confidence: row.get(4)?,
            session: session_key(&row.get::<_, String>(5)?)?,
            learned_at: timestamp(row.get(6)?)?,
            score: 0.0,
        },
        run: row.get::<_, Option<Vec<u8>>>(7)?.map(|bytes| run_id(&bytes)).transpose()?,
        supersedes: row.get::<_, Option<i64>>(10)?.map(from_stored_count),
        superseded: superseded.map(|at| Superseded { at, by: superseded_by }),
    })
}

pub(super) fn sessions(
    db: &Connection,
    account: &MemoryOwner,
    limit: usize,
    cursor: Option<&PageCursor>,
) -> Result<ResultPage<SessionRow>, SqliteError> {
    let [after] = cursor.map_or(Ok([-1]), cursor_parts)?;
    let (channel, name) = account.parts().unwrap_or_default();
    sessions::list_of_account(db, &channel, &name, after, limit)
}

pub(super) fn turns(
    db: &Connection,
    account: &MemoryOwner,
    limit: usize,
    cursor: Option<&PageCursor>,
) -> Result<ResultPage<AccountTurn>, SqliteError> {
    let [after] = cursor.map_or(Ok([0]), cursor_parts)?;
    let limit = row_limit(limit);
    let (channel, name) = account.parts().unwrap_or_default();
    let mut find = db.prepare_cached(
        "SELECT sessions.number, names.name FROM sessions JOIN names ON names.number = sessions.number
         WHERE account = ?2 AND channel = ?1 AND sessions.number >= ?3 ORDER BY sessions.number",
    )?;
    let mut found = find.query(params![channel, name, after >> sessions::TURN_BITS])?;
    let mut page = ResultPage { items: Vec::new(), next: None };
    let mut last = after;
    while let Some(row) = found.next()? {
        let key = session_key(&row.get::<_, String>(1)?)?;
        let left = limit + 1 - i64::try_from(page.items.len()).unwrap_or(0);
        for (position, turn) in sessions::stored_turns(db, row.get(0)?, after, left)? {
            if i64::try_from(page.items.len()).unwrap_or(i64::MAX) == limit {
                page.next = Some(PageCursor(last.to_string()));
                return Ok(page);
            }
            page.items.push(AccountTurn { session: key.clone(), turn });
            last = position;
        }
    }
    Ok(page)
}

pub(super) fn runs(
    db: &Connection,
    account: &MemoryOwner,
    limit: usize,
    cursor: Option<&PageCursor>,
) -> Result<ResultPage<RunRow>, SqliteError> {
    let [after] = cursor.map_or(Ok([0]), cursor_parts)?;
    let limit = row_limit(limit);
    let numbers: Vec<String> = named_sessions(db, account)?.into_iter().map(|(number, _)| number.to_string()).collect();
    let mut found = runs::list_of_sessions(db, &numbers.join(", "), after, limit + 1)?;
    let has_more = i64::try_from(found.len()).unwrap_or(i64::MAX) > limit;
    found.truncate(usize::try_from(limit).unwrap_or(0));
    let next = found.last().filter(|_| has_more).map(|(number, _)| PageCursor(number.to_string()));
    Ok(ResultPage { items: found.into_iter().map(|(_, run)| run).collect(), next })
}

/// The session's key; `None` if it was forgotten.
pub(super) fn name(db: &Connection, number: i64) -> Result<Option<SessionKey>, SqliteError> {
    let mut find = db.prepare_cached("SELECT name FROM names WHERE number = ?1")?;
    let name: Option<Option<String>> = find.query_row([number], |row| row.get(0)).optional()?;
    name.flatten().map(|name| session_key(&name)).transpose()
}

/// The stored form of a fact's run.
pub(super) fn stored_run(run: Option<&RunId>) -> Option<&[u8]> {
    run.map(|run| run.0.as_bytes().as_slice())
}
