//! The event log: records of a topic are stored consecutively, in order.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use patchboard_core::event::{Envelope, Topic};
use patchboard_core::id::{RunId, Seq};
use patchboard_core::record;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::sql_error::{SqliteError, from_stored_count, row_limit, timestamp};

/// A topic has 67 million sequence numbers: at a hundred text chunks per second, a week of continuous output. Further
/// records are refused.
pub(super) const SEQ_BITS: u32 = 26;
pub(super) const MAX_SEQ: u64 = (1 << SEQ_BITS) - 1;

/// Cached topics. When the cache is full it is cleared, and topics are looked up again.
const MAX_CACHED_TOPICS: usize = 4096;

/// The writer's cache of topics being written.
#[derive(Debug, Default)]
pub(super) struct TopicCache {
    cached: HashMap<Topic, CachedTopic>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CachedTopic {
    pub(super) number: i64,
    last_seq: u64,
    /// The run's session was purged while it ran.
    pub(super) purge_on_close: bool,
}

impl TopicCache {
    /// The topic's cache entry; creates the topic if it is new.
    pub(super) fn get_or_create(&mut self, db: &Connection, topic: &Topic) -> Result<&mut CachedTopic, SqliteError> {
        if self.cached.len() >= MAX_CACHED_TOPICS && !self.cached.contains_key(topic) {
            self.cached.clear();
        }
        match self.cached.entry(topic.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => {
                let cached_topic = match load_topic(db, topic)? {
                    Some(cached_topic) => cached_topic,
                    None => {
                        let number =
                            db.prepare_cached("INSERT INTO topics (id) VALUES (?1)")?.insert([stored_id(topic)])?;
                        CachedTopic { number, last_seq: 0, purge_on_close: false }
                    }
                };
                Ok(unknown.insert(cached_topic))
            }
        }
    }

    pub(super) fn get_or_create_run(&mut self, db: &Connection, run: RunId) -> Result<&mut CachedTopic, SqliteError> {
        self.get_or_create(db, &Topic::Run(run))
    }

    /// Like `get_or_create_run`, for a run that may not exist.
    pub(super) fn find_run(&self, db: &Connection, run: RunId) -> Result<Option<CachedTopic>, SqliteError> {
        let topic = Topic::Run(run);
        self.cached.get(&topic).map_or_else(|| load_topic(db, &topic), |cached_topic| Ok(Some(*cached_topic)))
    }

    pub(super) fn clear(&mut self) {
        self.cached.clear();
    }
}

/// The stored key of a topic: a run's is its 16-byte id. A message's has one more byte, so that no run is found by a
/// message's id; the byte is a suffix, so that ids stay in time order.
fn stored_id(topic: &Topic) -> Vec<u8> {
    match topic {
        Topic::Run(run) => run.0.as_bytes().to_vec(),
        Topic::Message(message) => [message.0.as_bytes().as_slice(), b"m"].concat(),
    }
}

fn load_topic(db: &Connection, topic: &Topic) -> Result<Option<CachedTopic>, SqliteError> {
    let mut statement = db.prepare_cached(
        "SELECT topics.number, ifnull(runs.purge_on_close, 0)
         FROM topics LEFT JOIN runs ON runs.number = topics.number WHERE topics.id = ?1",
    )?;
    let found = statement.query_row([stored_id(topic)], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((number, purge_on_close)) = found else { return Ok(None) };
    Ok(Some(CachedTopic { number, last_seq: last_stored_seq(db, number)?, purge_on_close }))
}

pub(super) fn append(
    db: &Connection,
    topics: &mut TopicCache,
    record: &Envelope,
    payload: &[u8],
) -> Result<(), SqliteError> {
    let topic = topics.get_or_create(db, &record.topic)?;
    let last = record.last_seq().0;
    if record.seq.0 != topic.last_seq + 1 {
        return Err(SqliteError::Rejected(format!("event number {} does not follow {}", record.seq, topic.last_seq)));
    }
    if last > MAX_SEQ {
        return Err(SqliteError::Rejected(format!("event number {last} is beyond the end of its log: {MAX_SEQ}")));
    }
    db.prepare_cached("INSERT INTO events (position, width, at, version, payload) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![
            position(topic.number, last),
            record.event.seq_count().cast_signed(),
            record.at.as_microsecond(),
            record::RECORD_VERSION,
            payload,
        ])?;
    topic.last_seq = last;
    Ok(())
}

pub(super) fn delete(db: &Connection, topic: i64) -> Result<usize, SqliteError> {
    let mut statement = db.prepare_cached("DELETE FROM events WHERE position BETWEEN ?1 AND ?2")?;
    Ok(statement.execute([position(topic, 0), position(topic, MAX_SEQ)])?)
}

pub(super) fn read(db: &Connection, topic: &Topic, from: Seq, limit: usize) -> Result<Vec<Arc<Envelope>>, SqliteError> {
    let Some(number) = topic_number(db, topic)? else { return Ok(Vec::new()) };
    if from.0 > MAX_SEQ {
        return Ok(Vec::new());
    }
    let mut statement = db.prepare_cached(
        "SELECT position, width, at, version, payload FROM events
         WHERE position BETWEEN ?1 AND ?2 ORDER BY position LIMIT ?3",
    )?;
    let mut rows = statement.query([position(number, from.0), position(number, MAX_SEQ), row_limit(limit)])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(Arc::new(record_of_row(row, topic)?));
    }
    Ok(records)
}

/// The record in a row of position, width, time, version and payload.
pub(super) fn record_of_row(row: &Row<'_>, topic: &Topic) -> Result<Envelope, SqliteError> {
    let last = from_stored_count(row.get(0)?) & MAX_SEQ;
    let width = from_stored_count(row.get(1)?);
    let payload = row.get_ref(4)?.as_blob().map_err(|error| SqliteError::corrupt("event", error))?;
    let entry = record::decode_entry(row.get(3)?, payload);
    let (node, event) = entry.map_err(|error| SqliteError::corrupt("event", error))?;
    if event.seq_count() != width || last < width {
        return Err(SqliteError::corrupt("event", "its numbers do not fit its content"));
    }
    let (seq, at) = (Seq(last + 1 - width), timestamp(row.get(2)?)?);
    Ok(Envelope { topic: topic.clone(), seq, at, node, event })
}

pub(super) fn last_seq(db: &Connection, topic: &Topic) -> Result<Seq, SqliteError> {
    match topic_number(db, topic)? {
        Some(number) => Ok(Seq(last_stored_seq(db, number)?)),
        None => Ok(Seq(0)),
    }
}

fn last_stored_seq(db: &Connection, topic: i64) -> Result<u64, SqliteError> {
    let mut statement = db.prepare_cached(
        "SELECT position FROM events WHERE position BETWEEN ?1 AND ?2 ORDER BY position DESC LIMIT 1",
    )?;
    let range = [position(topic, 0), position(topic, MAX_SEQ)];
    let last: Option<i64> = statement.query_row(range, |row| row.get(0)).optional()?;
    Ok(last.map_or(0, |position| from_stored_count(position) & MAX_SEQ))
}

fn topic_number(db: &Connection, topic: &Topic) -> Result<Option<i64>, SqliteError> {
    let mut statement = db.prepare_cached("SELECT number FROM topics WHERE id = ?1")?;
    Ok(statement.query_row([stored_id(topic)], |row| row.get(0)).optional()?)
}

pub(super) fn position(topic: i64, seq: u64) -> i64 {
    topic << SEQ_BITS | seq.cast_signed()
}
