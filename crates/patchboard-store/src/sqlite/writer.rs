//! Writes: one connection, one queue. Whatever waits when the writer's thread is free is committed together, so that
//! many callers share one sync of the disk. Nobody is answered before the commit.
//!
//! Pieces of text need no sync, and handing them to another thread takes longer than writing them: while nothing else
//! is being written, the caller's own thread does it, in some tens of microseconds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use patchboard_core::port::{Batch, Durability, Retention, StoreError};
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::apply::{Applier, Prepared};
use super::fault::{self, Fault};
use super::reader::{STACK_BYTES, enter};
use super::{SqliteOptions, deliveries, messages, runs};
use crate::{Error, telemetry};

/// A transaction takes no more than this; the rest waits for the next one. Bounds how long a caller waits for
/// others and how far the log can grow between two foldings.
const MAX_GROUP_BATCHES: usize = 512;
const MAX_GROUP_BYTES: usize = 8 * 1024 * 1024;
/// The queue is measured in units of this size, and a batch takes at least one.
const UNIT_BYTES: usize = 8 * 1024;
/// A larger batch of pieces is not written on the caller's thread, which has other things to do.
const MAX_INLINE_BYTES: usize = 32 * 1024;
/// The log is folded into the database after about this much; only ever on the writer's thread.
const FOLD_BYTES: usize = 16 * 1024 * 1024;
/// What a commit adds to the log besides its bytes: the pages it touches are written whole.
const COMMIT_BYTES: usize = 16 * 1024;

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// The asking side.
#[derive(Debug)]
pub(super) struct Writer {
    inbox: Mutex<Option<mpsc::Sender<Message>>>,
    /// One permit per unit of queue. A message holds its permits until it is answered.
    room: Arc<Semaphore>,
    units: u32,
    queue_wait: Duration,
    scribe: SharedScribe,
    /// Messages sent and not yet dealt with. Nothing overtakes them.
    waiting: Arc<AtomicUsize>,
}

/// `None` once closed.
type SharedScribe = Arc<Mutex<Option<Scribe>>>;

#[derive(Debug)]
enum Message {
    Commit(Commit),
    Prune {
        retention: Retention,
        answer: Answer<bool>,
    },
    /// The readers have been told to stop; their connections must be gone before the log can be folded and removed.
    Close {
        readers: Vec<JoinHandle<()>>,
        answer: Answer<()>,
    },
}

#[derive(Debug)]
struct Commit {
    batch: Prepared,
    answer: Answer<()>,
    _room: OwnedSemaphorePermit,
}

impl Writer {
    pub(super) fn start(connection: Connection, options: &SqliteOptions) -> Result<Self, Error> {
        let units = u32::try_from(options.queue_bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let units = units.min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).stack_size(STACK_BYTES);
        let scribe = Arc::new(Mutex::new(Some(Scribe::new(connection))));
        let waiting = Arc::new(AtomicUsize::new(0));
        let desk = Desk { scribe: scribe.clone(), waiting: waiting.clone() };
        // Ends by itself when the last sender is gone; `close` waits for its answer.
        drop(thread.spawn(move || desk.serve(&receiver)).map_err(Error::Thread)?);
        Ok(Self {
            scribe,
            waiting,
            inbox: Mutex::new(Some(sender)),
            room: Arc::new(Semaphore::new(units as usize)),
            units,
            queue_wait: options.queue_wait,
        })
    }

    pub(super) fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), StoreError>> {
        // Encoding happens here, on the caller's thread: the writer thread is the one thing all callers share.
        let batch = Prepared::new(batch);
        if let Some(written) = self.write_inline(&batch) {
            return Box::pin(std::future::ready(written));
        }
        let units = u32::try_from(batch.bytes() / UNIT_BYTES + 1).unwrap_or(u32::MAX).min(self.units);
        match self.room.clone().try_acquire_many_owned(units) {
            Ok(room) => {
                let answer = self.send_commit(batch, room);
                Box::pin(async move { received(answer?).await })
            }
            Err(_) => Box::pin(async move {
                let room = enter(&self.room, units, self.queue_wait).await?;
                received(self.send_commit(batch, room)?).await
            }),
        }
    }

    /// Writes a small batch of pieces here and now, if nothing else is being or waits to be written.
    fn write_inline(&self, batch: &Prepared) -> Option<Result<(), StoreError>> {
        let is_small = batch.durability() == Durability::Delta && batch.bytes() <= MAX_INLINE_BYTES;
        if !is_small || self.waiting.load(Ordering::Acquire) > 0 {
            return None;
        }
        let mut scribe = match self.scribe.try_lock() {
            Ok(scribe) => scribe,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let scribe = scribe.as_mut().filter(|scribe| !scribe.should_fold())?;
        let started = Instant::now();
        let written = scribe.write(Durability::Delta, std::iter::once(batch));
        match &written {
            Ok(()) => telemetry::group_committed(1, started.elapsed()),
            Err(_) => telemetry::commits_failed(1),
        }
        Some(written.map_err(|fault| fault.during("commit a batch")))
    }

    fn send_commit(
        &self,
        batch: Prepared,
        room: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Result<(), StoreError>>, StoreError> {
        let (answer, receiver) = oneshot::channel();
        self.send(Message::Commit(Commit { batch, answer, _room: room }))?;
        Ok(receiver)
    }

    pub(super) fn prune(&self, retention: Retention) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let (answer, receiver) = oneshot::channel();
            self.send(Message::Prune { retention, answer })?;
            received(receiver).await
        })
    }

    pub(super) fn close(&self, readers: Vec<JoinHandle<()>>) -> BoxFuture<'_, Result<(), StoreError>> {
        let (answer, receiver) = oneshot::channel();
        let sent = self.send(Message::Close { readers, answer });
        self.room.close();
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(async move {
            sent?;
            received(receiver).await
        })
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, Ordering::AcqRel);
        inbox.as_ref().and_then(|inbox| inbox.send(message).ok()).ok_or(StoreError::Closed)
    }
}

async fn received<T>(receiver: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
    receiver.await.map_err(|_| StoreError::Closed)?
}

/// The writer's thread: takes messages and has the scribe write them.
struct Desk {
    scribe: SharedScribe,
    waiting: Arc<AtomicUsize>,
}

impl Desk {
    fn serve(self, inbox: &mpsc::Receiver<Message>) {
        let mut next = None;
        while let Some(message) = next.take().or_else(|| inbox.recv().ok()) {
            let mut slot = self.scribe.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(scribe) = slot.as_mut() else { return };
            let done = match message {
                Message::Commit(first) => {
                    let (group, other) = gather(first, inbox);
                    next = other;
                    let batches = group.len();
                    scribe.commit_group(group);
                    scribe.fold_if_due();
                    batches
                }
                Message::Prune { retention, answer } => {
                    tell(answer, scribe.prune(retention).map_err(|fault| fault.during("prune what is over")));
                    1
                }
                Message::Close { readers, answer } => {
                    if let Some(scribe) = slot.take() {
                        scribe.close(readers, answer);
                    }
                    return;
                }
            };
            drop(slot);
            self.waiting.fetch_sub(done, Ordering::AcqRel);
        }
    }
}

/// The writing side, used by one thread at a time.
#[derive(Debug)]
pub(super) struct Scribe {
    db: Connection,
    applier: Applier,
    /// About how much the log has grown since it was last folded.
    unfolded_bytes: usize,
    /// What the connection's `synchronous` setting is for.
    durability: Durability,
}

impl Scribe {
    /// The connection comes with `synchronous = FULL`.
    pub(super) fn new(db: Connection) -> Self {
        Self { db, applier: Applier::default(), unfolded_bytes: 0, durability: Durability::Boundary }
    }

    fn should_fold(&self) -> bool {
        self.unfolded_bytes >= FOLD_BYTES
    }

    /// Copies what is in the log into the database, so that the log starts over. Readers are not held up.
    fn fold_if_due(&mut self) {
        if !self.should_fold() {
            return;
        }
        self.unfolded_bytes = 0;
        if let Err(error) = self.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::warn!(%error, "the write-ahead log could not be folded into the database; trying again later");
        }
    }

    fn commit_group(&mut self, group: Vec<Commit>) {
        let started = Instant::now();
        let batches = || group.iter().map(|commit| &commit.batch);
        let durability = batches().map(Prepared::durability).max().unwrap_or(Durability::Delta);
        match self.write(durability, batches()) {
            Ok(()) => {
                telemetry::group_committed(group.len(), started.elapsed());
                for commit in group {
                    tell(commit.answer, Ok(()));
                }
            }
            // Nothing is wrong with the batches; trying each of them would only take longer.
            Err(Fault::NotBegun(error)) => {
                telemetry::commits_failed(group.len());
                let is_full = fault::is_full(&error);
                let reason = error.to_string();
                for commit in group {
                    let refused = Fault::Refused(reason.clone()).during("begin a transaction");
                    tell(commit.answer, Err(if is_full { StoreError::Full } else { refused }));
                }
            }
            // One bad batch must not fail its neighbours: everyone gets a transaction of their own.
            Err(_) => {
                for commit in group {
                    let written = self.write(commit.batch.durability(), std::iter::once(&commit.batch));
                    telemetry::commits_failed(usize::from(written.is_err()));
                    tell(commit.answer, written.map_err(|fault| fault.during("commit a batch")));
                }
            }
        }
    }

    /// Writes the batches in one transaction.
    pub(super) fn write<'a>(
        &mut self,
        durability: Durability,
        batches: impl Iterator<Item = &'a Prepared>,
    ) -> Result<(), Fault> {
        let mut bytes = COMMIT_BYTES;
        let written = self.transact(durability, |db, applier| {
            for batch in batches {
                bytes += batch.bytes();
                applier.apply(db, batch)?;
            }
            applier.finish(db)
        });
        self.unfolded_bytes = self.unfolded_bytes.saturating_add(bytes);
        written
    }

    /// Deleting is not urgent: if it is undone by a power cut, it is done again.
    pub(super) fn prune(&mut self, retention: Retention) -> Result<bool, Fault> {
        self.transact(Durability::Delta, |db, applier| {
            // A topic's number may be given to another one.
            applier.forget();
            let has_more_runs = runs::prune(db, retention)?;
            let has_more_messages = messages::prune(db, retention.runs_before)?;
            Ok(deliveries::prune(db, retention.runs_before)? || has_more_messages || has_more_runs)
        })
    }

    fn transact<T>(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&Connection, &mut Applier) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.require(durability)?;
        self.run("BEGIN IMMEDIATE").map_err(Fault::NotBegun)?;
        let done = work(&self.db, &mut self.applier).and_then(|answer| {
            self.run("COMMIT")?;
            Ok(answer)
        });
        if done.is_err() {
            self.applier.forget();
            // Some errors (a full disk) have rolled back already.
            if !self.db.is_autocommit()
                && let Err(error) = self.db.execute_batch("ROLLBACK")
            {
                tracing::error!(%error, "failed to roll back a transaction");
            }
        }
        done
    }

    fn require(&mut self, durability: Durability) -> Result<(), Fault> {
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

    fn close(self, readers: Vec<JoinHandle<()>>, answer: Answer<()>) {
        for reader in readers {
            if reader.join().is_err() {
                tracing::error!("a storage reader thread had panicked");
            }
        }
        // The last connection to close folds the log into the database and removes it.
        let closed = self.db.close().map_err(|(_, error)| Fault::from(error).during("close the database"));
        tell(answer, closed);
    }
}

/// The first commit and all that wait behind it, up to the bounds or to a message of another kind.
fn gather(first: Commit, inbox: &mpsc::Receiver<Message>) -> (Vec<Commit>, Option<Message>) {
    let mut bytes = first.batch.bytes();
    let mut group = vec![first];
    while group.len() < MAX_GROUP_BATCHES && bytes < MAX_GROUP_BYTES {
        match inbox.try_recv() {
            Ok(Message::Commit(commit)) => {
                bytes += commit.batch.bytes();
                group.push(commit);
            }
            Ok(other @ (Message::Prune { .. } | Message::Close { .. })) => return (group, Some(other)),
            Err(_) => break,
        }
    }
    (group, None)
}

/// Whoever asked may have gone; the work is done all the same.
fn tell<T>(answer: Answer<T>, result: Result<T, StoreError>) {
    drop(answer.send(result));
}

#[cfg(test)]
mod tests;
