//! The tables of the store in memory: checks and applies writes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::conversation::title_of;
use crate::event::fold::fold;
use crate::event::{Envelope, InputAnswer, Topic};
use crate::id::{InputId, MemoryOwner, MessageId, RunId, Seq, SessionKey, TenureId};
use crate::store::{
    AuditRow, DeliveryRow, FactQuery, FactRow, InputRow, KvEntry, KvNamespace, MessageRow, ModelCallRow, NewFact,
    NewTurn, NodeRole, RunRow, RunState, SessionRow, StoreError, StoreWrite, Superseded, TurnRow, UnfinishedRun,
    UsageRow,
};
use crate::store::{RunModel, RunUsage};
use crate::webhook::DeliveryId;

/// Most runs deleted by one call of `prune`; the same for messages.
pub(super) const MAX_PRUNED_RUNS: usize = 500;

#[derive(Debug, Default)]
pub(super) struct StoreTables {
    pub(super) closed: bool,
    pub(super) live_tenures: HashSet<TenureId>,
    /// Set by a test only.
    pub(super) ignores_fences: bool,
    pub(super) tenures_begun: u128,
    /// Who works on unfinished runs and open deliveries, and who has each role.
    pub(super) run_owners: HashMap<RunId, TenureId>,
    pub(super) delivery_owners: HashMap<DeliveryId, TenureId>,
    pub(super) roles: HashMap<NodeRole, TenureId>,
    /// Sequence number for everything that needs an order of arrival.
    pub(super) last_number: u64,
    pub(super) events: HashMap<Topic, Vec<Arc<Envelope>>>,
    pub(super) runs: HashMap<RunId, StoredRun>,
    /// By the order in which they were asked.
    pub(super) inputs: BTreeMap<u64, InputRow>,
    pub(super) open_calls: BTreeMap<(RunId, u32), ModelCallRow>,
    pub(super) sessions: HashMap<SessionKey, StoredSession>,
    pub(super) facts: Vec<StoredFact>,
    pub(super) kv: HashMap<KvNamespace, BTreeMap<Arc<str>, KvEntry>>,
    pub(super) deliveries: HashMap<DeliveryId, DeliveryRow>,
    pub(super) messages: HashMap<MessageId, MessageRow>,
    pub(super) usage: Vec<UsageRow>,
    pub(super) spent: HashMap<String, u64>,
    pub(super) audit: Vec<AuditRow>,
}

#[derive(Debug)]
pub(super) struct StoredRun {
    pub(super) row: RunRow,
    pub(super) number: u64,
    pub(super) ended_at: Option<Timestamp>,
    /// Its session was purged while it ran; it is deleted when it ends.
    pub(super) delete_at_end: bool,
    pub(super) is_folded: bool,
    /// Of its settled model calls.
    pub(super) usage: RunUsage,
    pub(super) model: Option<RunModel>,
}

#[derive(Debug)]
pub(super) struct StoredSession {
    pub(super) number: u64,
    pub(super) owner: Option<Arc<str>>,
    pub(super) created_at: Timestamp,
    pub(super) used_at: Timestamp,
    pub(super) cleared: bool,
    pub(super) hidden_turns: u64,
    pub(super) turns: Vec<TurnRow>,
    pub(super) title: Option<Arc<str>>,
    pub(super) is_hidden: bool,
}

#[derive(Debug)]
pub(super) struct StoredFact {
    pub(super) owner: MemoryOwner,
    pub(super) fact: FactRow,
    pub(super) embedding: Option<(Arc<str>, Vec<f32>)>,
    pub(super) run: Option<RunId>,
    pub(super) superseded: Option<Superseded>,
}

impl StoreTables {
    pub(super) fn check_tenure(&self, tenure: TenureId) -> Result<(), StoreError> {
        let may_write = self.live_tenures.contains(&tenure) || self.ignores_fences;
        if may_write { Ok(()) } else { Err(StoreError::Fenced) }
    }

    pub(super) fn check_conditions(&self, writes: &[StoreWrite]) -> Result<(), StoreError> {
        let is_met = |write: &StoreWrite| {
            if let StoreWrite::PutValue { namespace, key, expected, .. } = write {
                let stored = self.kv.get(namespace).and_then(|values| values.get(key));
                return expected.matches(stored.map(|entry| entry.version));
            }
            if let StoreWrite::RequestOfRun { run, .. } = write {
                return self.runs.get(run).is_some_and(|run| run.ended_at.is_none());
            }
            if let StoreWrite::AnswerInput { input, answer, at, .. } = write {
                // Only the run itself notes that the time is over.
                let is_late = |row: &InputRow| *answer != InputAnswer::Expired && *at >= row.request.expires_at;
                return self.find_input(*input).is_some_and(|row| row.answer.is_none() && !is_late(row));
            }
            true
        };
        if writes.iter().all(is_met) { Ok(()) } else { Err(StoreError::Conflict) }
    }

    pub(super) fn find_input(&self, input: InputId) -> Option<&InputRow> {
        self.inputs.values().find(|row| row.request.input == input)
    }

    /// Whether `tenure` may take over work of that owner.
    pub(super) fn is_adoptable(&self, owner: Option<&TenureId>, tenure: TenureId, is_held: bool) -> bool {
        match owner {
            Some(owner) if *owner == tenure => !is_held,
            Some(owner) => !self.live_tenures.contains(owner),
            None => true,
        }
    }

    /// Oldest first.
    pub(super) fn unfinished_runs(&self) -> Vec<UnfinishedRun> {
        let mut running: Vec<_> = self.runs.values().filter(|run| run.ended_at.is_none()).collect();
        running.sort_by_key(|run| run.number);
        let unfinished = running.into_iter().map(|run| UnfinishedRun {
            run: run.row.clone(),
            open_calls: self.calls_of(run.row.run).cloned().collect(),
        });
        unfinished.collect()
    }

    /// Oldest first.
    pub(super) fn open_deliveries(&self) -> Vec<DeliveryRow> {
        let mut open: Vec<_> = self.deliveries.values().filter(|row| !row.state.is_final()).cloned().collect();
        open.sort_by_key(|row| (row.received_at, row.id));
        open
    }

    /// Checks all writes before the first is applied, so that a batch is atomic.
    pub(super) fn check_batch(&self, writes: &[StoreWrite]) -> Result<(), String> {
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
                // Checked before, as conflicts.
                StoreWrite::RequestOfRun { .. } | StoreWrite::AnswerInput { .. } => {}
                StoreWrite::OpenInput(_) | StoreWrite::CloseInput(_) => {}
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
                | StoreWrite::ForgetFact { .. }
                | StoreWrite::RenameSession { .. }
                | StoreWrite::HideSession { .. }
                | StoreWrite::ForkSession(_)
                | StoreWrite::Audit(_)
                | StoreWrite::Message(_)
                | StoreWrite::PutValue { .. } => {}
            }
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, writes: Vec<StoreWrite>, tenure: TenureId) {
        let mut runs_to_delete = Vec::new();
        for write in writes {
            match write {
                StoreWrite::Event(record) => self.events.entry(record.topic.clone()).or_default().push(record),
                StoreWrite::OpenRun(row) => {
                    self.run_owners.insert(row.run, tenure);
                    self.open_run(row);
                }
                StoreWrite::CloseRun { run, outcome, at } => {
                    if let Some(stored) = self.runs.get_mut(&run) {
                        self.run_owners.remove(&run);
                        self.inputs.retain(|_, row| row.run != run);
                        stored.ended_at = Some(at);
                        stored.row.state = RunState::Ended(outcome);
                        runs_to_delete.extend(stored.delete_at_end.then_some(run));
                    }
                }
                StoreWrite::OpenInput(row) => {
                    let number = self.next_number();
                    self.inputs.insert(number, row);
                }
                StoreWrite::AnswerInput { input, answer, by, .. } => {
                    let open = self.inputs.values_mut().find(|row| row.request.input == input);
                    if let Some(row) = open {
                        row.answer = Some((answer, by));
                    }
                }
                StoreWrite::CloseInput(input) => self.inputs.retain(|_, row| row.request.input != input),
                StoreWrite::RequestOfRun { run, request } => {
                    if let Some(stored) = self.runs.get_mut(&run) {
                        stored.row.requests.add(request);
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
                    self.count_usage(&usage);
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
                StoreWrite::ForgetFact { owner, fact } => self.forget_fact(&owner, fact),
                StoreWrite::RenameSession { session, title } => {
                    if let Some(session) = self.sessions.get_mut(&session) {
                        session.title = Some(title);
                    }
                }
                StoreWrite::HideSession { session, hidden } => {
                    if let Some(session) = self.sessions.get_mut(&session) {
                        session.is_hidden = hidden;
                    }
                }
                StoreWrite::ForkSession(fork) => self.fork_session(fork),
                StoreWrite::Audit(row) => self.audit.push(row),
                StoreWrite::Message(row) => {
                    let stored = self.messages.entry(row.message).or_insert(row);
                    // The submission time does not change.
                    *stored = MessageRow { submitted_at: stored.submitted_at, ..row };
                }
                StoreWrite::PutValue { namespace, key, value, version, .. } => {
                    self.put_value(namespace, key, value, version);
                }
                StoreWrite::Delivery(row) => {
                    match row.state.is_final() {
                        true => drop(self.delivery_owners.remove(&row.id)),
                        false => drop(self.delivery_owners.insert(row.id, tenure)),
                    }
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

    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn last_seq(&self, topic: &Topic) -> Seq {
        self.events.get(topic).and_then(|records| records.last()).map_or(Seq(0), |record| record.last_seq())
    }

    pub(super) fn newest_run(&self, predicate: impl Fn(&RunRow) -> bool) -> Option<RunRow> {
        let matching = self.runs.values().filter(|run| predicate(&run.row));
        matching.max_by_key(|run| run.number).map(|run| run.row.clone())
    }

    pub(super) fn calls_of(&self, run: RunId) -> impl Iterator<Item = &ModelCallRow> {
        self.open_calls.range((run, 0)..=(run, u32::MAX)).map(|(_, call)| call)
    }

    pub(super) fn session_used(&mut self, key: &SessionKey, run: RunId, at: Timestamp) -> &mut StoredSession {
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
            title: None,
            is_hidden: false,
        })
    }

    pub(super) fn open_run(&mut self, row: RunRow) {
        let ended_at = match row.state {
            RunState::Running => None,
            RunState::Ended(_) => Some(row.started_at),
        };
        let number = self.next_number();
        let (run, key, at) = (row.run, row.session.clone(), row.started_at);
        let title = title_of(&row.input);
        self.runs.insert(
            run,
            StoredRun {
                row,
                number,
                ended_at,
                delete_at_end: false,
                is_folded: false,
                usage: RunUsage::default(),
                model: None,
            },
        );
        let session = self.session_used(&key, run, at);
        session.used_at = at;
        if session.cleared || session.title.is_none() {
            session.title = title;
        }
        session.cleared = false;
    }

    pub(super) fn add_turn(&mut self, turn: NewTurn) {
        if self.runs.get(&turn.run).is_some_and(|run| run.delete_at_end) {
            return;
        }
        let session = self.session_used(&turn.session, turn.run, turn.at);
        session.cleared = false;
        let turns = &mut session.turns;
        turns.push(TurnRow { number: turns.len() as u64 + 1, run: turn.run, at: turn.at, messages: turn.messages });
    }

    pub(super) fn put_value(
        &mut self,
        namespace: KvNamespace,
        key: Arc<str>,
        value: Option<Vec<u8>>,
        version: Option<u64>,
    ) {
        let version = version.unwrap_or_else(|| self.next_number());
        let values = self.kv.entry(namespace).or_default();
        match value {
            Some(value) => drop(values.insert(key, KvEntry { version, value })),
            None => drop(values.remove(&key)),
        }
    }

    pub(super) fn purge(&mut self, session: &SessionKey) {
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
    pub(super) fn delete_purged_run(&mut self, run: RunId) {
        if let Some(stored) = self.runs.get(&run)
            && !self.sessions.contains_key(&stored.row.session)
        {
            self.kv.remove(&KvNamespace::Session(stored.row.session.clone()));
        }
        self.delete_run(run);
    }

    pub(super) fn delete_run(&mut self, run: RunId) {
        self.runs.remove(&run);
        self.events.remove(&Topic::Run(run));
        self.open_calls.retain(|(of, _), _| *of != run);
        self.inputs.retain(|_, row| row.run != run);
    }

    /// Folds the events of runs that ended before `before`; returns `true` if some are left.
    pub(super) fn fold_runs(&mut self, before: Timestamp) -> bool {
        let is_due = |run: &&mut StoredRun| !run.is_folded && run.ended_at.is_some_and(|at| at < before);
        let mut due = self.runs.values_mut().filter(is_due);
        for run in due.by_ref().take(MAX_PRUNED_RUNS) {
            run.is_folded = true;
            if let Some(records) = self.events.get_mut(&Topic::Run(run.row.run)) {
                *records = fold(std::mem::take(records));
            }
        }
        due.next().is_some()
    }

    /// Deletes final messages last changed before `before`, with their events; returns `true` if some are left.
    pub(super) fn prune_messages(&mut self, before: Timestamp) -> bool {
        let is_expired = |row: &&MessageRow| row.state.is_final() && row.changed_at < before;
        let expired: Vec<_> = self.messages.values().filter(is_expired).map(|row| row.message).collect();
        for message in expired.iter().take(MAX_PRUNED_RUNS) {
            self.messages.remove(message);
            self.events.remove(&Topic::Message(*message));
        }
        expired.len() > MAX_PRUNED_RUNS
    }

    pub(super) fn add_fact(&mut self, new: NewFact) {
        let number = self.next_number();
        let current = self.facts.iter_mut().find(|stored| {
            stored.superseded.is_none()
                && stored.owner == new.owner
                && stored.fact.subject == new.subject
                && stored.fact.predicate == new.predicate
        });
        if let Some(current) = current {
            if current.fact.object == new.object {
                return;
            }
            current.superseded = Some(Superseded { at: new.learned_at, by: Some(number) });
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
            run: new.run,
            superseded: None,
        });
    }

    /// The owner's current facts up to number `newest`: matches by score, then, if requested, the rest by age.
    pub(super) fn rank_facts(&self, query: &FactQuery, newest: u64) -> Vec<FactRow> {
        let query_words: HashSet<String> = tokenize(&query.text).collect();
        let mut ranked = Vec::new();
        for stored in &self.facts {
            if stored.owner != query.owner || stored.superseded.is_some() || stored.fact.number > newest {
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
    pub(super) fn row(&self, key: &SessionKey) -> SessionRow {
        let turns = self.visible().len() as u64;
        let owner = self.owner.clone();
        SessionRow {
            key: key.clone(),
            owner,
            created_at: self.created_at,
            used_at: self.used_at,
            turns,
            title: self.title.clone(),
            is_hidden: self.is_hidden,
        }
    }

    pub(super) fn visible(&self) -> &[TurnRow] {
        let hidden = usize::try_from(self.hidden_turns).unwrap_or(usize::MAX);
        self.turns.get(hidden..).unwrap_or_default()
    }
}

fn tokenize(text: &str) -> impl Iterator<Item = String> {
    text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let length = (dot(left, left) * dot(right, right)).sqrt();
    if left.len() == right.len() && length > 0.0 { dot(left, right) / length } else { 0.0 }
}
