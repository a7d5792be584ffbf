//! Applies batches as SQL within the writer's transaction; the first rejected write rolls back the whole batch.

use std::collections::HashMap;

use patchboard_core::id::{RunId, TenureId};
use patchboard_core::record;
use patchboard_core::store::{Durability, StoreWrite, WriteBatch};
use rusqlite::Connection;

use super::events::TopicCache;
use super::interner::NameInterner;
use super::sql_error::SqliteError;
use super::{audit, conversations, deliveries, events, facts, forget, inputs, kv, messages, runs, sessions, usage};

/// A batch with encoded payloads.
#[derive(Debug)]
pub(super) struct EncodedBatch {
    batch: WriteBatch,
    /// One per `Event` and `AddTurn`, in order.
    payloads: Vec<Vec<u8>>,
    bytes: usize,
}

impl EncodedBatch {
    pub(super) fn new(batch: WriteBatch) -> Self {
        let mut payloads = Vec::new();
        let mut bytes = 0;
        for write in &batch.writes {
            match write {
                StoreWrite::Event(record) => payloads.push(record::encode_entry(record.node, &record.event)),
                StoreWrite::AddTurn(turn) => payloads.push(record::encode_messages(&turn.messages)),
                StoreWrite::OpenRun(run) => bytes += run.input.len(),
                StoreWrite::LearnFact(fact) => {
                    bytes += fact.object.len() + fact.embedding.as_ref().map_or(0, |(_, vector)| vector.len() * 4);
                }
                StoreWrite::PutValue { key, value, .. } => bytes += key.len() + value.as_ref().map_or(0, Vec::len),
                StoreWrite::CloseRun { .. }
                | StoreWrite::RequestOfRun { .. }
                | StoreWrite::OpenInput(_)
                | StoreWrite::AnswerInput { .. }
                | StoreWrite::CloseInput(_)
                | StoreWrite::OpenModelCall(_)
                | StoreWrite::SettleModelCall(_)
                | StoreWrite::ClearSession { .. }
                | StoreWrite::ForgetFact { .. }
                | StoreWrite::RenameSession { .. }
                | StoreWrite::HideSession { .. }
                | StoreWrite::ForkSession(_)
                | StoreWrite::Audit(_)
                | StoreWrite::Message(_) => {}
                StoreWrite::Delivery(row) => bytes += row.body.len(),
            }
        }
        bytes += payloads.iter().map(Vec::len).sum::<usize>();
        Self { batch, payloads, bytes }
    }

    pub(super) fn tenure(&self) -> Option<TenureId> {
        self.batch.tenure
    }

    pub(super) fn durability(&self) -> Durability {
        self.batch.durability
    }

    /// Approximate size in memory and on disk.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The writer's caches between batches, and work deferred to the end of a transaction.
#[derive(Debug, Default)]
pub(super) struct BatchWriter {
    names: NameInterner,
    topics: TopicCache,
    /// Tokens to add per budget scope; merged, because many calls of a group count for the same day and month.
    spent_by_scope: HashMap<String, i64>,
    /// Runs of purged sessions that ended in this transaction.
    purge_after_close: Vec<RunId>,
    next_version: kv::NextVersion,
}

impl BatchWriter {
    /// Must be called after every rollback: the caches may contain rolled-back rows.
    pub(super) fn clear_caches(&mut self) {
        self.names.clear();
        self.topics.clear();
        self.spent_by_scope.clear();
        self.purge_after_close.clear();
    }

    pub(super) fn apply(&mut self, db: &Connection, encoded: &EncodedBatch) -> Result<(), SqliteError> {
        let Self { names, topics, spent_by_scope, purge_after_close, next_version } = self;
        let mut payloads = encoded.payloads.iter();
        let mut payload =
            || payloads.next().ok_or_else(|| SqliteError::Rejected("a record was not encoded".to_owned()));
        for write in &encoded.batch.writes {
            match write {
                StoreWrite::Event(record) => events::append(db, topics, record, payload()?)?,
                StoreWrite::OpenRun(row) => runs::open(db, names, topics, row)?,
                StoreWrite::CloseRun { run, outcome, at } => {
                    if runs::close(db, topics, *run, *outcome, *at)? == runs::CloseOutcome::PurgePending {
                        purge_after_close.push(*run);
                    }
                }
                StoreWrite::OpenInput(row) => inputs::open(db, names, topics, row)?,
                StoreWrite::AnswerInput { input, answer, by, at } => inputs::answer(db, *input, answer, by, *at)?,
                StoreWrite::CloseInput(input) => inputs::close(db, *input)?,
                StoreWrite::RequestOfRun { run, request } => runs::request(db, topics, *run, *request)?,
                StoreWrite::OpenModelCall(call) => usage::open_call(db, names, topics, call)?,
                StoreWrite::SettleModelCall(row) => usage::settle_call(db, names, topics, spent_by_scope, row)?,
                StoreWrite::AddTurn(turn) => sessions::add_turn(db, names, topics, turn, payload()?)?,
                StoreWrite::LearnFact(fact) => facts::insert_or_supersede(db, names, fact)?,
                StoreWrite::ClearSession { session, purge: false, .. } => sessions::clear(db, session)?,
                StoreWrite::ClearSession { session, purge: true, .. } => {
                    sessions::purge(db, session)?;
                    topics.clear();
                }
                StoreWrite::ForgetFact { owner, fact } => forget::fact(db, owner, *fact)?,
                StoreWrite::RenameSession { session, title } => conversations::rename(db, session, title)?,
                StoreWrite::HideSession { session, hidden } => conversations::hide(db, session, *hidden)?,
                StoreWrite::ForkSession(fork) => conversations::fork(db, names, fork)?,
                StoreWrite::Audit(row) => audit::add(db, names, row)?,
                StoreWrite::Message(row) => messages::put(db, topics, row)?,
                StoreWrite::Delivery(row) => deliveries::put(db, row)?,
                StoreWrite::PutValue { namespace, key, value, expected, version, at } => {
                    kv::check_version(db, namespace, key, *expected)?;
                    let version = next_version.or_given(db, *version)?;
                    kv::put(db, namespace, key, value.as_deref(), version, *at)?;
                }
            }
        }
        Ok(())
    }

    /// Does the deferred work; must be called before the commit.
    pub(super) fn flush(&mut self, db: &Connection) -> Result<(), SqliteError> {
        usage::add_spent(db, self.spent_by_scope.drain())?;
        for run in std::mem::take(&mut self.purge_after_close) {
            let topic = self.topics.get_or_create_run(db, run)?.number;
            sessions::with_secure_delete(db, || runs::delete_purged(db, topic))?;
            self.topics.clear();
        }
        Ok(())
    }
}
