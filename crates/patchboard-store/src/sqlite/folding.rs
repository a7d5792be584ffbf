//! Folds the events of runs that ended long ago: adjacent records of streamed text become one, in its numbers.

use std::sync::Arc;

use jiff::Timestamp;
use patchboard_core::event::Topic;
use patchboard_core::event::fold::{FoldedRecord, RecordFolder};
use patchboard_core::record;
use rusqlite::{Connection, params};

use super::events::{self, MAX_SEQ};
use super::sql_error::{SqliteError, from_stored_count, run_id};

/// Runs, records and bytes read by one call, so that the writer is not blocked for long: a few milliseconds.
const MAX_RUNS: usize = 500;
const MAX_RECORDS: usize = 4_000;
const MAX_BYTES: usize = 1024 * 1024;

/// What one call may still read.
struct FoldBudget {
    records: usize,
    bytes: usize,
}

impl FoldBudget {
    fn is_used_up(&self) -> bool {
        self.records == 0 || self.bytes == 0
    }
}

/// Folds runs in the order they ended. The position is stored, so that nothing is read twice; a long run takes several
/// calls, and its records are not folded across their bounds. Returns `true` if some are left.
pub(super) fn fold_old_runs(db: &Connection, ended_before: Timestamp) -> Result<bool, SqliteError> {
    let position = db.query_row("SELECT ended_at, run, seq FROM folded", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    })?;
    let mut update_position = db.prepare_cached("UPDATE folded SET ended_at = ?1, run = ?2, seq = ?3")?;
    let mut find = db.prepare_cached(
        "SELECT runs.ended_at, runs.number, topics.id FROM runs JOIN topics ON topics.number = runs.number
         WHERE runs.ended_at < ?1 AND (runs.ended_at, runs.number) >= (?2, ?3)
         ORDER BY runs.ended_at, runs.number LIMIT ?4",
    )?;
    // One for the run that is folded already, and one to see whether more are left.
    let limit = i64::try_from(MAX_RUNS).unwrap_or(0) + 2;
    let found = find.query_map(params![ended_before.as_microsecond(), position.0, position.1, limit], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
    })?;
    let found = found.collect::<Result<Vec<_>, _>>()?;
    let mut budget = FoldBudget { records: MAX_RECORDS, bytes: MAX_BYTES };
    let mut runs = 0;
    for (ended_at, run, id) in found {
        let done = if (ended_at, run) == (position.0, position.1) { from_stored_count(position.2) } else { 0 };
        if done >= MAX_SEQ {
            continue;
        }
        if runs == MAX_RUNS || budget.is_used_up() {
            return Ok(true);
        }
        runs += 1;
        let topic = Topic::Run(run_id(&id)?);
        let stopped_at = fold_run(db, run, &topic, done + 1, &mut budget)?;
        // Stored in the same transaction as what was folded.
        update_position.execute([ended_at, run, stopped_at.unwrap_or(MAX_SEQ).cast_signed()])?;
        if stopped_at.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Folds the run's records from number `from` on. Returns the last number it read, if the budget ended before the run.
fn fold_run(
    db: &Connection,
    run: i64,
    topic: &Topic,
    from: u64,
    budget: &mut FoldBudget,
) -> Result<Option<u64>, SqliteError> {
    let mut statement = db.prepare_cached(
        "SELECT position, width, at, version, payload FROM events
         WHERE position BETWEEN ?1 AND ?2 ORDER BY position LIMIT ?3",
    )?;
    let limit = i64::try_from(budget.records).unwrap_or(i64::MAX);
    let mut rows = statement.query([events::position(run, from), events::position(run, MAX_SEQ), limit])?;
    let (mut folder, mut folded) = (RecordFolder::default(), Vec::new());
    let mut read_up_to = from;
    let mut is_at_end = true;
    while let Some(row) = rows.next()? {
        read_up_to = from_stored_count(row.get(0)?) & MAX_SEQ;
        let bytes = row.get_ref(4)?.as_blob().map_or(0, <[u8]>::len);
        match events::record_of_row(row, topic) {
            Ok(record) => folded.extend(folder.push(Arc::new(record))),
            // Left as it is: whoever reads it is told that it is corrupt.
            Err(SqliteError::Corrupt { .. }) => folded.extend(folder.finish()),
            Err(error) => return Err(error),
        }
        budget.records = budget.records.saturating_sub(1);
        budget.bytes = budget.bytes.saturating_sub(bytes);
        is_at_end = !budget.is_used_up();
        if !is_at_end {
            break;
        }
    }
    drop(rows);
    folded.extend(folder.finish());
    for FoldedRecord { record, .. } in folded.iter().filter(|folded| folded.parts > 1) {
        let (first, last) = (record.seq.0, record.last_seq().0);
        db.prepare_cached("DELETE FROM events WHERE position BETWEEN ?1 AND ?2")?
            .execute([events::position(run, first), events::position(run, last) - 1])?;
        db.prepare_cached("UPDATE events SET width = ?2, at = ?3, version = ?4, payload = ?5 WHERE position = ?1")?
            .execute(params![
                events::position(run, last),
                record.event.seq_count().cast_signed(),
                record.at.as_microsecond(),
                record::RECORD_VERSION,
                record::encode_entry(record.node, &record.event),
            ])?;
    }
    Ok((!is_at_end).then_some(read_up_to))
}
