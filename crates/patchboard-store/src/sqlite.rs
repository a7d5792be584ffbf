//! The store of one node. Writes go through one thread that commits all waiting batches as one transaction; reads go
//! through two threads with their own connections, so that the async runtime is never blocked.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use patchboard_core::event::{Envelope, Topic};
use patchboard_core::id::{InputId, RunId, Seq, SessionKey, TenureId};
use patchboard_core::store::{AuditQuery, DeliveryQuery};
use patchboard_core::store::{
    AuditRow, BudgetScope, DeliveryRow, EarlierDelivery, FactQuery, FactRow, InputRow, KvEntry, KvNamespace, KvUsage,
    MessageQuery, MessageRow, NodeRole, PageCursor, ResultPage, RetentionCutoffs, RunRow, SessionFilter, SessionRow,
    Store, StoreError, TakenDelivery, TurnQuery, TurnRow, UnfinishedRun, UsageGroup, UsageQuery, WriteBatch,
};
use patchboard_core::store::{ListedRun, RunQuery};
use patchboard_core::webhook::DeliveryId;

use crate::OpenError;

mod account_port;
mod accounts;
mod audit;
mod batch;
mod conversations;
mod deliveries;
mod events;
mod facts;
mod folding;
mod forget;
mod inputs;
mod inspect;
mod interner;
mod kv;
mod messages;
mod reader;
mod run_list;
mod runs;
mod schema;
mod search_terms;
mod sessions;
mod sql_error;
mod turn_index;
mod usage;
mod writer;

pub use inspect::{DatabaseReport, inspect};

use reader::ReaderPool;
use writer::WriterHandle;

/// Upper bound for every list, whatever limit is requested.
const MAX_ITEMS: usize = 1000;

#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The database file. Created if missing, readable by its owner only; its folder must exist.
    pub path: PathBuf,
    /// Size of the write queue. A batch counts with its size, small ones as 8 KiB.
    pub queue_bytes: usize,
    /// How long a commit waits for space in a full queue before it is refused as `Busy`.
    pub queue_wait: Duration,
}

impl SqliteOptions {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), queue_bytes: 32 * 1024 * 1024, queue_wait: Duration::from_secs(5) }
    }
}

/// Cheap to share. Should be closed before the process ends, so that the write-ahead log is checkpointed into the
/// database; without that nothing is lost, because the next start reads the log.
#[derive(Debug)]
pub struct SqliteStore {
    writer: WriterHandle,
    readers: ReaderPool,
}

impl SqliteStore {
    /// Opens the database, after creating or migrating it if necessary.
    pub fn open(options: SqliteOptions) -> Result<Self, OpenError> {
        let path = schema::absolute(&options.path)?;
        let connection = schema::open_for_writing(&path)?;
        let writer = WriterHandle::start(connection, &options)?;
        let readers = ReaderPool::start(path, options.queue_wait)?;
        Ok(Self { writer, readers })
    }
}

impl Store for SqliteStore {
    /// The batch is queued by this call, not by the future's first poll, as long as the queue has space. Dropping the
    /// future does not cancel the batch.
    fn commit(&self, batch: WriteBatch) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.commit(batch)
    }

    fn tenure(&self) -> TenureId {
        self.writer.tenure()
    }

    /// Only one process uses the database, so whatever is not held belonged to an earlier one.
    fn adopt_runs(&self, held: HashSet<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<UnfinishedRun>, StoreError>> {
        self.readers.read("find runs to continue", move |db| {
            let mut unfinished = runs::unfinished(db)?;
            unfinished.retain(|unfinished| !held.contains(&unfinished.run.run));
            unfinished.truncate(limit);
            Ok(unfinished)
        })
    }

    fn adopt_deliveries(
        &self,
        held: HashSet<DeliveryId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DeliveryRow>, StoreError>> {
        self.readers.read("find deliveries to continue", move |db| {
            let mut open = deliveries::open(db)?;
            open.retain(|row| !held.contains(&row.id));
            open.truncate(limit);
            Ok(open)
        })
    }

    fn claim_role(&self, _role: NodeRole) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    fn take_delivery(
        &self,
        row: DeliveryRow,
        earlier: EarlierDelivery,
    ) -> BoxFuture<'_, Result<TakenDelivery, StoreError>> {
        self.writer.take_delivery(row, earlier)
    }

    fn events(&self, topic: &Topic, from: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Envelope>>, StoreError>> {
        let topic = topic.clone();
        self.readers.read("read events", move |db| events::read(db, &topic, from, limit))
    }

    fn last_seq(&self, topic: &Topic) -> BoxFuture<'_, Result<Seq, StoreError>> {
        let topic = topic.clone();
        self.readers.read("read the last event number", move |db| events::last_seq(db, &topic))
    }

    fn run(&self, run: RunId) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>> {
        self.readers.read("read a run", move |db| runs::by_id(db, run))
    }

    fn latest_run_by_client_id(
        &self,
        principal: &str,
        client_id: &str,
    ) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>> {
        let (principal, client_id) = (principal.to_owned(), client_id.to_owned());
        self.readers.read("find a run", move |db| runs::by_client_id(db, &principal, &client_id))
    }

    fn latest_run_of_session(&self, session: &SessionKey) -> BoxFuture<'_, Result<Option<RunRow>, StoreError>> {
        let session = session.clone();
        self.readers.read("find the run of a session", move |db| runs::of_session(db, &session))
    }

    fn runs(&self, query: RunQuery) -> BoxFuture<'_, Result<ResultPage<ListedRun>, StoreError>> {
        self.readers.read("list runs", move |db| run_list::list(db, &query))
    }

    fn unfinished_runs(&self) -> BoxFuture<'_, Result<Vec<UnfinishedRun>, StoreError>> {
        self.readers.read("read unfinished runs", runs::unfinished)
    }

    fn inputs(&self, run: Option<RunId>, limit: usize) -> BoxFuture<'_, Result<Vec<InputRow>, StoreError>> {
        self.readers.read("list what runs wait for", move |db| inputs::list(db, run, limit))
    }

    fn input(&self, input: InputId) -> BoxFuture<'_, Result<Option<InputRow>, StoreError>> {
        self.readers.read("read what a run waits for", move |db| inputs::by_id(db, input))
    }

    fn session(&self, key: &SessionKey) -> BoxFuture<'_, Result<Option<SessionRow>, StoreError>> {
        let key = key.clone();
        self.readers.read("read a session", move |db| sessions::by_key(db, &key))
    }

    fn sessions(
        &self,
        filter: SessionFilter,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<SessionRow>, StoreError>> {
        self.readers.read("list sessions", move |db| sessions::list(db, &filter, limit, cursor.as_ref()))
    }

    fn count_sessions(&self, excluded_channels: &'static [&'static str]) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.readers.read("count sessions", move |db| sessions::count_visible(db, excluded_channels))
    }

    fn turns(&self, query: TurnQuery) -> BoxFuture<'_, Result<ResultPage<TurnRow>, StoreError>> {
        self.readers.read("read turns", move |db| sessions::turns(db, &query))
    }

    fn facts(&self, query: FactQuery) -> BoxFuture<'_, Result<ResultPage<FactRow>, StoreError>> {
        self.readers.read("search facts", move |db| facts::search(db, &query))
    }

    fn kv_entry(&self, namespace: &KvNamespace, key: &str) -> BoxFuture<'_, Result<Option<KvEntry>, StoreError>> {
        let (namespace, key) = (namespace.clone(), key.to_owned());
        self.readers.read("read a stored value", move |db| kv::get(db, &namespace, &key))
    }

    fn kv_keys(
        &self,
        namespace: &KvNamespace,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        let (namespace, prefix, after) = (namespace.clone(), prefix.to_owned(), after.map(str::to_owned));
        self.readers.read("list stored keys", move |db| kv::keys(db, &namespace, &prefix, after.as_deref(), limit))
    }

    fn kv_usage(&self, namespace: &KvNamespace) -> BoxFuture<'_, Result<KvUsage, StoreError>> {
        let namespace = namespace.clone();
        self.readers.read("measure stored values", move |db| kv::usage(db, &namespace))
    }

    fn delivery(&self, channel: &str, key: &str) -> BoxFuture<'_, Result<Option<DeliveryRow>, StoreError>> {
        let (channel, key) = (channel.to_owned(), key.to_owned());
        self.readers.read("read a delivery", move |db| deliveries::find(db, &channel, &key))
    }

    fn deliveries(&self, query: DeliveryQuery) -> BoxFuture<'_, Result<ResultPage<DeliveryRow>, StoreError>> {
        self.readers.read("list deliveries", move |db| deliveries::list(db, &query))
    }

    fn open_deliveries(&self) -> BoxFuture<'_, Result<Vec<DeliveryRow>, StoreError>> {
        self.readers.read("read open deliveries", deliveries::open)
    }

    fn messages(&self, query: MessageQuery) -> BoxFuture<'_, Result<ResultPage<MessageRow>, StoreError>> {
        self.readers.read("list messages", move |db| messages::list(db, &query))
    }

    fn open_messages(&self) -> BoxFuture<'_, Result<Vec<MessageRow>, StoreError>> {
        self.readers.read("read open messages", messages::open)
    }

    fn tokens_spent(&self, scopes: Vec<BudgetScope>) -> BoxFuture<'_, Result<Vec<u64>, StoreError>> {
        self.readers.read("read budgets", move |db| usage::spent(db, &scopes))
    }

    fn usage(&self, query: UsageQuery) -> BoxFuture<'_, Result<ResultPage<UsageGroup>, StoreError>> {
        self.readers.read("report usage", move |db| usage::report(db, &query))
    }

    fn read_audit(&self, query: AuditQuery) -> BoxFuture<'_, Result<ResultPage<AuditRow>, StoreError>> {
        self.readers.read("read the audit trail", move |db| audit::read::page(db, &query))
    }

    fn prune(&self, retention: RetentionCutoffs) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.writer.prune(retention)
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.close(self.readers.shut_down())
    }
}

#[cfg(test)]
mod tests;
