//! A store with faults on demand, for this crate's tests: commits that fail, block or are delayed.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_core::future::BoxFuture;
use tokio::sync::Semaphore;

use crate::event::{Envelope, Event, Topic};
use crate::id::{InputId, RunId, Seq, SessionKey, TenureId};
use crate::in_memory::InMemoryStore;
use crate::store::{AuditQuery, DeliveryQuery};
use crate::store::{
    AuditRow, BudgetScope, DeliveryRow, EarlierDelivery, FactQuery, FactRow, InputRow, KvEntry, KvNamespace, KvUsage,
    MessageQuery, MessageRow, NodeRole, PageCursor, ResultPage, RetentionCutoffs, RunRow, SessionFilter, SessionRow,
    Store, StoreError, StoreWrite, TakenDelivery, TurnQuery, TurnRow, UnfinishedRun, UsageGroup, UsageQuery,
    WriteBatch,
};
use crate::store::{ListedRun, RunQuery};
use crate::webhook::DeliveryId;

/// Selects the batches that fail.
pub(crate) type FailurePredicate = fn(&WriteBatch) -> bool;

#[derive(Debug, Default)]
pub(crate) struct FaultyStore {
    pub(crate) inner: InMemoryStore,
    fails: Mutex<Option<FailurePredicate>>,
    gate: Mutex<Option<Arc<Semaphore>>>,
    /// How often each call yields before it completes, as a store on disk would.
    delay: usize,
    /// Number of reads of events so far.
    replays: AtomicUsize,
    /// Number of reads of events that fail before reads succeed again.
    failing_reads: AtomicUsize,
    /// Number of commits that succeed before all fail.
    commits_left: Mutex<Option<usize>>,
    /// All committed batches, in order.
    journal: Mutex<Vec<WriteBatch>>,
    /// From this number on the topic's records are corrupt.
    corrupt_from: Mutex<Option<(Topic, Seq)>>,
}

impl FaultyStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    pub(crate) fn slow(delay: usize) -> Arc<Self> {
        Arc::new(Self { delay, ..Self::default() })
    }

    /// Another process on the same data.
    pub(crate) fn joining(other: &Self, delay: usize) -> Arc<Self> {
        Arc::new(Self { inner: other.inner.join(), delay, ..Self::default() })
    }

    /// From now on, batches for which `fails` returns true fail as a whole.
    pub(crate) fn fail(&self, fails: FailurePredicate) {
        *self.fails.lock().unwrap() = Some(fails);
    }

    /// The next `commits` commits succeed, then all fail.
    pub(crate) fn fail_after(&self, commits: usize) {
        *self.commits_left.lock().unwrap() = Some(commits);
    }

    pub(crate) fn stop_failing(&self) {
        *self.fails.lock().unwrap() = None;
        *self.commits_left.lock().unwrap() = None;
    }

    /// From now on every commit waits for a permit of the returned semaphore.
    pub(crate) fn block_commits(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.gate.lock().unwrap() = Some(gate.clone());
        gate
    }

    /// All batches so far: the state left by a process that died in between is a prefix of them.
    pub(crate) fn journal(&self) -> Vec<WriteBatch> {
        self.journal.lock().unwrap().clone()
    }

    /// Makes the topic's records unreadable from that number on.
    pub(crate) fn corrupt(&self, topic: Topic, from: Seq) {
        *self.corrupt_from.lock().unwrap() = Some((topic, from));
    }

    /// Makes the next `reads` reads of events fail.
    pub(crate) fn fail_reads(&self, reads: usize) {
        self.failing_reads.store(reads, Ordering::SeqCst);
    }

    pub(crate) fn replays(&self) -> usize {
        self.replays.load(Ordering::SeqCst)
    }

    /// Waits and fails as told.
    async fn before_commit(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        let gate = self.gate.lock().unwrap().clone();
        if let Some(gate) = gate
            && let Ok(permit) = gate.acquire().await
        {
            permit.forget();
        }
        self.simulate_latency().await;
        let fails = *self.fails.lock().unwrap();
        let is_exhausted = match &mut *self.commits_left.lock().unwrap() {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        if is_exhausted || fails.is_some_and(|fails| fails(batch)) {
            return Err(StoreError::Failed { attempted: "commit a batch", source: "the disk is gone".into() });
        }
        Ok(())
    }

    async fn simulate_latency(&self) {
        for _ in 0..self.delay {
            tokio::task::yield_now().await;
        }
    }
}

/// Does the batch contain a matching event?
pub(crate) fn contains_event(batch: &WriteBatch, predicate: fn(&Event) -> bool) -> bool {
    batch.writes.iter().any(|write| matches!(write, StoreWrite::Event(record) if predicate(&record.event)))
}

mod accounts;

impl Store for FaultyStore {
    fn commit(&self, batch: WriteBatch) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.before_commit(&batch).await?;
            self.inner.commit(batch.clone()).await?;
            self.journal.lock().unwrap().push(batch);
            Ok(())
        })
    }

    fn events(&self, topic: &Topic, from: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>> {
        self.replays.fetch_add(1, Ordering::SeqCst);
        let topic = topic.clone();
        Box::pin(async move {
            self.simulate_latency().await;
            let fails = |left: usize| left.checked_sub(1);
            if self.failing_reads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
                return Err(StoreError::Failed { attempted: "read events", source: "the disk is gone".into() });
            }
            let records = self.inner.events(&topic, from, limit).await?;
            let corrupt_from = self.corrupt_from.lock().unwrap().clone();
            let is_corrupt = |record: &Arc<Envelope>| {
                corrupt_from.as_ref().is_some_and(|(topic, from)| record.topic == *topic && record.seq >= *from)
            };
            if records.iter().any(is_corrupt) {
                return Err(StoreError::Corrupt { what: "event", source: "a bit has flipped".into() });
            }
            Ok(records)
        })
    }

    fn last_seq(&self, topic: &Topic) -> BoxFuture<'_, Result<Seq, StoreError>> {
        self.inner.last_seq(topic)
    }

    fn run(&self, run: RunId) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>> {
        self.inner.run(run)
    }

    fn latest_run_by_client_id(
        &self,
        principal: &str,
        client_id: &str,
    ) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>> {
        self.inner.latest_run_by_client_id(principal, client_id)
    }

    fn latest_run_of_session(&self, session: &SessionKey) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>> {
        self.inner.latest_run_of_session(session)
    }

    fn runs(&self, query: RunQuery) -> BoxFuture<'_, Result<ResultPage<ListedRun>, StoreError>> {
        self.inner.runs(query)
    }

    fn tenure(&self) -> TenureId {
        self.inner.tenure()
    }

    fn adopt_runs(&self, held: HashSet<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<UnfinishedRun>, StoreError>> {
        self.inner.adopt_runs(held, limit)
    }

    fn adopt_deliveries(
        &self,
        held: HashSet<DeliveryId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DeliveryRow>, StoreError>> {
        self.inner.adopt_deliveries(held, limit)
    }

    fn claim_role(&self, role: NodeRole) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.claim_role(role)
    }

    fn take_delivery(
        &self,
        row: DeliveryRow,
        earlier: EarlierDelivery,
    ) -> BoxFuture<'_, Result<TakenDelivery, StoreError>> {
        Box::pin(async move {
            // A commit like any other: it fails, waits and is on record in the same way.
            let batch = WriteBatch::boundary(vec![StoreWrite::Delivery(row.clone())]);
            self.before_commit(&batch).await?;
            let taken = self.inner.take_delivery(row, earlier).await?;
            if taken == TakenDelivery::Stored {
                self.journal.lock().unwrap().push(batch);
            }
            Ok(taken)
        })
    }

    fn unfinished_runs(&self) -> BoxFuture<'_, Result<Vec<UnfinishedRun>, StoreError>> {
        self.inner.unfinished_runs()
    }

    fn inputs(&self, run: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<InputRow>, StoreError>> {
        self.inner.inputs(run, limit)
    }

    fn input(&self, input: InputId) -> BoxFuture<'_, Result<Option<InputRow>, StoreError>> {
        self.inner.input(input)
    }

    fn session(&self, key: &SessionKey) -> BoxFuture<'_, Result<Option<SessionRow>, StoreError>> {
        self.inner.session(key)
    }

    fn sessions(
        &self,
        filter: SessionFilter,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<SessionRow>, StoreError>> {
        self.inner.sessions(filter, limit, cursor)
    }

    fn count_sessions(&self, excluded_channels: &'static [&'static str]) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.inner.count_sessions(excluded_channels)
    }

    fn turns(&self, query: TurnQuery) -> BoxFuture<'_, Result<ResultPage<TurnRow>, StoreError>> {
        self.inner.turns(query)
    }

    fn facts(&self, query: FactQuery) -> BoxFuture<'_, Result<ResultPage<FactRow>, StoreError>> {
        self.inner.facts(query)
    }

    fn kv_entry(&self, namespace: &KvNamespace, key: &str) -> BoxFuture<'_, Result<Option<KvEntry>, StoreError>> {
        self.inner.kv_entry(namespace, key)
    }

    fn kv_keys(
        &self,
        namespace: &KvNamespace,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        self.inner.kv_keys(namespace, prefix, after, limit)
    }

    fn kv_usage(&self, namespace: &KvNamespace) -> BoxFuture<'_, Result<KvUsage, StoreError>> {
        self.inner.kv_usage(namespace)
    }

    fn delivery(&self, channel: &str, key: &str) -> BoxFuture<'_, Result<Option<DeliveryRow>, StoreError>> {
        self.inner.delivery(channel, key)
    }

    fn deliveries(&self, query: DeliveryQuery) -> BoxFuture<'_, Result<ResultPage<DeliveryRow>, StoreError>> {
        self.inner.deliveries(query)
    }

    fn open_deliveries(&self) -> BoxFuture<'_, Result<Vec<DeliveryRow>, StoreError>> {
        self.inner.open_deliveries()
    }

    fn messages(&self, query: MessageQuery) -> BoxFuture<'_, Result<ResultPage<MessageRow>, StoreError>> {
        self.inner.messages(query)
    }

    fn open_messages(&self) -> BoxFuture<'_, Result<Vec<MessageRow>, StoreError>> {
        self.inner.open_messages()
    }

    fn tokens_spent(&self, scopes: Vec<BudgetScope>) -> BoxFuture<'_, Result<Vec<u64>, StoreError>> {
        // The figures are read now and returned later, as over a real connection.
        let figures = self.inner.tokens_spent(scopes);
        Box::pin(async move {
            let figures = figures.await;
            self.simulate_latency().await;
            figures
        })
    }

    fn usage(&self, query: UsageQuery) -> BoxFuture<'_, Result<ResultPage<UsageGroup>, StoreError>> {
        self.inner.usage(query)
    }

    fn read_audit(&self, query: AuditQuery) -> BoxFuture<'_, Result<ResultPage<AuditRow>, StoreError>> {
        self.inner.read_audit(query)
    }

    fn prune(&self, retention: RetentionCutoffs) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.prune(retention)
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.close()
    }
}
