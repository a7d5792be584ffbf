//! Runs: their request, their owner and their outcome.

use std::sync::Arc;

use jiff::Timestamp;
use patchboard_core::event::RunOutcome;
use patchboard_core::id::{RunId, SessionKey};
use patchboard_core::store::{RetentionCutoffs, RunRequestKind, RunRequests, RunRow, RunState, UnfinishedRun};
use patchboard_core::text;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::events::{self, TopicCache};
use super::interner::{self, NameInterner};
use super::sql_error::{SqliteError, from_stored_count, run_id, session_key, timestamp};
use super::{folding, inputs, kv, run_list, sessions, usage};

/// The indexes by client id and by session are partitioned into blocks of this many runs (see the schema).
pub(super) const BLOCK_BITS: u32 = 13;
/// Rows deleted per `prune` call, so that the writer is not blocked for long.
const MAX_PRUNED_RUNS: usize = 500;
const PRUNE_EVENTS: usize = 20_000;

const COLUMNS: &str = "SELECT topics.id, session.name, principal.name, surface.name,
        runs.client_id, runs.started_at, runs.outcome, runs.input, runs.number, agent.name, runs.strategy,
        runs.cancel_requested, runs.detach_requested
    FROM runs
    JOIN topics ON topics.number = runs.number
    JOIN names AS session ON session.number = runs.session
    JOIN names AS principal ON principal.number = runs.principal
    JOIN names AS surface ON surface.number = runs.surface
    JOIN names AS agent ON agent.number = runs.agent";

pub(super) fn open(
    db: &Connection,
    names: &mut NameInterner,
    topics: &mut TopicCache,
    row: &RunRow,
) -> Result<(), SqliteError> {
    let topic = topics.get_or_create_run(db, row.run)?.number;
    let session = names.intern_session(db, &row.session)?;
    let principal = names.intern(db, &row.principal)?;
    let (ended_at, outcome) = match row.state {
        RunState::Running => (None, None),
        RunState::Ended(outcome) => (Some(row.started_at.as_microsecond()), Some(outcome_code(outcome))),
    };
    db.prepare_cached(
        "INSERT INTO runs
            (number, session, principal, surface, started_at, ended_at, outcome, agent, strategy, title, client_id, input)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        topic,
        session,
        principal,
        names.intern(db, &row.surface)?,
        row.started_at.as_microsecond(),
        ended_at,
        outcome,
        names.intern(db, &row.agent)?,
        run_list::strategy_code(row.strategy),
        text::title(&row.input),
        row.client_id,
        row.input,
    ])?;
    sessions::mark_used(db, session, row, principal)
}

/// The number of the run's principal.
pub(super) fn principal(db: &Connection, run: i64) -> Result<Option<i64>, SqliteError> {
    let mut statement = db.prepare_cached("SELECT principal FROM runs WHERE number = ?1")?;
    Ok(statement.query_row([run], |row| row.get(0)).optional()?)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseOutcome {
    Retained,
    /// Deleted at the end of the transaction, together with whatever the batch still writes for it.
    PurgePending,
}

pub(super) fn close(
    db: &Connection,
    topics: &mut TopicCache,
    run: RunId,
    outcome: RunOutcome,
    at: Timestamp,
) -> Result<CloseOutcome, SqliteError> {
    let topic = *topics.get_or_create_run(db, run)?;
    let closed = db
        .prepare_cached("UPDATE runs SET ended_at = ?2, outcome = ?3 WHERE number = ?1 AND ended_at IS NULL")?
        .execute(params![topic.number, at.as_microsecond(), outcome_code(outcome)])?;
    if closed == 0 {
        return Err(SqliteError::Rejected(format!("run {run} is not running")));
    }
    inputs::close_of_run(db, topic.number)?;
    Ok(if topic.purge_on_close { CloseOutcome::PurgePending } else { CloseOutcome::Retained })
}

/// Stores a request to a running run.
pub(super) fn request(
    db: &Connection,
    topics: &mut TopicCache,
    run: RunId,
    request: RunRequestKind,
) -> Result<(), SqliteError> {
    let sql = match request {
        RunRequestKind::Cancel => "UPDATE runs SET cancel_requested = 1 WHERE number = ?1 AND ended_at IS NULL",
        RunRequestKind::Detach => "UPDATE runs SET detach_requested = 1 WHERE number = ?1 AND ended_at IS NULL",
    };
    let Some(topic) = topics.find_run(db, run)? else { return Err(SqliteError::Conflict) };
    match db.prepare_cached(sql)?.execute([topic.number])? {
        0 => Err(SqliteError::Conflict),
        _ => Ok(()),
    }
}

/// Deletes the run with its topic, events and open calls. Returns the number of events.
pub(super) fn delete(db: &Connection, topic: i64) -> Result<usize, SqliteError> {
    db.prepare_cached("DELETE FROM open_calls WHERE run = ?1")?.execute([topic])?;
    inputs::close_of_run(db, topic)?;
    db.prepare_cached("DELETE FROM runs WHERE number = ?1")?.execute([topic])?;
    db.prepare_cached("DELETE FROM run_totals WHERE run = ?1")?.execute([topic])?;
    db.prepare_cached("DELETE FROM topics WHERE number = ?1")?.execute([topic])?;
    events::delete(db, topic)
}

/// Deletes a run that ended after its session had been purged. Values stored in the session since then are deleted too,
/// unless the session is in use again: they may belong to a newer run.
pub(super) fn delete_purged(db: &Connection, topic: i64) -> Result<(), SqliteError> {
    let mut find = db.prepare_cached(
        "SELECT names.number, names.name FROM runs JOIN names ON names.number = runs.session WHERE runs.number = ?1",
    )?;
    let found = find.query_row([topic], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).optional()?;
    if let Some((session, key)) = found
        && !sessions::exists(db, session)?
    {
        kv::purge(db, &session_key(&key)?)?;
    }
    delete(db, topic)?;
    Ok(())
}

/// Deletes a session's ended runs. Running ones stay until they end, because their cost must be counted.
pub(super) fn purge(db: &Connection, session: i64) -> Result<(), SqliteError> {
    purge_some(db, session, usize::MAX).map(|_| ())
}

/// The same, but stops once about `limit` rows were deleted; returns how many were.
pub(super) fn purge_some(db: &Connection, session: i64, limit: usize) -> Result<usize, SqliteError> {
    let mut deleted = 0;
    let mut find =
        db.prepare_cached("SELECT number, ended_at IS NOT NULL FROM runs WHERE number >> 13 = ?1 AND session = ?2")?;
    for block in blocks(db)? {
        let found = find.query_map([block, session], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
        for (run, ended) in found.collect::<Result<Vec<_>, _>>()? {
            if deleted >= limit {
                return Ok(deleted);
            }
            if ended {
                deleted += delete(db, run)? + 1;
            } else {
                db.prepare_cached("UPDATE runs SET purge_on_close = 1 WHERE number = ?1")?.execute([run])?;
            }
        }
    }
    Ok(deleted)
}

pub(super) fn count_of_session(db: &Connection, session: i64) -> Result<u64, SqliteError> {
    let mut count = db.prepare_cached("SELECT count(*) FROM runs WHERE number >> 13 = ?1 AND session = ?2")?;
    let mut total = 0;
    for block in blocks(db)? {
        total += from_stored_count(count.query_row([block, session], |row| row.get(0))?);
    }
    Ok(total)
}

/// Runs of these sessions after a number, oldest first, each with its number. Reads all runs: for exports.
pub(super) fn list_of_sessions(
    db: &Connection,
    sessions: &str,
    after: i64,
    limit: i64,
) -> Result<Vec<(i64, RunRow)>, SqliteError> {
    let mut statement = db.prepare_cached(&format!(
        "{COLUMNS} WHERE runs.session IN ({sessions}) AND runs.number > ?1 ORDER BY runs.number LIMIT ?2"
    ))?;
    let mut rows = statement.query([after, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((row.get(8)?, run_row(row)?));
    }
    Ok(found)
}

pub(super) fn prune(db: &Connection, retention: RetentionCutoffs) -> Result<bool, SqliteError> {
    Ok(prune_runs(db, retention.runs_before)? || folding::fold_old_runs(db, retention.events_before)?)
}

fn prune_runs(db: &Connection, finished_before: Timestamp) -> Result<bool, SqliteError> {
    let mut find = db.prepare_cached(
        "SELECT number FROM runs WHERE ended_at IS NOT NULL AND ended_at < ?1 ORDER BY ended_at LIMIT ?2",
    )?;
    // One extra row shows whether any are left.
    let limit = i64::try_from(MAX_PRUNED_RUNS).unwrap_or(0) + 1;
    let found = find.query_map(params![finished_before.as_microsecond(), limit], |row| row.get(0))?;
    let found = found.collect::<Result<Vec<i64>, _>>()?;
    let mut deleted_events = 0;
    for (deleted_runs, run) in found.into_iter().enumerate() {
        if deleted_runs == MAX_PRUNED_RUNS || deleted_events >= PRUNE_EVENTS {
            return Ok(true);
        }
        deleted_events += delete(db, run)?;
    }
    Ok(false)
}

pub(super) fn by_id(db: &Connection, run: RunId) -> Result<Option<RunRow>, SqliteError> {
    query_run(db, &format!("{COLUMNS} WHERE topics.id = ?1"), &[&run.0.as_bytes().as_slice()])
}

pub(super) fn by_client_id(db: &Connection, principal: &str, client_id: &str) -> Result<Option<RunRow>, SqliteError> {
    let Some(principal) = interner::find(db, principal)? else { return Ok(None) };
    let sql = "SELECT number FROM runs WHERE number >> 13 = ?1 AND principal = ?2 AND client_id = ?3
               ORDER BY number DESC LIMIT 1";
    find_newest_run(db, sql, &[&principal, &client_id])
}

pub(super) fn of_session(db: &Connection, session: &SessionKey) -> Result<Option<RunRow>, SqliteError> {
    let Some(session) = interner::find(db, session.as_str())? else { return Ok(None) };
    let sql = "SELECT number FROM runs WHERE number >> 13 = ?1 AND session = ?2 ORDER BY number DESC LIMIT 1";
    find_newest_run(db, sql, &[&session])
}

pub(super) fn unfinished(db: &Connection) -> Result<Vec<UnfinishedRun>, SqliteError> {
    let mut statement = db.prepare_cached(&format!("{COLUMNS} WHERE runs.ended_at IS NULL ORDER BY runs.number"))?;
    let mut rows = statement.query([])?;
    let mut unfinished = Vec::new();
    while let Some(row) = rows.next()? {
        let run = run_row(row)?;
        let open_calls = usage::open_calls_of(db, run.run, row.get(8)?)?;
        unfinished.push(UnfinishedRun { run, open_calls });
    }
    Ok(unfinished)
}

/// Searches block by block; the block is the query's first parameter.
fn find_newest_run(db: &Connection, sql: &str, filter_values: &[&dyn ToSql]) -> Result<Option<RunRow>, SqliteError> {
    let mut find = db.prepare_cached(sql)?;
    for block in blocks(db)? {
        let mut parameters: Vec<&dyn ToSql> = vec![&block];
        parameters.extend(filter_values);
        let found: Option<i64> = find.query_row(parameters.as_slice(), |row| row.get(0)).optional()?;
        if let Some(number) = found {
            return query_run(db, &format!("{COLUMNS} WHERE runs.number = ?1"), &[&number]);
        }
    }
    Ok(None)
}

/// All blocks of runs, newest first.
pub(super) fn blocks(db: &Connection) -> Result<impl Iterator<Item = i64>, SqliteError> {
    let mut statement = db.prepare_cached("SELECT (SELECT min(number) FROM runs), (SELECT max(number) FROM runs)")?;
    let (oldest, newest): (Option<i64>, Option<i64>) = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let blocks = match (oldest, newest) {
        (Some(oldest), Some(newest)) => oldest >> BLOCK_BITS..(newest >> BLOCK_BITS) + 1,
        (None, _) | (_, None) => 0..0,
    };
    Ok(blocks.rev())
}

fn query_run(db: &Connection, sql: &str, parameters: &[&dyn ToSql]) -> Result<Option<RunRow>, SqliteError> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(parameters)?;
    rows.next()?.map(run_row).transpose()
}

fn run_row(row: &Row<'_>) -> Result<RunRow, SqliteError> {
    let text = |column| row.get::<_, Arc<str>>(column);
    let id = row.get_ref(0)?.as_blob().map_err(|error| SqliteError::corrupt("run id", error))?;
    Ok(RunRow {
        run: run_id(id)?,
        session: session_key(&text(1)?)?,
        principal: text(2)?,
        surface: text(3)?,
        client_id: text(4)?,
        started_at: timestamp(row.get(5)?)?,
        state: match row.get::<_, Option<u8>>(6)? {
            None => RunState::Running,
            Some(code) => RunState::Ended(outcome(code)?),
        },
        input: text(7)?,
        agent: text(9)?,
        strategy: run_list::strategy(row.get(10)?)?,
        requests: RunRequests { cancel: row.get(11)?, detach: row.get(12)? },
    })
}

pub(super) fn outcome_code(outcome: RunOutcome) -> u8 {
    match outcome {
        RunOutcome::Completed => 0,
        RunOutcome::Failed => 1,
        RunOutcome::Cancelled => 2,
        RunOutcome::Interrupted => 3,
    }
}

pub(super) fn outcome(code: u8) -> Result<RunOutcome, SqliteError> {
    Ok(match code {
        0 => RunOutcome::Completed,
        1 => RunOutcome::Failed,
        2 => RunOutcome::Cancelled,
        3 => RunOutcome::Interrupted,
        unknown => return Err(SqliteError::corrupt("run outcome", format!("unknown code: {unknown}"))),
    })
}
