//! A store in memory with the semantics of the real ones but no durability, for tests and experiments. It passes the
//! same contract suite. Several handles can share the data, each with a tenure of its own, as the processes of a
//! cluster share a database.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_core::future::BoxFuture;
use jiff::Timestamp;
use uuid::Uuid;

use crate::event::{Envelope, Topic};
use crate::id::{InputId, MessageId, RunId, Seq, SessionKey, TenureId};
use crate::model::TokenCount;
use crate::store::{AuditQuery, DeliveryQuery};
use crate::store::{
    AuditRow, BudgetScope, DeliveryRow, EarlierDelivery, FORGOTTEN, FactQuery, FactRow, InputRow, KvEntry, KvNamespace,
    KvUsage, MessageQuery, MessageRow, NodeRole, PageCursor, ResultPage, RetentionCutoffs, RunRow, SessionFilter,
    SessionRow, Store, StoreError, StoreWrite, TakenDelivery, TurnQuery, TurnRow, UnfinishedRun, UsageGroup,
    UsageGrouping, UsageQuery, UsageRow, WriteBatch,
};
use crate::store::{ListedRun, RunQuery};
use crate::webhook::DeliveryId;

/// Upper bound of every list, whatever limit the caller gives.
const MAX_ITEMS: usize = 1000;

mod accounts;
mod run_list;
mod tables;

use tables::{MAX_PRUNED_RUNS, StoreTables, StoredSession};

#[derive(Debug)]
pub struct InMemoryStore {
    state: Arc<Mutex<StoreTables>>,
    tenure: TenureId,
}

impl Default for InMemoryStore {
    fn default() -> Self {
        let (mut state, tenure) = (StoreTables::default(), first_tenure());
        state.live_tenures.insert(tenure);
        Self { state: Arc::new(Mutex::new(state)), tenure }
    }
}

impl InMemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Another process that uses the same data, in a tenure of its own.
    #[must_use]
    pub fn join(&self) -> Self {
        let mut state = lock(&self.state);
        state.tenures_begun += 1;
        let tenure = TenureId(Uuid::from_u128(first_tenure().0.as_u128() + state.tenures_begun));
        state.live_tenures.insert(tenure);
        Self { state: self.state.clone(), tenure }
    }

    /// Ends a tenure: its process can commit nothing any more, and others take over its work.
    pub fn fence(&self, tenure: TenureId) {
        lock(&self.state).live_tenures.remove(&tenure);
    }

    /// Without the check a fenced process can still write: for a test that proves that the check is needed.
    #[cfg(test)]
    pub(crate) fn check_fences(&self, checks: bool) {
        lock(&self.state).ignores_fences = !checks;
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
        let tenure = batch.tenure.unwrap_or(self.tenure);
        self.with_tables(|state| {
            state.check_tenure(tenure)?;
            state.check_conditions(&batch.writes)?;
            state
                .check_batch(&batch.writes)
                .map_err(|reason| StoreError::Failed { attempted: "commit a batch", source: reason.into() })?;
            state.apply(batch.writes, tenure);
            Ok(())
        })
    }

    fn tenure(&self) -> TenureId {
        self.tenure
    }

    fn adopt_runs(&self, held: HashSet<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<UnfinishedRun>, StoreError>> {
        let tenure = self.tenure;
        self.with_tables(move |state| {
            state.check_tenure(tenure)?;
            let unfinished = state.unfinished_runs().into_iter();
            let is_free = |run: &RunId| state.is_adoptable(state.run_owners.get(run), tenure, held.contains(run));
            let adopted: Vec<_> = unfinished.filter(|unfinished| is_free(&unfinished.run.run)).take(limit).collect();
            state.run_owners.extend(adopted.iter().map(|unfinished| (unfinished.run.run, tenure)));
            Ok(adopted)
        })
    }

    fn adopt_deliveries(
        &self,
        held: HashSet<DeliveryId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DeliveryRow>, StoreError>> {
        let tenure = self.tenure;
        self.with_tables(move |state| {
            state.check_tenure(tenure)?;
            let open = state.open_deliveries().into_iter();
            let is_free =
                |id: &DeliveryId| state.is_adoptable(state.delivery_owners.get(id), tenure, held.contains(id));
            let adopted: Vec<_> = open.filter(|row| is_free(&row.id)).take(limit).collect();
            state.delivery_owners.extend(adopted.iter().map(|row| (row.id, tenure)));
            Ok(adopted)
        })
    }

    fn claim_role(&self, role: NodeRole) -> BoxFuture<'_, Result<bool, StoreError>> {
        let tenure = self.tenure;
        self.with_tables(move |state| {
            state.check_tenure(tenure)?;
            let is_free = state.roles.get(&role).is_none_or(|owner| !state.live_tenures.contains(owner));
            if is_free {
                state.roles.insert(role, tenure);
            }
            Ok(state.roles.get(&role) == Some(&tenure))
        })
    }

    fn take_delivery(
        &self,
        row: DeliveryRow,
        earlier: EarlierDelivery,
    ) -> BoxFuture<'_, Result<TakenDelivery, StoreError>> {
        let tenure = self.tenure;
        self.with_tables(move |state| {
            state.check_tenure(tenure)?;
            let found = |key: &str| {
                state.deliveries.values().find(|stored| stored.channel == row.channel && &*stored.key == key)
            };
            let is_recent = |stored: &&DeliveryRow| earlier.not_before.is_none_or(|moment| stored.received_at > moment);
            let others = || earlier.keys.iter().find_map(|key| found(key).filter(is_recent));
            if let Some(stored) = found(&row.key).or_else(others) {
                return Ok(TakenDelivery::Earlier(stored.clone()));
            }
            state.apply(vec![StoreWrite::Delivery(row)], tenure);
            Ok(TakenDelivery::Stored)
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

    fn runs(&self, query: RunQuery) -> BoxFuture<'_, Result<ResultPage<ListedRun>, StoreError>> {
        self.with_tables(|state| {
            let before = query.cursor.as_ref().map(|cursor| number::<u64>(&cursor.0)).transpose()?.unwrap_or(u64::MAX);
            let listed = state.list_runs(&query.filter, before);
            Ok(page(listed.into_iter(), query.limit, |number| number.to_string()))
        })
    }

    fn unfinished_runs(&self) -> BoxFuture<'_, Result<Vec<UnfinishedRun>, StoreError>> {
        self.with_tables(|state| Ok(state.unfinished_runs()))
    }

    fn inputs(&self, run: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<InputRow>, StoreError>> {
        self.with_tables(|state| {
            let rows = state.inputs.values().filter(|row| run.is_none_or(|run| row.run == run));
            Ok(rows.take(limit.min(MAX_ITEMS)).cloned().collect())
        })
    }

    fn input(&self, input: InputId) -> BoxFuture<'_, Result<Option<InputRow>, StoreError>> {
        self.with_tables(|state| Ok(state.find_input(input).cloned()))
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
                .filter(|(_, session)| filter.hidden.admits(session.is_hidden))
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

    fn kv_entry(&self, namespace: &KvNamespace, key: &str) -> BoxFuture<'_, Result<Option<KvEntry>, StoreError>> {
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
            Ok(values.fold(KvUsage::default(), |size, (key, entry)| KvUsage {
                keys: size.keys + 1,
                bytes: size.bytes + (key.len() + entry.value.len()) as u64,
            }))
        })
    }

    fn delivery(&self, channel: &str, key: &str) -> BoxFuture<'_, Result<Option<DeliveryRow>, StoreError>> {
        self.with_tables(|state| {
            Ok(state.deliveries.values().find(|row| &*row.channel == channel && &*row.key == key).cloned())
        })
    }

    fn deliveries(&self, query: DeliveryQuery) -> BoxFuture<'_, Result<ResultPage<DeliveryRow>, StoreError>> {
        self.with_tables(|state| {
            let before = query.cursor.as_ref().map(pair::<i128, Uuid>).transpose()?;
            let position = |row: &DeliveryRow| (row.received_at.as_nanosecond(), row.id.0);
            let mut found: Vec<_> = state.deliveries.values().collect();
            found.retain(|row| {
                query.channel.as_ref().is_none_or(|channel| row.channel == *channel)
                    && query.state.is_none_or(|state| row.state == state)
                    && before.is_none_or(|before| position(row) < before)
            });
            found.sort_by_key(|row| Reverse(position(row)));
            let found = found.into_iter().map(|row| (position(row), row.clone()));
            Ok(page(found, query.limit, |(at, id)| format!("{at}.{id}")))
        })
    }

    fn open_deliveries(&self) -> BoxFuture<'_, Result<Vec<DeliveryRow>, StoreError>> {
        self.with_tables(|state| Ok(state.open_deliveries()))
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

    fn read_audit(&self, query: AuditQuery) -> BoxFuture<'_, Result<ResultPage<AuditRow>, StoreError>> {
        self.with_tables(|state| {
            let before = query.cursor.as_ref().map(pair::<i128, usize>).transpose()?;
            let position = |(index, row): &(usize, &AuditRow)| (row.at.as_nanosecond(), *index);
            let mut found: Vec<_> =
                state.audit.iter().enumerate().filter(|(_, row)| query.filter.matches(row)).collect();
            found.retain(|row| before.is_none_or(|before| position(row) < before));
            found.sort_by_key(|row| Reverse(position(row)));
            let found = found.into_iter().map(|row| (position(&row), row.1.clone()));
            Ok(page(found, query.limit, |(at, index)| format!("{at}.{index}")))
        })
    }

    fn prune(&self, retention: RetentionCutoffs) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.with_tables(|state| {
            let ended_before = |before: Timestamp| {
                let ended = state.runs.values().filter(move |run| run.ended_at.is_some_and(|at| at < before));
                ended.map(|run| run.row.run).collect::<Vec<_>>()
            };
            let runs = ended_before(retention.runs_before);
            for run in runs.iter().take(MAX_PRUNED_RUNS) {
                state.delete_run(*run);
            }
            let has_more_to_fold = state.fold_runs(retention.events_before);
            let has_more_messages = state.prune_messages(retention.runs_before);
            state.deliveries.retain(|_, row| !row.state.is_final() || row.changed_at >= retention.runs_before);
            Ok(runs.len() > MAX_PRUNED_RUNS || has_more_messages || has_more_to_fold)
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.with_tables(|state| {
            state.closed = true;
            Ok(())
        })
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
    let mut groups: BTreeMap<(String, Option<String>), UsageGroup> = BTreeMap::new();
    for row in rows.filter(|row| query.since.is_none_or(|since| row.at >= since)) {
        let key = usage_key(row, query.group_by);
        let then = query.then_by.map(|then_by| usage_key(row, then_by));
        let group = groups.entry((key.clone(), then.clone())).or_insert_with(|| UsageGroup {
            key,
            then,
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
    groups.sort_by_key(|group| Reverse((group.cost_nanousd, group.tokens.total())));
    if query.group_by == UsageGrouping::Day {
        groups.sort_by(|left, right| right.key.cmp(&left.key));
    } else if query.then_by == Some(UsageGrouping::Day) {
        groups.sort_by(|left, right| right.then.cmp(&left.then));
    }
    groups
}

fn usage_key(row: &UsageRow, grouping: UsageGrouping) -> String {
    match grouping {
        UsageGrouping::Day => row.at.strftime("%Y-%m-%d").to_string(),
        UsageGrouping::Model => row.model.to_string(),
        UsageGrouping::Provider => row.provider.to_string(),
        UsageGrouping::Agent => row.agent.to_string(),
        UsageGrouping::Session if accounts::is_forgotten(&row.session) => FORGOTTEN.to_owned(),
        UsageGrouping::Session => row.session.to_string(),
    }
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

fn first_tenure() -> TenureId {
    TenureId(Uuid::from_u128(1 << 64))
}

/// A panic while the lock is held cannot leave the data inconsistent, so a poisoned lock is used.
fn lock(state: &Mutex<StoreTables>) -> MutexGuard<'_, StoreTables> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
