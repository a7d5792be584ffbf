//! Reads: two threads with a connection each, one queue. A read starts after its call, so it sees every commit that was
//! acknowledged before.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_core::future::BoxFuture;
use patchboard_core::store::StoreError;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, oneshot};

use super::schema;
use super::sql_error::SqliteError;
use crate::OpenError;

const READER_THREADS: usize = 2;
/// Queued reads. A further one waits for at most `queue_wait` and is then refused as `Busy`.
const MAX_QUEUED_READS: usize = 1024;
/// Queries sort and decode at most one page of rows, so a small stack suffices.
pub(super) const STACK_BYTES: usize = 1024 * 1024;

type ReadJob = Box<dyn FnOnce(Result<&Connection, StoreError>) + Send>;

#[derive(Debug)]
pub(super) struct ReaderPool {
    jobs: Mutex<Option<mpsc::Sender<ReadJob>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    queue_permits: Arc<Semaphore>,
    queue_wait: Duration,
}

impl ReaderPool {
    pub(super) fn start(path: PathBuf, queue_wait: Duration) -> Result<Self, OpenError> {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let path: Arc<Path> = path.into();
        let mut threads = Vec::with_capacity(READER_THREADS);
        for number in 0..READER_THREADS {
            let (path, receiver) = (path.clone(), receiver.clone());
            let thread = std::thread::Builder::new().name(format!("store-reader-{number}")).stack_size(STACK_BYTES);
            threads.push(thread.spawn(move || reader_loop(&path, &receiver)).map_err(OpenError::Thread)?);
        }
        Ok(Self {
            jobs: Mutex::new(Some(sender)),
            threads: Mutex::new(threads),
            queue_permits: Arc::new(Semaphore::new(MAX_QUEUED_READS)),
            queue_wait,
        })
    }

    /// Runs `query` on a reader thread, in one read transaction.
    pub(super) fn read<T: Send + 'static>(
        &self,
        attempted: &'static str,
        query: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(async move {
            let permit = acquire_permits(&self.queue_permits, 1, self.queue_wait).await?;
            let (sender, receiver) = oneshot::channel();
            let job: ReadJob = Box::new(move |db| {
                // The caller was cancelled.
                if sender.is_closed() {
                    return;
                }
                let result =
                    db.and_then(|db| in_transaction(db, query).map_err(|error| error.into_store_error(attempted)));
                drop(permit);
                // The caller may have been cancelled meanwhile.
                drop(sender.send(result));
            });
            self.send(job)?;
            receiver.await.map_err(|_| StoreError::Closed)?
        })
    }

    fn send(&self, job: ReadJob) -> Result<(), StoreError> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.as_ref().and_then(|jobs| jobs.send(job).ok()).ok_or(StoreError::Closed)
    }

    /// Rejects further reads. The threads end after the queued ones.
    pub(super) fn shut_down(&self) -> Vec<JoinHandle<()>> {
        self.queue_permits.close();
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Acquires `weight` permits, waiting at most `timeout`.
pub(super) async fn acquire_permits(
    permits: &Arc<Semaphore>,
    weight: u32,
    timeout: Duration,
) -> Result<OwnedSemaphorePermit, StoreError> {
    match permits.clone().try_acquire_many_owned(weight) {
        Ok(permit) => Ok(permit),
        Err(TryAcquireError::Closed) => Err(StoreError::Closed),
        Err(TryAcquireError::NoPermits) => {
            crate::telemetry::queue_full();
            match tokio::time::timeout(timeout, permits.clone().acquire_many_owned(weight)).await {
                Ok(permit) => permit.map_err(|_| StoreError::Closed),
                Err(_elapsed) => Err(StoreError::Busy),
            }
        }
    }
}

fn in_transaction<T>(
    db: &Connection,
    query: impl FnOnce(&Connection) -> Result<T, SqliteError>,
) -> Result<T, SqliteError> {
    db.prepare_cached("BEGIN")?.execute([])?;
    let result = query(db);
    // A read transaction has nothing to roll back.
    db.prepare_cached("COMMIT")?.execute([])?;
    result
}

fn reader_loop(path: &Path, jobs: &Mutex<mpsc::Receiver<ReadJob>>) {
    // Opened lazily, so that server startup does not wait for it.
    let mut connection = None;
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        if connection.is_none() {
            match schema::open_for_reading(path) {
                Ok(opened) => connection = Some(opened),
                Err(error) => {
                    job(Err(SqliteError::from(error).into_store_error("open the database for reading")));
                    continue;
                }
            }
        }
        if let Some(db) = &connection {
            job(Ok(db));
        }
    }
}
