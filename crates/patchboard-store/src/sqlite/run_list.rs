//! Lists of runs: their rows with what their model calls took.

use std::sync::Arc;

use patchboard_core::id::{RunId, Seq};
use patchboard_core::model::TokenCount;
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::store::{
    ListedRun, PageCursor, ResultPage, RunFilter, RunModel, RunQuery, RunState, RunUsage, StoredStateFilter, UsageRow,
};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use super::events::{MAX_SEQ, SEQ_BITS};
use super::interner::{self, NameInterner};
use super::runs::{BLOCK_BITS, blocks, outcome, outcome_code};
use super::sql_error::{
    SqliteError, cursor_parts, from_stored_count, row_limit, run_id, session_key, timestamp, to_stored_count,
};

/// Blocks of 8192 runs that one page looks at. If they hold fewer runs than asked for, the page is short and names where
/// to go on.
const MAX_BLOCKS: usize = 8;

/// Adds a settled call to the totals of its run, unless that was pruned or never recorded.
pub(super) fn count_usage(
    db: &Connection,
    names: &mut NameInterner,
    run: i64,
    usage: &UsageRow,
) -> Result<(), SqliteError> {
    db.prepare_cached(
        "INSERT INTO run_totals (run, calls, input, output, cost_nanousd, provider, model)
         SELECT ?1, 1, ?2, ?3, ?4, ?5, ?6 WHERE EXISTS (SELECT 1 FROM runs WHERE number = ?1)
         ON CONFLICT (run) DO UPDATE SET calls = calls + 1, input = input + excluded.input,
             output = output + excluded.output, cost_nanousd = cost_nanousd + excluded.cost_nanousd,
             provider = excluded.provider, model = excluded.model",
    )?
    .execute(params![
        run,
        to_stored_count(usage.tokens.input),
        to_stored_count(usage.tokens.output),
        to_stored_count(usage.cost_nanousd),
        names.intern(db, &usage.provider)?,
        names.intern(db, &usage.model)?,
    ])?;
    Ok(())
}

pub(super) fn list(db: &Connection, query: &RunQuery) -> Result<ResultPage<ListedRun>, SqliteError> {
    let [before] = query.cursor.as_ref().map_or(Ok([i64::MAX]), cursor_parts)?;
    let limit = usize::try_from(row_limit(query.limit)).unwrap_or(0);
    let empty = ResultPage { items: Vec::new(), next: None };
    let Some(conditions) = RunConditions::new(db, &query.filter)? else { return Ok(empty) };
    if limit == 0 {
        return Ok(empty);
    }
    let mut found: Vec<(i64, ListedRun)> = Vec::new();
    let mut next = None;
    if query.filter.among.is_some() {
        found = conditions.rows(db, 0, before, limit + 1)?;
    } else {
        let blocks = blocks(db)?.filter(|block| block << BLOCK_BITS < before);
        for (visited, block) in blocks.enumerate() {
            let first = block << BLOCK_BITS;
            if visited == MAX_BLOCKS {
                next = Some(first + (1 << BLOCK_BITS));
                break;
            }
            let end = before.min(first + (1 << BLOCK_BITS));
            found.extend(conditions.rows(db, first, end, limit + 1 - found.len())?);
            if found.len() > limit {
                break;
            }
        }
    }
    if found.len() > limit {
        found.truncate(limit);
        next = found.last().map(|(number, _)| *number);
    }
    let items = found.into_iter().map(|(_, run)| run).collect();
    Ok(ResultPage { items, next: next.map(|number| PageCursor(number.to_string())) })
}

/// A filter as SQL.
struct RunConditions {
    sql: String,
    values: Vec<Value>,
    /// A session's runs are found by the index of blocks and sessions; others by their numbers.
    is_by_session: bool,
}

impl RunConditions {
    /// `None` if nothing can match, because a name was never stored.
    fn new(db: &Connection, filter: &RunFilter) -> Result<Option<Self>, SqliteError> {
        let RunFilter { principals, among, client_id, surface, agent, strategy, session, state, since, until, text } =
            filter;
        let mut conditions =
            Self { sql: String::new(), values: Vec::new(), is_by_session: session.is_some() && among.is_none() };
        if let Some(principals) = principals {
            let numbers = principals.iter().map(|name| interner::find(db, name)).collect::<Result<Vec<_>, _>>()?;
            let numbers: Vec<_> = numbers.into_iter().flatten().map(|number| number.to_string()).collect();
            if numbers.is_empty() {
                return Ok(None);
            }
            // The index by client id would be of no use without one.
            conditions.push_sql(&format!("+runs.principal IN ({})", numbers.join(", ")));
        }
        if let Some(among) = among {
            let ids: Vec<_> = among.iter().map(|RunId(id)| format!("x'{}'", id.simple())).collect();
            conditions
                .push_sql(&format!("runs.number IN (SELECT number FROM topics WHERE id IN ({}))", ids.join(", ")));
        }
        let session = session.as_ref().map(|session| session.as_str());
        for (column, name) in
            [("runs.session", session), ("+runs.surface", surface.as_deref()), ("+runs.agent", agent.as_deref())]
        {
            let Some(name) = name else { continue };
            let Some(number) = interner::find(db, name)? else { return Ok(None) };
            conditions.push(&format!("{column} ="), Value::Integer(number));
        }
        if let Some(client_id) = client_id {
            conditions.push("+runs.client_id =", Value::Text(client_id.to_string()));
        }
        if let Some(strategy) = strategy {
            conditions.push("runs.strategy =", Value::Integer(i64::from(strategy_code(*strategy))));
        }
        match state {
            None => {}
            Some(StoredStateFilter::Running) => conditions.push_sql("+runs.ended_at IS NULL"),
            Some(StoredStateFilter::Ended) => conditions.push_sql("+runs.ended_at IS NOT NULL"),
            Some(StoredStateFilter::EndedAs(wanted)) => {
                conditions.push("runs.outcome =", Value::Integer(i64::from(outcome_code(*wanted))));
            }
        }
        if let Some(since) = since {
            conditions.push("runs.started_at >=", Value::Integer(since.as_microsecond()));
        }
        if let Some(until) = until {
            conditions.push("runs.started_at <", Value::Integer(until.as_microsecond()));
        }
        if let Some(text) = text {
            // `lower` changes ASCII letters only.
            conditions.push("0 < instr(lower(runs.title),", Value::Text(text.to_ascii_lowercase()));
            conditions.sql.push(')');
        }
        Ok(Some(conditions))
    }

    fn push_sql(&mut self, condition: &str) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
    }

    fn push(&mut self, condition: &str, value: Value) {
        self.push_sql(condition);
        self.values.push(value);
        // The first three are the range and the limit.
        self.sql.push_str(&format!(" ?{}", self.values.len() + 3));
    }

    /// The matching runs from number `first` up to `end`, newest first, each with its number.
    fn rows(&self, db: &Connection, first: i64, end: i64, limit: usize) -> Result<Vec<(i64, ListedRun)>, SqliteError> {
        let range = match self.is_by_session {
            true => {
                format!("runs.number >> {BLOCK_BITS} = ?1 >> {BLOCK_BITS} AND +runs.number >= ?1 AND +runs.number < ?2")
            }
            false => "runs.number >= ?1 AND runs.number < ?2".to_owned(),
        };
        let sql = format!("{COLUMNS} WHERE {range}{} ORDER BY runs.number DESC LIMIT ?3", self.sql);
        let mut statement = db.prepare(&sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let range = [first, end, limit].map(Value::Integer);
        let mut rows = statement.query(params_from_iter(range.iter().chain(&self.values)))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((row.get(0)?, listed_run(row)?));
        }
        Ok(found)
    }
}

const COLUMNS: &str = "SELECT runs.number, topics.id, session.name, principal.name, surface.name, agent.name,
        runs.strategy, runs.title, runs.client_id, runs.started_at, runs.ended_at, runs.outcome,
        ifnull(totals.calls, 0), ifnull(totals.input, 0), ifnull(totals.output, 0), ifnull(totals.cost_nanousd, 0),
        (SELECT name FROM names WHERE number = ifnull(totals.provider,
            (SELECT provider FROM open_calls WHERE run = runs.number ORDER BY call DESC LIMIT 1))),
        (SELECT name FROM names WHERE number = ifnull(totals.model,
            (SELECT model FROM open_calls WHERE run = runs.number ORDER BY call DESC LIMIT 1))),
        (SELECT position FROM events WHERE position >= runs.number << 26 AND position < (runs.number + 1) << 26
            ORDER BY position DESC LIMIT 1)
    FROM runs
    JOIN topics ON topics.number = runs.number
    JOIN names AS session ON session.number = runs.session
    JOIN names AS principal ON principal.number = runs.principal
    JOIN names AS surface ON surface.number = runs.surface
    JOIN names AS agent ON agent.number = runs.agent
    LEFT JOIN run_totals AS totals ON totals.run = runs.number";
/// `COLUMNS` takes positions apart by it.
const _: () = assert!(SEQ_BITS == 26);

fn listed_run(row: &Row<'_>) -> Result<ListedRun, SqliteError> {
    let text = |column| row.get::<_, Arc<str>>(column);
    let count = |column| Ok::<_, SqliteError>(from_stored_count(row.get(column)?));
    let id = row.get_ref(1)?.as_blob().map_err(|error| SqliteError::corrupt("run id", error))?;
    let model = match (row.get(16)?, row.get(17)?) {
        (Some(provider), Some(model)) => Some(RunModel { provider, model }),
        (None, _) | (_, None) => None,
    };
    Ok(ListedRun {
        run: run_id(id)?,
        session: session_key(&text(2)?)?,
        principal: text(3)?,
        surface: text(4)?,
        agent: text(5)?,
        strategy: strategy(row.get(6)?)?,
        title: text(7)?,
        client_id: text(8)?,
        started_at: timestamp(row.get(9)?)?,
        ended_at: row.get::<_, Option<i64>>(10)?.map(timestamp).transpose()?,
        state: match row.get::<_, Option<u8>>(11)? {
            None => RunState::Running,
            Some(code) => RunState::Ended(outcome(code)?),
        },
        usage: RunUsage {
            model_calls: count(12)?,
            tokens: TokenCount { input: count(13)?, output: count(14)? },
            cost_nanousd: count(15)?,
        },
        model,
        last_seq: Seq(row.get::<_, Option<i64>>(18)?.map_or(0, from_stored_count) & MAX_SEQ),
    })
}

pub(super) fn strategy_code(strategy: StrategyKind) -> u8 {
    match strategy {
        StrategyKind::React => 0,
        StrategyKind::Dup => 1,
        StrategyKind::Tot => 2,
        StrategyKind::Got => 3,
    }
}

pub(super) fn strategy(code: u8) -> Result<StrategyKind, SqliteError> {
    let known = StrategyKind::ALL.into_iter().find(|strategy| strategy_code(*strategy) == code);
    known.ok_or_else(|| SqliteError::corrupt("strategy", format!("unknown code: {code}")))
}
