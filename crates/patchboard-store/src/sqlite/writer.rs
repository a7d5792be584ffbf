//! Writes: one connection, one queue. All batches that wait when the writer thread is free are committed together, so
//! that many callers share one disk sync. A caller gets its reply only after the commit.
//!
//! Text chunks need no sync, and handing them to another thread takes longer than writing them: while no other write is
//! in progress, the caller's own thread writes them, in some tens of microseconds.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use patchboard_core::id::{MemoryOwner, TenureId};
use patchboard_core::store::{
    DeliveryRow, Durability, EarlierDelivery, EraseExtent, RetentionCutoffs, StoreError, TakenDelivery, WriteBatch,
};
use patchboard_core::webhook::DeliveryId;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::batch::{BatchWriter, EncodedBatch};
use super::reader::{STACK_BYTES, acquire_permits};
use super::sql_error::{self, SqliteError};
use super::{SqliteOptions, deliveries, forget, messages, runs, turn_index};
use crate::{OpenError, telemetry};

/// Limits of one transaction; further batches wait for the next one. They bound how long a caller waits for others and
/// how far the log can grow between two checkpoints.
const MAX_GROUP_BATCHES: usize = 512;
const MAX_GROUP_BYTES: usize = 8 * 1024 * 1024;
/// Unit of the queue's size; a batch takes at least one.
const QUEUE_UNIT_BYTES: usize = 8 * 1024;
/// Larger delta batches are not written on the caller's thread, which they would block for too long.
const MAX_INLINE_BYTES: usize = 32 * 1024;
/// The log is checkpointed after about this much, only ever on the writer thread.
const CHECKPOINT_BYTES: usize = 16 * 1024 * 1024;
/// Log growth per commit besides its bytes, because touched pages are written whole.
const COMMIT_OVERHEAD_BYTES: usize = 16 * 1024;
/// Log growth per call of `prune`: what folding rewrites, and pages of deleted rows.
const PRUNE_BYTES: usize = 2 * 1024 * 1024;

type ResultSender<T> = oneshot::Sender<Result<T, StoreError>>;

/// The handle that callers use.
#[derive(Debug)]
pub(super) struct WriterHandle {
    commands: Mutex<Option<mpsc::Sender<WriterCommand>>>,
    /// One permit per queue unit. A command holds its permits until it is answered.
    queue_permits: Arc<Semaphore>,
    queue_units: u32,
    queue_wait: Duration,
    connection: SharedConnection,
    /// No other process uses the database, so this one's tenure lasts as long as the process.
    tenure: TenureId,
    /// Commands sent and not yet processed. Inline writes must not overtake them.
    pending_commands: Arc<AtomicUsize>,
}

/// `None` once closed.
type SharedConnection = Arc<Mutex<Option<WriteConnection>>>;

#[derive(Debug)]
enum WriterCommand {
    Commit(CommitRequest),
    TakeDelivery {
        row: Box<DeliveryRow>,
        earlier: EarlierDelivery,
        reply: ResultSender<TakenDelivery>,
    },
    Maintain(MaintenanceJob),
    Prune {
        retention: RetentionCutoffs,
        reply: ResultSender<bool>,
    },
    /// The readers are already shutting down; their connections must be closed before the log can be removed.
    Close {
        readers: Vec<JoinHandle<()>>,
        reply: ResultSender<()>,
    },
}

/// Rare work on the connection that is no batch.
struct MaintenanceJob(Box<dyn FnOnce(&mut WriteConnection) + Send>);

impl fmt::Debug for MaintenanceJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MaintenanceJob")
    }
}

#[derive(Debug)]
struct CommitRequest {
    batch: EncodedBatch,
    reply: ResultSender<()>,
    _permit: OwnedSemaphorePermit,
}

impl WriterHandle {
    pub(super) fn start(connection: Connection, options: &SqliteOptions) -> Result<Self, OpenError> {
        let units = u32::try_from(options.queue_bytes / QUEUE_UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let units = units.min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).stack_size(STACK_BYTES);
        let connection = Arc::new(Mutex::new(Some(WriteConnection::new(connection))));
        let pending_commands = Arc::new(AtomicUsize::new(0));
        let writer_thread = WriterThread { connection: connection.clone(), pending_commands: pending_commands.clone() };
        // The thread ends when the last sender is dropped; `close` waits for its reply.
        drop(thread.spawn(move || writer_thread.run(&receiver)).map_err(OpenError::Thread)?);
        Ok(Self {
            connection,
            tenure: TenureId(uuid::Uuid::now_v7()),
            pending_commands,
            commands: Mutex::new(Some(sender)),
            queue_permits: Arc::new(Semaphore::new(units as usize)),
            queue_units: units,
            queue_wait: options.queue_wait,
        })
    }

    pub(super) fn tenure(&self) -> TenureId {
        self.tenure
    }

    pub(super) fn commit(&self, batch: WriteBatch) -> BoxFuture<'_, Result<(), StoreError>> {
        // Encodes on the caller's thread, because all callers share the writer thread.
        let batch = EncodedBatch::new(batch);
        if batch.tenure().is_some_and(|tenure| tenure != self.tenure) {
            return Box::pin(std::future::ready(Err(StoreError::Fenced)));
        }
        if let Some(written) = self.write_inline(&batch) {
            return Box::pin(std::future::ready(written));
        }
        let units = u32::try_from(batch.bytes() / QUEUE_UNIT_BYTES + 1).unwrap_or(u32::MAX).min(self.queue_units);
        match self.queue_permits.clone().try_acquire_many_owned(units) {
            Ok(permits) => {
                let reply = self.send_commit(batch, permits);
                Box::pin(async move { await_reply(reply?).await })
            }
            Err(_) => Box::pin(async move {
                let permits = acquire_permits(&self.queue_permits, units, self.queue_wait).await?;
                await_reply(self.send_commit(batch, permits)?).await
            }),
        }
    }

    /// Writes a small delta batch immediately if no other write is queued or in progress.
    fn write_inline(&self, batch: &EncodedBatch) -> Option<Result<(), StoreError>> {
        let is_small = batch.durability() == Durability::Delta && batch.bytes() <= MAX_INLINE_BYTES;
        if !is_small || self.pending_commands.load(Ordering::Acquire) > 0 {
            return None;
        }
        let mut connection = match self.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        // A due checkpoint may take long, so it must not run on the caller's thread.
        let connection = connection.as_mut().filter(|connection| !connection.needs_checkpoint())?;
        let started = Instant::now();
        let written = connection.write(Durability::Delta, std::iter::once(batch));
        match &written {
            Ok(()) => telemetry::group_committed(1, started.elapsed()),
            Err(_) => telemetry::commits_failed(1),
        }
        Some(written.map_err(|error| error.into_store_error("commit a batch")))
    }

    fn send_commit(
        &self,
        batch: EncodedBatch,
        permits: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Result<(), StoreError>>, StoreError> {
        let (reply, receiver) = oneshot::channel();
        self.send(WriterCommand::Commit(CommitRequest { batch, reply, _permit: permits }))?;
        Ok(receiver)
    }

    pub(super) fn take_delivery(
        &self,
        row: DeliveryRow,
        earlier: EarlierDelivery,
    ) -> BoxFuture<'_, Result<TakenDelivery, StoreError>> {
        let units = u32::try_from(row.body.len() / QUEUE_UNIT_BYTES + 1).unwrap_or(u32::MAX).min(self.queue_units);
        Box::pin(async move {
            let _permit = acquire_permits(&self.queue_permits, units, self.queue_wait).await?;
            let (reply, receiver) = oneshot::channel();
            self.send(WriterCommand::TakeDelivery { row: Box::new(row), earlier, reply })?;
            await_reply(receiver).await
        })
    }

    /// Runs `work` on the writer thread, after the commits queued so far.
    pub(super) fn maintain<T: Send + 'static>(
        &self,
        attempted: &'static str,
        work: impl FnOnce(&mut WriteConnection) -> Result<T, SqliteError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        let (reply, receiver) = oneshot::channel();
        let job = move |connection: &mut WriteConnection| {
            send_reply(reply, work(connection).map_err(|error| error.into_store_error(attempted)));
        };
        let sent = self.send(WriterCommand::Maintain(MaintenanceJob(Box::new(job))));
        Box::pin(async move {
            sent?;
            await_reply(receiver).await
        })
    }

    pub(super) fn prune(&self, retention: RetentionCutoffs) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let (reply, receiver) = oneshot::channel();
            self.send(WriterCommand::Prune { retention, reply })?;
            await_reply(receiver).await
        })
    }

    pub(super) fn close(&self, readers: Vec<JoinHandle<()>>) -> BoxFuture<'_, Result<(), StoreError>> {
        let (reply, receiver) = oneshot::channel();
        let sent = self.send(WriterCommand::Close { readers, reply });
        self.queue_permits.close();
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(async move {
            sent?;
            await_reply(receiver).await
        })
    }

    fn send(&self, command: WriterCommand) -> Result<(), StoreError> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        self.pending_commands.fetch_add(1, Ordering::AcqRel);
        commands.as_ref().and_then(|commands| commands.send(command).ok()).ok_or(StoreError::Closed)
    }
}

async fn await_reply<T>(receiver: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
    receiver.await.map_err(|_| StoreError::Closed)?
}

/// The writer thread: takes commands from the queue and executes them on the connection.
struct WriterThread {
    connection: SharedConnection,
    pending_commands: Arc<AtomicUsize>,
}

impl WriterThread {
    fn run(self, commands: &mpsc::Receiver<WriterCommand>) {
        let mut next = None;
        while let Some(command) = next.take().or_else(|| commands.recv().ok()) {
            let mut slot = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(connection) = slot.as_mut() else { return };
            let processed = match command {
                WriterCommand::Commit(first) => {
                    let (group, other) = collect_group(first, commands);
                    next = other;
                    let batches = group.len();
                    connection.commit_group(group);
                    connection.checkpoint_if_due();
                    batches
                }
                WriterCommand::TakeDelivery { row, earlier, reply } => {
                    let taken = connection.take_delivery(&row, &earlier);
                    send_reply(reply, taken.map_err(|error| error.into_store_error("store a delivery")));
                    1
                }
                WriterCommand::Maintain(job) => {
                    (job.0)(connection);
                    1
                }
                WriterCommand::Prune { retention, reply } => {
                    send_reply(
                        reply,
                        connection.prune(retention).map_err(|error| error.into_store_error("prune finished records")),
                    );
                    connection.checkpoint_if_due();
                    1
                }
                WriterCommand::Close { readers, reply } => {
                    if let Some(connection) = slot.take() {
                        connection.close(readers, reply);
                    }
                    return;
                }
            };
            drop(slot);
            self.pending_commands.fetch_sub(processed, Ordering::AcqRel);
        }
    }
}

/// The write connection, used by one thread at a time.
#[derive(Debug)]
pub(super) struct WriteConnection {
    db: Connection,
    batch_writer: BatchWriter,
    /// Approximate growth of the log since the latest checkpoint.
    wal_bytes: usize,
    /// The durability that the current `synchronous` setting provides.
    durability: Durability,
}

impl WriteConnection {
    /// The connection must have `synchronous = FULL`.
    pub(super) fn new(db: Connection) -> Self {
        Self { db, batch_writer: BatchWriter::default(), wal_bytes: 0, durability: Durability::Boundary }
    }

    fn needs_checkpoint(&self) -> bool {
        self.wal_bytes >= CHECKPOINT_BYTES
    }

    /// Copies the log into the database, so that the log starts over. Does not block readers.
    fn checkpoint_if_due(&mut self) {
        if !self.needs_checkpoint() {
            return;
        }
        self.wal_bytes = 0;
        if let Err(error) = self.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::warn!(%error, "checkpointing the write-ahead log failed; trying again later");
        }
    }

    fn commit_group(&mut self, group: Vec<CommitRequest>) {
        let started = Instant::now();
        let batches = || group.iter().map(|commit| &commit.batch);
        let durability = batches().map(EncodedBatch::durability).max().unwrap_or(Durability::Delta);
        match self.write(durability, batches()) {
            Ok(()) => {
                telemetry::group_committed(group.len(), started.elapsed());
                for commit in group {
                    send_reply(commit.reply, Ok(()));
                }
            }
            // The batches are not at fault; retrying each one would only take longer.
            Err(SqliteError::BeginFailed(error)) => {
                telemetry::commits_failed(group.len());
                let is_full = sql_error::is_full(&error);
                let reason = error.to_string();
                for commit in group {
                    let refused = SqliteError::Rejected(reason.clone()).into_store_error("begin a transaction");
                    send_reply(commit.reply, Err(if is_full { StoreError::Full } else { refused }));
                }
            }
            // A bad batch must not fail the others, so each is retried in a transaction of its own.
            Err(_) => {
                for commit in group {
                    let written = self.write(commit.batch.durability(), std::iter::once(&commit.batch));
                    telemetry::commits_failed(usize::from(written.is_err()));
                    send_reply(commit.reply, written.map_err(|error| error.into_store_error("commit a batch")));
                }
            }
        }
    }

    /// Writes the batches in one transaction.
    pub(super) fn write<'a>(
        &mut self,
        durability: Durability,
        batches: impl Iterator<Item = &'a EncodedBatch>,
    ) -> Result<(), SqliteError> {
        let mut bytes = COMMIT_OVERHEAD_BYTES;
        let written = self.in_transaction(durability, |db, batch_writer| {
            for batch in batches {
                bytes += batch.bytes();
                batch_writer.apply(db, batch)?;
            }
            batch_writer.flush(db)
        });
        self.wal_bytes = self.wal_bytes.saturating_add(bytes);
        written
    }

    /// Deletes some of what is stored of an account; `true` if more is left.
    pub(super) fn forget_account(
        &mut self,
        account: &MemoryOwner,
        deliveries: &[DeliveryId],
    ) -> Result<bool, SqliteError> {
        self.wal_bytes = self.wal_bytes.saturating_add(CHECKPOINT_BYTES);
        let forgotten = self.in_transaction(Durability::Boundary, |db, batch_writer| {
            // Names and topics of deleted rows may be in the caches.
            batch_writer.clear_caches();
            forget::account(db, account, deliveries)
        });
        self.checkpoint_if_due();
        forgotten
    }

    pub(super) fn erase_remains(&mut self, extent: EraseExtent) -> Result<(), SqliteError> {
        self.set_durability(Durability::Boundary)?;
        self.wal_bytes = 0;
        forget::erase(&self.db, extent)
    }

    /// Indexes some turns; `true` if more are left. Nobody is told of it, so it may be lost with the power.
    pub(super) fn index_turns(&mut self) -> Result<bool, SqliteError> {
        self.wal_bytes = self.wal_bytes.saturating_add(COMMIT_OVERHEAD_BYTES * 8);
        let indexed = self.in_transaction(Durability::Delta, |db, _| turn_index::fill(db));
        self.checkpoint_if_due();
        indexed
    }

    /// The caller is told of it at once, so it must survive a power failure.
    fn take_delivery(&mut self, row: &DeliveryRow, earlier: &EarlierDelivery) -> Result<TakenDelivery, SqliteError> {
        self.wal_bytes = self.wal_bytes.saturating_add(COMMIT_OVERHEAD_BYTES + row.body.len());
        self.in_transaction(Durability::Boundary, |db, _| deliveries::take(db, row, earlier))
    }

    /// Uses the weaker durability: a prune that a power failure undoes is repeated.
    pub(super) fn prune(&mut self, retention: RetentionCutoffs) -> Result<bool, SqliteError> {
        self.wal_bytes = self.wal_bytes.saturating_add(PRUNE_BYTES);
        self.in_transaction(Durability::Delta, |db, batch_writer| {
            // Topic numbers of deleted rows may be reused.
            batch_writer.clear_caches();
            let has_more_runs = runs::prune(db, retention)?;
            let has_more_messages = messages::prune(db, retention.runs_before)?;
            Ok(deliveries::prune(db, retention.runs_before)? || has_more_messages || has_more_runs)
        })
    }

    fn in_transaction<T>(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&Connection, &mut BatchWriter) -> Result<T, SqliteError>,
    ) -> Result<T, SqliteError> {
        self.set_durability(durability)?;
        self.run("BEGIN IMMEDIATE").map_err(SqliteError::BeginFailed)?;
        let processed = work(&self.db, &mut self.batch_writer).and_then(|reply| {
            self.run("COMMIT")?;
            Ok(reply)
        });
        if processed.is_err() {
            self.batch_writer.clear_caches();
            // Some errors, such as a full disk, have already rolled back.
            if !self.db.is_autocommit()
                && let Err(error) = self.db.execute_batch("ROLLBACK")
            {
                tracing::error!(%error, "failed to roll back a transaction");
            }
        }
        processed
    }

    fn set_durability(&mut self, durability: Durability) -> Result<(), SqliteError> {
        if self.durability != durability {
            self.db.execute_batch(match durability {
                Durability::Delta => "PRAGMA synchronous = NORMAL",
                Durability::Boundary => "PRAGMA synchronous = FULL",
            })?;
            self.durability = durability;
        }
        Ok(())
    }

    fn run(&self, sql: &'static str) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn close(self, readers: Vec<JoinHandle<()>>, reply: ResultSender<()>) {
        for reader in readers {
            if reader.join().is_err() {
                tracing::error!("a storage reader thread had panicked");
            }
        }
        // Closing the last connection checkpoints the log and removes it.
        let closed =
            self.db.close().map_err(|(_, error)| SqliteError::from(error).into_store_error("close the database"));
        send_reply(reply, closed);
    }
}

/// The first commit and all commits queued behind it, up to the limits or the next command of another kind.
fn collect_group(
    first: CommitRequest,
    commands: &mpsc::Receiver<WriterCommand>,
) -> (Vec<CommitRequest>, Option<WriterCommand>) {
    let mut bytes = first.batch.bytes();
    let mut group = vec![first];
    while group.len() < MAX_GROUP_BATCHES && bytes < MAX_GROUP_BYTES {
        match commands.try_recv() {
            Ok(WriterCommand::Commit(commit)) => {
                bytes += commit.batch.bytes();
                group.push(commit);
            }
            Ok(
                other @ (WriterCommand::TakeDelivery { .. }
                | WriterCommand::Maintain(_)
                | WriterCommand::Prune { .. }
                | WriterCommand::Close { .. }),
            ) => return (group, Some(other)),
            Err(_) => break,
        }
    }
    (group, None)
}

/// The caller may be gone; its work is done in any case.
fn send_reply<T>(reply: ResultSender<T>, result: Result<T, StoreError>) {
    drop(reply.send(result));
}

#[cfg(test)]
mod tests;
