//! A store in memory with the semantics of the real ones but no durability, for tests and experiments. It passes the
//! same contract suite.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_core::future::BoxFuture;
use jiff::Timestamp;

use crate::event::{Envelope, Topic};
use crate::id::{MemoryOwner, MessageId, RunId, Seq, SessionKey};
use crate::model::TokenCount;
use crate::store::{
    AuditRow, BudgetScope, DeliveryRow, FactQuery, FactRow, KvNamespace, KvUsage, MessageQuery, MessageRow,
    ModelCallRow, NewFact, NewTurn, PageCursor, ResultPage, RetentionCutoffs, RunRow, RunState, SessionFilter,
    SessionRow, Store, StoreError, StoreWrite, TurnQuery, TurnRow, UnfinishedRun, UsageGroup, UsageGrouping,
    UsageQuery, UsageRow, WriteBatch,
};
use crate::webhook::DeliveryId;

/// Upper bound of every list, whatever limit the caller gives.
const MAX_ITEMS: usize = 1000;
/// Most runs deleted by one call of `prune`; the same for messages.
const MAX_PRUNED_RUNS: usize = 500;

#[derive(Debug, Default)]
pub struct InMemoryStore {
    state: Mutex<StoreTables>,
}

#[derive(Debug, Default)]
struct StoreTables {
    closed: bool,
    /// Sequence number for everything that needs an order of arrival.
    last_number: u64,
    events: HashMap<Topic, Vec<Arc<Envelope>>>,
    runs: HashMap<RunId, StoredRun>,
    open_calls: BTreeMap<(RunId, u32), ModelCallRow>,
    sessions: HashMap<SessionKey, StoredSession>,
    facts: Vec<StoredFact>,
    kv: HashMap<KvNamespace, BTreeMap<Arc<str>, Vec<u8>>>,
    deliveries: HashMap<DeliveryId, DeliveryRow>,
    messages: HashMap<MessageId, MessageRow>,
    usage: Vec<UsageRow>,
    spent: HashMap<String, u64>,
    audit: Vec<AuditRow>,
}

#[derive(Debug)]
struct StoredRun {
    row: RunRow,
    number: u64,
    ended_at: Option<Timestamp>,
    /// Its session was purged while it ran; it is deleted when it ends.
    delete_at_end: bool,
}

#[derive(Debug)]
struct StoredSession {
    number: u64,
    owner: Option<Arc<str>>,
    created_at: Timestamp,
    used_at: Timestamp,
    cleared: bool,
    hidden_turns: u64,
    turns: Vec<TurnRow>,
}

#[derive(Debug)]
struct StoredFact {
    owner: MemoryOwner,
    fact: FactRow,
    embedding: Option<(Arc<str>, Vec<f32>)>,
    superseded: bool,
}

impl InMemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    fn with_tables<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&mut StoreTables) -> Result<T, StoreError>,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        let mut state = lock(&self.state);
        let answer = if state.closed { Err(StoreError::Closed) } else { answer(&mut state) };
        Box::pin(std::future::ready(answer))
    }
}

impl Store for InMemoryStore {
    fn commit(&self, batch: WriteBatch) -> BoxFuture<'_, Result<(), StoreError>> {
        self.with_tables(|state| {
            state
                .check_batch(&batch.writes)
                .map_err(|reason| StoreError::Failed { attempted: "commit a batch", source: reason.into() })?;
            state.apply(batch.writes);
            Ok(())
        })
    }

    fn events(&self, topic: &Topic, from: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>> {
        self.with_tables(|state| {
            let records = state.events.get(topic).map_or(&[][..], Vec::as_slice);
            let first = records.partition_point(|record| record.last_seq() < from);
            Ok(records.iter().skip(first).take(limit.min(MAX_ITEMS)).cloned().collect())
        })
    }

    fn last_seq(&self, topic: &Topic) -> BoxFuture<'_, Result<Seq, StoreError>> {
        self.with_tables(|state| Ok(state.last_seq(topic)))
    }

    fn run(&self, run: RunId) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>> {
        self.with_tables(|state| Ok(state.runs.get(&run).map(|run| run.row.clone())))
    }

    fn latest_run_by_client_id(
        &self,
        principal: &str,
        client_id: &str,
    ) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>> {
        self.with_tables(|state| {
            Ok(state.newest_run(|run| &*run.principal == principal && &*run.client_id == client_id))
        })
    }

    fn latest_run_of_session(&self, session: &SessionKey) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>> {
        self.with_tables(|state| Ok(state.newest_run(|run| run.session == *session)))
    }

    fn unfinished_runs(&self) -> BoxFuture<'_, Result<Vec<UnfinishedRun>, StoreError>> {
        self.with_tables(|state| {
            let mut running: Vec<_> = state.runs.values().filter(|run| run.ended_at.is_none()).collect();
            running.sort_by_key(|run| run.number);
            let unfinished = running.into_iter().map(|run| UnfinishedRun {
                run: run.row.clone(),
                open_calls: state.calls_of(run.row.run).cloned().collect(),
            });
            Ok(unfinished.collect())
        })
    }

    fn session(&self, key: &SessionKey) -> BoxFuture<'_, Result<Option<SessionRow>, StoreError>> {
        self.with_tables(|state| Ok(state.sessions.get(key).map(|session| session.row(key))))
    }

    fn sessions(
        &self,
        filter: SessionFilter,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<SessionRow>, StoreError>> {
        self.with_tables(|state| {
            let before = cursor.map(|cursor| pair::<i128, u64>(&cursor)).transpose()?;
            let position = |session: &StoredSession| (session.used_at.as_nanosecond(), session.number);
            let mut found: Vec<_> = state
                .sessions
                .iter()
                .filter(|(key, session)| !session.cleared && matches_filter(key, session.owner.as_ref(), &filter))
                .filter(|(_, session)| before.is_none_or(|before| position(session) < before))
                .collect();
            found.sort_by_key(|(_, session)| Reverse(position(session)));
            let found = found.into_iter().map(|(key, session)| (position(session), session.row(key)));
            Ok(page(found, limit, |(used_at, number)| format!("{used_at}.{number}")))
        })
    }

    fn count_sessions(&self, excluded_channels: &'static [&'static str]) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.with_tables(|state| {
            let is_counted = |key: &SessionKey| {
                key.conversation_parts().is_some_and(|parts| !excluded_channels.contains(&&*parts.channel))
            };
            let counted = state.sessions.iter().filter(|(key, session)| !session.cleared && is_counted(key));
            Ok(counted.count() as u64)
        })
    }

    fn turns(&self, query: TurnQuery) -> BoxFuture<'_, Result<ResultPage<TurnRow>, StoreError>> {
        self.with_tables(|state| {
            let before = query.before.map(|cursor| number::<u64>(&cursor.0)).transpose()?.unwrap_or(u64::MAX);
            let Some(session) = state.sessions.get(&query.session) else {
                return Ok(ResultPage { items: Vec::new(), next: None });
            };
            let visible = session.visible().iter().rev().filter(|turn| turn.number < before);
            let mut newest =
                page(visible.map(|turn| (turn.number, turn.clone())), query.limit, |number| number.to_string());
            newest.items.reverse();
            Ok(newest)
        })
    }

    fn facts(&self, query: FactQuery) -> BoxFuture<'_, Result<ResultPage<FactRow>, StoreError>> {
        self.with_tables(|state| {
            let cursor = query.cursor.as_ref().map(pair::<u64, usize>).transpose()?;
            let (newest, taken) = cursor.unwrap_or((state.last_number, 0));
            let ranked = state.rank_facts(&query, newest);
            let items: Vec<_> = ranked.iter().skip(taken).take(query.limit.min(MAX_ITEMS)).cloned().collect();
            let taken = taken + items.len();
            let next = (!items.is_empty() && taken < ranked.len()).then(|| PageCursor(format!("{newest}.{taken}")));
            Ok(ResultPage { items, next })
        })
    }

    fn kv_get(&self, namespace: &KvNamespace, key: &str) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        self.with_tables(|state| Ok(state.kv.get(namespace).and_then(|values| values.get(key)).cloned()))
    }

    fn kv_keys(
        &self,
        namespace: &KvNamespace,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        self.with_tables(|state| {
            let keys = state.kv.get(namespace).into_iter().flat_map(BTreeMap::keys);
            let matching = keys.filter(|key| key.starts_with(prefix) && after.is_none_or(|after| &***key > after));
            Ok(matching.take(limit.min(MAX_ITEMS)).cloned().collect())
        })
    }

    fn kv_usage(&self, namespace: &KvNamespace) -> BoxFuture<'_, Result<KvUsage, StoreError>> {
        self.with_tables(|state| {
            let values = state.kv.get(namespace).into_iter().flatten();
            Ok(values.fold(KvUsage::default(), |size, (key, value)| KvUsage {
                keys: size.keys + 1,
                bytes: size.bytes + (key.len() + value.len()) as u64,
            }))
        })
    }

    fn delivery(&self, channel: &str, key: &str) -> BoxFuture<'_, Result<Option<DeliveryRow>, StoreError>> {
        self.with_tables(|state| {
            Ok(state.deliveries.values().find(|row| &*row.channel == channel && &*row.key == key).cloned())
        })
    }

    fn open_deliveries(&self) -> BoxFuture<'_, Result<Vec<DeliveryRow>, StoreError>> {
        self.with_tables(|state| {
            let mut open: Vec<_> = state.deliveries.values().filter(|row| !row.state.is_final()).cloned().collect();
            open.sort_by_key(|row| (row.received_at, row.id));
            Ok(open)
        })
    }

    fn messages(&self, query: MessageQuery) -> BoxFuture<'_, Result<ResultPage<MessageRow>, StoreError>> {
        self.with_tables(|state| {
            let before = query.cursor.as_ref().map(pair::<i128, MessageId>).transpose()?;
            let matching = state.messages.values().filter(|row| query.state.is_none_or(|state| row.state == state));
            let mut found: Vec<_> = matching.map(|row| (sort_key(row), *row)).collect();
            found.retain(|(sort_key, _)| before.is_none_or(|before| *sort_key < before));
            found.sort_by_key(|(sort_key, _)| Reverse(*sort_key));
            Ok(page(found.into_iter(), query.limit, |(submitted_at, message)| format!("{submitted_at}.{message}")))
        })
    }

    fn open_messages(&self) -> BoxFuture<'_, Result<Vec<MessageRow>, StoreError>> {
        self.with_tables(|state| {
            let mut open: Vec<_> = state.messages.values().filter(|row| !row.state.is_final()).copied().collect();
            open.sort_by_key(sort_key);
            Ok(open)
        })
    }

    fn tokens_spent(&self, scopes: Vec<BudgetScope>) -> BoxFuture<'_, Result<Vec<u64>, StoreError>> {
        self.with_tables(|state| {
            Ok(scopes.iter().map(|scope| state.spent.get(&scope.key()).copied().unwrap_or(0)).collect())
        })
    }

    fn usage(&self, query: UsageQuery) -> BoxFuture<'_, Result<ResultPage<UsageGroup>, StoreError>> {
        self.with_tables(|state| {
            let cursor = query.cursor.as_ref().map(pair::<usize, usize>).transpose()?;
            let (rows, taken) = cursor.unwrap_or((state.usage.len(), 0));
            let is_owned = |row: &&UsageRow| match &query.owners {
                Some(owners) => {
                    let owner = state.sessions.get(&row.session).and_then(|session| session.owner.as_ref());
                    owner.is_some_and(|owner| owners.contains(owner))
                }
                None => true,
            };
            let groups = group_usage(state.usage.iter().take(rows).filter(is_owned), &query);
            let items: Vec<_> = groups.iter().skip(taken).take(query.limit.min(MAX_ITEMS)).cloned().collect();
            let taken = taken + items.len();
            let next = (!items.is_empty() && taken < groups.len()).then(|| PageCursor(format!("{rows}.{taken}")));
            Ok(ResultPage { items, next })
        })
    }

    fn audit(
        &self,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<AuditRow>, StoreError>> {
        self.with_tables(|state| {
            let before = cursor.map(|cursor| number::<usize>(&cursor.0)).transpose()?.unwrap_or(usize::MAX);
            let newest_first = state.audit.iter().cloned().enumerate().rev().filter(|(index, _)| *index < before);
            Ok(page(newest_first, limit, |index| index.to_string()))
        })
    }

    fn prune(&self, retention: RetentionCutoffs) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.with_tables(|state| {
            let ended_before = |before: Timestamp| {
                let ended = state.runs.values().filter(move |run| run.ended_at.is_some_and(|at| at < before));
                ended.map(|run| run.row.run).collect::<Vec<_>>()
            };
            let (runs, runs_to_strip) = (ended_before(retention.runs_before), ended_before(retention.events_before));
            for run in runs.iter().take(MAX_PRUNED_RUNS) {
                state.delete_run(*run);
            }
            for run in runs_to_strip {
                state.events.remove(&Topic::Run(run));
            }
            let has_more_messages = state.prune_messages(retention.runs_before);
            state.deliveries.retain(|_, row| !row.state.is_final() || row.changed_at >= retention.runs_before);
            Ok(runs.len() > MAX_PRUNED_RUNS || has_more_messages)
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.with_tables(|state| {
            state.closed = true;
            Ok(())
        })
    }
}

impl StoreTables {
    /// Checks all writes before the first is applied, so that a batch is atomic.
    fn check_batch(&self, writes: &[StoreWrite]) -> Result<(), String> {
        let mut last: HashMap<&Topic, Seq> = HashMap::new();
        let mut running: HashMap<RunId, bool> = HashMap::new();
        let mut open: HashMap<(RunId, u32), bool> = HashMap::new();
        for write in writes {
            match write {
                StoreWrite::Event(record) => {
                    let last = last.entry(&record.topic).or_insert_with(|| self.last_seq(&record.topic));
                    if record.seq != last.next() {
                        return Err(format!("event number {} does not follow {last}", record.seq));
                    }
                    *last = record.last_seq();
                }
                StoreWrite::OpenRun(row) => {
                    if self.runs.contains_key(&row.run) || running.insert(row.run, true).is_some() {
                        return Err(format!("run {} is stored already", row.run));
                    }
                }
                StoreWrite::CloseRun { run, .. } => {
                    let stored = self.runs.get(run).is_some_and(|run| run.ended_at.is_none());
                    if !running.insert(*run, false).unwrap_or(stored) {
                        return Err(format!("run {run} is not running"));
                    }
                }
                StoreWrite::OpenModelCall(call) => {
                    let key = (call.run, call.number);
                    if open.insert(key, true).unwrap_or_else(|| self.open_calls.contains_key(&key)) {
                        return Err(format!("model call {} of run {} is open already", call.number, call.run));
                    }
                }
                StoreWrite::SettleModelCall(usage) => {
                    let key = (usage.run, usage.number);
                    if !open.insert(key, false).unwrap_or_else(|| self.open_calls.contains_key(&key)) {
                        return Err(format!("model call {} of run {} is not open", usage.number, usage.run));
                    }
                }
                StoreWrite::Delivery(row) => {
                    let is_taken = |other: &DeliveryRow| {
                        other.id != row.id && other.channel == row.channel && other.key == row.key
                    };
                    let before = writes
                        .iter()
                        .filter_map(|write| if let StoreWrite::Delivery(other) = write { Some(other) } else { None });
                    if self.deliveries.values().chain(before).any(is_taken) {
                        return Err(format!("a delivery of {} is stored already: {}", row.channel, row.key));
                    }
                }
                StoreWrite::AddTurn(_)
                | StoreWrite::LearnFact(_)
                | StoreWrite::ClearSession { .. }
                | StoreWrite::Audit(_)
                | StoreWrite::Message(_)
                | StoreWrite::PutValue { .. } => {}
            }
        }
        Ok(())
    }

    fn apply(&mut self, writes: Vec<StoreWrite>) {
        let mut runs_to_delete = Vec::new();
        for write in writes {
            match write {
                StoreWrite::Event(record) => self.events.entry(record.topic.clone()).or_default().push(record),
                StoreWrite::OpenRun(row) => self.open_run(row),
                StoreWrite::CloseRun { run, outcome, at } => {
                    if let Some(stored) = self.runs.get_mut(&run) {
                        stored.ended_at = Some(at);
                        stored.row.state = RunState::Ended(outcome);
                        runs_to_delete.extend(stored.delete_at_end.then_some(run));
                    }
                }
                StoreWrite::OpenModelCall(call) => {
                    self.open_calls.insert((call.run, call.number), call);
                }
                StoreWrite::SettleModelCall(usage) => {
                    self.open_calls.remove(&(usage.run, usage.number));
                    for scope in &usage.scopes {
                        let spent = self.spent.entry(scope.key()).or_default();
                        *spent = spent.saturating_add(usage.tokens.total());
                    }
                    self.usage.push(usage);
                }
                StoreWrite::AddTurn(turn) => self.add_turn(turn),
                StoreWrite::LearnFact(fact) => self.add_fact(fact),
                StoreWrite::ClearSession { session, purge: true, .. } => self.purge(&session),
                StoreWrite::ClearSession { session, purge: false, .. } => {
                    if let Some(session) = self.sessions.get_mut(&session) {
                        session.cleared = true;
                        session.hidden_turns = session.turns.len() as u64;
                    }
                }
                StoreWrite::Audit(row) => self.audit.push(row),
                StoreWrite::Message(row) => {
                    let stored = self.messages.entry(row.message).or_insert(row);
                    // The submission time does not change.
                    *stored = MessageRow { submitted_at: stored.submitted_at, ..row };
                }
                StoreWrite::PutValue { namespace, key, value, .. } => self.put_value(namespace, key, value),
                StoreWrite::Delivery(row) => {
                    let stored = self.deliveries.entry(row.id).or_insert_with(|| row.clone());
                    // Channel, key and time of receipt do not change.
                    *stored = DeliveryRow {
                        channel: stored.channel.clone(),
                        key: stored.key.clone(),
                        received_at: stored.received_at,
                        ..row
                    };
                }
            }
        }
        for run in runs_to_delete {
            self.delete_purged_run(run);
        }
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn last_seq(&self, topic: &Topic) -> Seq {
        self.events.get(topic).and_then(|records| records.last()).map_or(Seq(0), |record| record.last_seq())
    }

    fn newest_run(&self, predicate: impl Fn(&RunRow) -> bool) -> Option<RunRow> {
        let matching = self.runs.values().filter(|run| predicate(&run.row));
        matching.max_by_key(|run| run.number).map(|run| run.row.clone())
    }

    fn calls_of(&self, run: RunId) -> impl Iterator<Item = &ModelCallRow> {
        self.open_calls.range((run, 0)..=(run, u32::MAX)).map(|(_, call)| call)
    }

    fn session_used(&mut self, key: &SessionKey, run: RunId, at: Timestamp) -> &mut StoredSession {
        let number = self.next_number();
        let owner = self.runs.get(&run).map(|run| run.row.principal.clone());
        self.sessions.entry(key.clone()).or_insert_with(|| StoredSession {
            number,
            owner,
            created_at: at,
            used_at: at,
            cleared: false,
            hidden_turns: 0,
            turns: Vec::new(),
        })
    }

    fn open_run(&mut self, row: RunRow) {
        let ended_at = match row.state {
            RunState::Running => None,
            RunState::Ended(_) => Some(row.started_at),
        };
        let number = self.next_number();
        let (run, key, at) = (row.run, row.session.clone(), row.started_at);
        self.runs.insert(run, StoredRun { row, number, ended_at, delete_at_end: false });
        let session = self.session_used(&key, run, at);
        session.used_at = at;
        session.cleared = false;
    }

    fn add_turn(&mut self, turn: NewTurn) {
        if self.runs.get(&turn.run).is_some_and(|run| run.delete_at_end) {
            return;
        }
        let session = self.session_used(&turn.session, turn.run, turn.at);
        session.cleared = false;
        let turns = &mut session.turns;
        turns.push(TurnRow { number: turns.len() as u64 + 1, run: turn.run, at: turn.at, messages: turn.messages });
    }

    fn put_value(&mut self, namespace: KvNamespace, key: Arc<str>, value: Option<Vec<u8>>) {
        let values = self.kv.entry(namespace).or_default();
        match value {
            Some(value) => drop(values.insert(key, value)),
            None => drop(values.remove(&key)),
        }
    }

    fn purge(&mut self, session: &SessionKey) {
        self.sessions.remove(session);
        self.kv.remove(&KvNamespace::Session(session.clone()));
        let mut ended = Vec::new();
        for run in self.runs.values_mut().filter(|run| run.row.session == *session) {
            run.delete_at_end = true;
            ended.extend(run.ended_at.map(|_| run.row.run));
        }
        for run in ended {
            self.delete_run(run);
        }
    }

    /// Deletes a run that has ended and whose session was purged while it ran. Values it stored since are deleted too,
    /// unless the session is in use again and they may belong to another run.
    fn delete_purged_run(&mut self, run: RunId) {
        if let Some(stored) = self.runs.get(&run)
            && !self.sessions.contains_key(&stored.row.session)
        {
            self.kv.remove(&KvNamespace::Session(stored.row.session.clone()));
        }
        self.delete_run(run);
    }

    fn delete_run(&mut self, run: RunId) {
        self.runs.remove(&run);
        self.events.remove(&Topic::Run(run));
        self.open_calls.retain(|(of, _), _| *of != run);
    }

    /// Deletes final messages last changed before `before`, with their events; returns `true` if some are left.
    fn prune_messages(&mut self, before: Timestamp) -> bool {
        let is_expired = |row: &&MessageRow| row.state.is_final() && row.changed_at < before;
        let expired: Vec<_> = self.messages.values().filter(is_expired).map(|row| row.message).collect();
        for message in expired.iter().take(MAX_PRUNED_RUNS) {
            self.messages.remove(message);
            self.events.remove(&Topic::Message(*message));
        }
        expired.len() > MAX_PRUNED_RUNS
    }

    fn add_fact(&mut self, new: NewFact) {
        let number = self.next_number();
        let current = self.facts.iter_mut().find(|stored| {
            !stored.superseded
                && stored.owner == new.owner
                && stored.fact.subject == new.subject
                && stored.fact.predicate == new.predicate
        });
        if let Some(current) = current {
            if current.fact.object == new.object {
                return;
            }
            current.superseded = true;
        }
        self.facts.push(StoredFact {
            owner: new.owner,
            fact: FactRow {
                number,
                subject: new.subject,
                predicate: new.predicate,
                object: new.object,
                confidence: new.confidence,
                session: new.session,
                learned_at: new.learned_at,
                score: 0.0,
            },
            embedding: new.embedding,
            superseded: false,
        });
    }

    /// The owner's current facts up to number `newest`: matches by score, then, if requested, the rest by age.
    fn rank_facts(&self, query: &FactQuery, newest: u64) -> Vec<FactRow> {
        let query_words: HashSet<String> = tokenize(&query.text).collect();
        let mut ranked = Vec::new();
        for stored in &self.facts {
            if stored.owner != query.owner || stored.superseded || stored.fact.number > newest {
                continue;
            }
            let FactRow { subject, predicate, object, .. } = &stored.fact;
            let fact_words: Vec<String> = tokenize(&format!("{subject} {predicate} {object}")).collect();
            let is_in_fact = |word: &&String| fact_words.contains(word);
            let found = query_words.iter().filter(is_in_fact).count() as f32 / query_words.len().max(1) as f32;
            let similarity = match (&query.embedding, &stored.embedding) {
                (Some((query_space, left)), Some((fact_space, right))) if query_space == fact_space => {
                    cosine(left, right).max(0.0)
                }
                _ => 0.0,
            };
            ranked.push(FactRow { score: found + similarity, ..stored.fact.clone() });
        }
        ranked.retain(|fact| query.fill_with_recent || fact.score > 0.0);
        ranked.sort_by(|left, right| right.score.total_cmp(&left.score).then(right.number.cmp(&left.number)));
        ranked
    }
}

impl StoredSession {
    fn row(&self, key: &SessionKey) -> SessionRow {
        let turns = self.visible().len() as u64;
        let owner = self.owner.clone();
        SessionRow { key: key.clone(), owner, created_at: self.created_at, used_at: self.used_at, turns }
    }

    fn visible(&self) -> &[TurnRow] {
        let hidden = usize::try_from(self.hidden_turns).unwrap_or(usize::MAX);
        self.turns.get(hidden..).unwrap_or_default()
    }
}

/// Sort key of the message in lists.
fn sort_key(row: &MessageRow) -> (i128, MessageId) {
    (row.submitted_at.as_nanosecond(), row.message)
}

fn matches_filter(key: &SessionKey, owner: Option<&Arc<str>>, filter: &SessionFilter) -> bool {
    if filter.owners.as_ref().is_some_and(|owners| !owner.is_some_and(|owner| owners.contains(owner))) {
        return false;
    }
    if filter.channel.is_none() && filter.account.is_none() {
        return true;
    }
    key.conversation_parts().is_some_and(|parts| {
        filter.channel.as_ref().is_none_or(|channel| parts.channel == *channel)
            && filter.account.as_ref().is_none_or(|account| parts.account == *account)
    })
}

fn group_usage<'a>(rows: impl Iterator<Item = &'a UsageRow>, query: &UsageQuery) -> Vec<UsageGroup> {
    let mut groups: BTreeMap<String, UsageGroup> = BTreeMap::new();
    for row in rows.filter(|row| query.since.is_none_or(|since| row.at >= since)) {
        let key = match query.group_by {
            UsageGrouping::Day => row.at.strftime("%Y-%m-%d").to_string(),
            UsageGrouping::Model => row.model.to_string(),
            UsageGrouping::Provider => row.provider.to_string(),
            UsageGrouping::Agent => row.agent.to_string(),
            UsageGrouping::Session => row.session.to_string(),
        };
        let group = groups.entry(key.clone()).or_insert_with(|| UsageGroup {
            key,
            calls: 0,
            tokens: TokenCount::default(),
            cost_nanousd: 0,
            estimated_calls: 0,
        });
        group.calls += 1;
        group.tokens.input = group.tokens.input.saturating_add(row.tokens.input);
        group.tokens.output = group.tokens.output.saturating_add(row.tokens.output);
        group.cost_nanousd = group.cost_nanousd.saturating_add(row.cost_nanousd);
        group.estimated_calls += u64::from(row.estimated);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    match query.group_by {
        UsageGrouping::Day => groups.reverse(),
        UsageGrouping::Model | UsageGrouping::Provider | UsageGrouping::Agent | UsageGrouping::Session => {
            groups.sort_by_key(|group| Reverse((group.cost_nanousd, group.tokens.total())));
        }
    }
    groups
}

/// The first `limit` items; if there are more, the position of the last item returned is the cursor.
fn page<P, T>(items: impl Iterator<Item = (P, T)>, limit: usize, cursor: impl Fn(P) -> String) -> ResultPage<T> {
    let mut items = items.peekable();
    let mut taken = Vec::new();
    let mut last = None;
    while taken.len() < limit.min(MAX_ITEMS) {
        let Some((position, item)) = items.next() else { break };
        taken.push(item);
        last = Some(position);
    }
    let next = items.peek().and(last).map(|position| PageCursor(cursor(position)));
    ResultPage { items: taken, next }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::BadCursor)
}

fn pair<L: std::str::FromStr, R: std::str::FromStr>(cursor: &PageCursor) -> Result<(L, R), StoreError> {
    let (left, right) = cursor.0.split_once('.').ok_or(StoreError::BadCursor)?;
    Ok((number(left)?, number(right)?))
}

fn tokenize(text: &str) -> impl Iterator<Item = String> {
    text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let length = (dot(left, left) * dot(right, right)).sqrt();
    if left.len() == right.len() && length > 0.0 { dot(left, right) / length } else { 0.0 }
}

/// A panic while the lock is held cannot leave the data inconsistent, so a poisoned lock is used.
fn lock(state: &Mutex<StoreTables>) -> MutexGuard<'_, StoreTables> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
