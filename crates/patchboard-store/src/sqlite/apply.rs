//! Turns a batch into SQL. Runs inside the writer's transaction; the first refusal undoes the whole batch.

use std::collections::HashMap;

use patchboard_core::id::RunId;
use patchboard_core::port::{Batch, Durability, Write};
use patchboard_core::record;
use rusqlite::Connection;

use super::events::Topics;
use super::fault::Fault;
use super::names::Names;
use super::{audit, deliveries, events, facts, kept, messages, runs, sessions, usage};

/// A batch with its payloads encoded.
#[derive(Debug)]
pub(super) struct Prepared {
    batch: Batch,
    /// One per `Event` and `Turn`, in order.
    payloads: Vec<Payload>,
    bytes: usize,
}

/// A record as it is stored.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) version: u16,
    pub(super) bytes: Vec<u8>,
}

impl Prepared {
    pub(super) fn new(batch: Batch) -> Self {
        let mut payloads = Vec::new();
        let mut bytes = 0;
        for write in &batch.writes {
            match write {
                Write::Event(record) => {
                    let (version, bytes) = record::encode_entry(record.node, &record.event);
                    payloads.push(Payload { version, bytes });
                }
                Write::Turn(turn) => {
                    let bytes = record::encode_messages(&turn.messages);
                    payloads.push(Payload { version: record::MESSAGES_VERSION, bytes });
                }
                Write::OpenRun(run) => bytes += run.input.len(),
                Write::Fact(fact) => {
                    bytes += fact.object.len() + fact.embedding.as_ref().map_or(0, |(_, vector)| vector.len() * 4);
                }
                Write::Keep { key, value, .. } => bytes += key.len() + value.as_ref().map_or(0, Vec::len),
                Write::CloseRun { .. }
                | Write::OpenModelCall(_)
                | Write::SettleModelCall(_)
                | Write::ClearSession { .. }
                | Write::Audit(_)
                | Write::Message(_) => {}
                Write::Delivery(row) => bytes += row.body.len(),
            }
        }
        bytes += payloads.iter().map(|payload| payload.bytes.len()).sum::<usize>();
        Self { batch, payloads, bytes }
    }

    pub(super) fn durability(&self) -> Durability {
        self.batch.durability
    }

    /// About what it takes in memory and on disk.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What the writer remembers between batches to save lookups, and what it saves up for the end of a transaction.
#[derive(Debug, Default)]
pub(super) struct Applier {
    names: Names,
    topics: Topics,
    /// Tokens to add per budget scope: many calls of a group count in the same day and month.
    spent: HashMap<String, i64>,
    /// Runs that ended in this transaction after their session had been purged.
    ended_doomed: Vec<RunId>,
}

impl Applier {
    /// Must follow every rollback: what was learned in the transaction is not true any more.
    pub(super) fn forget(&mut self) {
        self.names.forget();
        self.topics.forget();
        self.spent.clear();
        self.ended_doomed.clear();
    }

    pub(super) fn apply(&mut self, db: &Connection, prepared: &Prepared) -> Result<(), Fault> {
        let Self { names, topics, spent, ended_doomed } = self;
        let mut payloads = prepared.payloads.iter();
        let mut payload = || payloads.next().ok_or_else(|| Fault::Refused("a record was not encoded".to_owned()));
        for write in &prepared.batch.writes {
            match write {
                Write::Event(record) => events::append(db, topics, record, payload()?)?,
                Write::OpenRun(row) => runs::open(db, names, topics, row)?,
                Write::CloseRun { run, outcome, at } => {
                    if runs::close(db, topics, *run, *outcome, *at)? == runs::Closed::Doomed {
                        ended_doomed.push(*run);
                    }
                }
                Write::OpenModelCall(call) => usage::open_call(db, names, topics, call)?,
                Write::SettleModelCall(row) => usage::settle_call(db, names, topics, spent, row)?,
                Write::Turn(turn) => sessions::add_turn(db, names, topics, turn, payload()?)?,
                Write::Fact(fact) => facts::learn(db, names, fact)?,
                Write::ClearSession { session, purge: false, .. } => sessions::clear(db, session)?,
                Write::ClearSession { session, purge: true, .. } => {
                    sessions::purge(db, session)?;
                    topics.forget();
                }
                Write::Audit(row) => audit::add(db, names, row)?,
                Write::Message(row) => messages::put(db, topics, row)?,
                Write::Delivery(row) => deliveries::put(db, row)?,
                Write::Keep { space, key, value, at } => kept::keep(db, space, key, value.as_deref(), *at)?,
            }
        }
        Ok(())
    }

    /// What is left to do before the transaction can be committed.
    pub(super) fn finish(&mut self, db: &Connection) -> Result<(), Fault> {
        usage::add_spent(db, self.spent.drain())?;
        for run in std::mem::take(&mut self.ended_doomed) {
            let topic = self.topics.of_run(db, run)?.number;
            sessions::overwriting(db, || runs::delete_doomed(db, topic))?;
            self.topics.forget();
        }
        Ok(())
    }
}
