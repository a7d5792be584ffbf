//! Model calls: opened before they are made, settled with their cost, summed per budget scope and reported.

use std::collections::HashMap;

use patchboard_core::id::{NodeId, RunId, Seq};
use patchboard_core::model::TokenCount;
use patchboard_core::store::{
    BudgetScope, FORGOTTEN, ModelCallRow, PageCursor, ResultPage, UsageGroup, UsageGrouping, UsageQuery, UsageRow,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::events::TopicCache;
use super::interner::NameInterner;
use super::sql_error::{
    SqliteError, cursor_parts, from_stored_count, row_limit, session_key, timestamp, to_stored_count,
};
use super::{run_list, sessions};

const DAY_MICROSECONDS: i64 = 24 * 60 * 60 * 1_000_000;

pub(super) fn open_call(
    db: &Connection,
    names: &mut NameInterner,
    topics: &mut TopicCache,
    call: &ModelCallRow,
) -> Result<(), SqliteError> {
    let topic = topics.get_or_create_run(db, call.run)?.number;
    db.prepare_cached(
        "INSERT INTO open_calls
            (run, call, session, agent, provider, model, estimated_input, reserved, first_seq, at, node, key)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        topic,
        call.number,
        names.intern_session(db, &call.session)?,
        names.intern(db, &call.agent)?,
        names.intern(db, &call.provider)?,
        names.intern(db, &call.model)?,
        to_stored_count(call.estimated_input),
        to_stored_count(call.reserved),
        to_stored_count(call.first_seq.0),
        call.at.as_microsecond(),
        call.node.map(|node| node.0),
        call.key.as_deref(),
    ])?;
    Ok(())
}

/// Refuses a call that is not open, so that tokens are counted exactly once.
pub(super) fn settle_call(
    db: &Connection,
    names: &mut NameInterner,
    topics: &mut TopicCache,
    spent: &mut HashMap<String, i64>,
    usage: &UsageRow,
) -> Result<(), SqliteError> {
    let topic = topics.get_or_create_run(db, usage.run)?.number;
    let mut close = db.prepare_cached("DELETE FROM open_calls WHERE run = ?1 AND call = ?2")?;
    if close.execute(params![topic, usage.number])? == 0 {
        return Err(SqliteError::Rejected(format!("model call {} of run {} is not open", usage.number, usage.run)));
    }
    let tokens = to_stored_count(usage.tokens.total());
    for scope in &usage.scopes {
        let sum = spent.entry(scope.key()).or_default();
        *sum = sum.saturating_add(tokens);
    }
    db.prepare_cached(
        "INSERT INTO usage (at, run, call, session, agent, provider, model, input, output, cost_nanousd, estimated)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        usage.at.as_microsecond(),
        usage.run.0.as_bytes().as_slice(),
        usage.number,
        names.intern_session(db, &usage.session)?,
        names.intern(db, &usage.agent)?,
        names.intern(db, &usage.provider)?,
        names.intern(db, &usage.model)?,
        to_stored_count(usage.tokens.input),
        to_stored_count(usage.tokens.output),
        to_stored_count(usage.cost_nanousd),
        usage.estimated,
    ])?;
    run_list::count_usage(db, names, topic, usage)
}

pub(super) fn add_spent(
    db: &Connection,
    spent_by_scope: impl Iterator<Item = (String, i64)>,
) -> Result<(), SqliteError> {
    let mut statement = db.prepare_cached(
        "INSERT INTO spent (scope, tokens) VALUES (?1, ?2)
         ON CONFLICT (scope) DO UPDATE SET tokens = tokens + excluded.tokens",
    )?;
    for (scope, tokens) in spent_by_scope {
        statement.execute(params![scope, tokens])?;
    }
    Ok(())
}

/// The run's open calls, in the order they began.
pub(super) fn open_calls_of(db: &Connection, run: RunId, topic: i64) -> Result<Vec<ModelCallRow>, SqliteError> {
    let mut statement = db.prepare_cached(
        "SELECT call, session.name, agent.name, provider.name, model.name, estimated_input, reserved, first_seq, at,
            node, key
         FROM open_calls
         JOIN names AS session ON session.number = open_calls.session
         JOIN names AS agent ON agent.number = open_calls.agent
         JOIN names AS provider ON provider.number = open_calls.provider
         JOIN names AS model ON model.number = open_calls.model
         WHERE run = ?1 ORDER BY call",
    )?;
    let mut rows = statement.query([topic])?;
    let mut calls = Vec::new();
    while let Some(row) = rows.next()? {
        calls.push(ModelCallRow {
            run,
            number: row.get(0)?,
            session: session_key(&row.get::<_, String>(1)?)?,
            agent: row.get(2)?,
            provider: row.get(3)?,
            model: row.get(4)?,
            estimated_input: from_stored_count(row.get(5)?),
            reserved: from_stored_count(row.get(6)?),
            first_seq: Seq(from_stored_count(row.get(7)?)),
            at: timestamp(row.get(8)?)?,
            node: row.get::<_, Option<u32>>(9)?.map(NodeId),
            key: row.get(10)?,
        });
    }
    Ok(calls)
}

pub(super) fn spent(db: &Connection, scopes: &[BudgetScope]) -> Result<Vec<u64>, SqliteError> {
    let mut statement = db.prepare_cached("SELECT tokens FROM spent WHERE scope = ?1")?;
    let mut totals = Vec::with_capacity(scopes.len());
    for scope in scopes {
        let tokens: Option<i64> = statement.query_row([scope.key()], |row| row.get(0)).optional()?;
        totals.push(tokens.map_or(0, from_stored_count));
    }
    Ok(totals)
}

/// Later pages cover the same calls as the first page, so that groups do not move between pages.
pub(super) fn report(db: &Connection, query: &UsageQuery) -> Result<ResultPage<UsageGroup>, SqliteError> {
    let [until, offset] = match &query.cursor {
        Some(cursor) => cursor_parts(cursor)?,
        None => {
            let newest: Option<i64> = db.query_row("SELECT max(at) FROM usage", [], |row| row.get(0))?;
            [newest.unwrap_or(0), 0]
        }
    };
    let limit = row_limit(query.limit);
    let since = query.since.map_or(i64::MIN, |since| since.as_microsecond());
    let owner_condition = match &query.owners {
        Some(owners) => {
            let owners = sessions::owner_ids_sql(db, owners)?;
            format!("AND session IN (SELECT number FROM sessions WHERE owner IN ({owners}))")
        }
        None => String::new(),
    };
    let mut statement = db.prepare_cached(&report_sql(query.group_by, query.then_by, &owner_condition))?;
    let mut rows = statement.query([since, until, limit + 1, offset])?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(usage_group(row, query)?);
    }
    let has_more = i64::try_from(items.len()).unwrap_or(i64::MAX) > limit;
    items.truncate(usize::try_from(limit).unwrap_or(0));
    let next = (has_more && limit > 0).then(|| PageCursor(format!("{until}.{}", offset.saturating_add(limit))));
    Ok(ResultPage { items, next })
}

fn report_sql(group_by: UsageGrouping, then_by: Option<UsageGrouping>, owner_condition: &str) -> String {
    let by_spending = "cost DESC, input + output DESC, name, then_name";
    let order = match (group_by, then_by) {
        (UsageGrouping::Day, _) => format!("key DESC, {by_spending}"),
        (_, Some(UsageGrouping::Day)) => format!("then_key DESC, {by_spending}"),
        (_, _) => by_spending.to_owned(),
    };
    let key = key_sql(group_by);
    let then_key = then_by.map_or("NULL", key_sql);
    let name = name_sql(group_by, "key");
    let then_name = then_by.map_or_else(|| "NULL".to_owned(), |then_by| name_sql(then_by, "then_key"));
    format!(
        "SELECT key, calls, input, output, cost, estimated, {name} AS name, then_key, {then_name} AS then_name FROM (
            SELECT {key} AS key, {then_key} AS then_key, count(*) AS calls, sum(input) AS input, sum(output) AS output,
                sum(cost_nanousd) AS cost, sum(estimated) AS estimated
            FROM usage WHERE at BETWEEN ?1 AND ?2 {owner_condition} GROUP BY 1, 2
         ) ORDER BY {order} LIMIT ?3 OFFSET ?4"
    )
}

fn key_sql(grouping: UsageGrouping) -> &'static str {
    match grouping {
        UsageGrouping::Day => "at / 86400000000",
        UsageGrouping::Model => "model",
        UsageGrouping::Provider => "provider",
        UsageGrouping::Agent => "agent",
        UsageGrouping::Session => "session",
    }
}

fn name_sql(grouping: UsageGrouping, column: &str) -> String {
    match grouping {
        UsageGrouping::Day => "NULL".to_owned(),
        UsageGrouping::Model | UsageGrouping::Provider | UsageGrouping::Agent | UsageGrouping::Session => {
            format!("(SELECT name FROM names WHERE number = {column})")
        }
    }
}

fn usage_group(row: &Row<'_>, query: &UsageQuery) -> Result<UsageGroup, SqliteError> {
    let key = |grouping, key: usize, name: usize| match grouping {
        UsageGrouping::Day => {
            let day: i64 = row.get(key)?;
            Ok::<_, SqliteError>(timestamp(day.saturating_mul(DAY_MICROSECONDS))?.strftime("%Y-%m-%d").to_string())
        }
        UsageGrouping::Model | UsageGrouping::Provider | UsageGrouping::Agent | UsageGrouping::Session => {
            Ok(row.get::<_, Option<String>>(name)?.unwrap_or_else(|| FORGOTTEN.to_owned()))
        }
    };
    Ok(UsageGroup {
        key: key(query.group_by, 0, 6)?,
        then: query.then_by.map(|then_by| key(then_by, 7, 8)).transpose()?,
        calls: from_stored_count(row.get(1)?),
        tokens: TokenCount { input: from_stored_count(row.get(2)?), output: from_stored_count(row.get(3)?) },
        cost_nanousd: from_stored_count(row.get(4)?),
        estimated_calls: from_stored_count(row.get(5)?),
    })
}
