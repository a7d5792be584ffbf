//! Notifies workers when a session that they ran calls of is closed.

use std::sync::Arc;
use std::time::Duration;

use patchboard_proto::pb::CleanupSessionRequest;
use tokio::sync::Semaphore;

use super::{ConnectedWorker, WorkerPool};

const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Thousands of sessions may expire at once; this many notifications are sent concurrently.
const MAX_CONCURRENT: usize = 16;
/// Further notifications are dropped: the workers keep the state of those sessions until they exit.
const MAX_QUEUED: usize = 10_000;

/// Keeps session cleanups from displacing regular calls.
#[derive(Debug)]
pub(in crate::worker) struct SessionCleanups {
    running: Arc<Semaphore>,
    queue: Arc<Semaphore>,
}

impl Default for SessionCleanups {
    fn default() -> Self {
        Self { running: Arc::new(Semaphore::new(MAX_CONCURRENT)), queue: Arc::new(Semaphore::new(MAX_QUEUED)) }
    }
}

impl WorkerPool {
    /// Notifies the workers that ran calls of the session, in the background.
    pub(in crate::worker) fn end_session(&self, session: &str) {
        let workers: Vec<Arc<ConnectedWorker>> = {
            let mut state = self.state();
            let numbers = state.dispatcher.forget_session(session);
            numbers.into_iter().filter_map(|worker| state.worker(worker)).collect()
        };
        for worker in workers {
            let Ok(queue_permit) = self.session_cleanups.queue.clone().try_acquire_owned() else { return };
            let running = self.session_cleanups.running.clone();
            let request = CleanupSessionRequest { session_id: session.to_owned(), force: false };
            self.context.tasks.spawn(async move {
                let _queue_permit = queue_permit;
                let notification = async {
                    let Ok(_running_permit) = running.acquire().await else { return };
                    let mut client = worker.connection.client();
                    let reply = tokio::time::timeout(REPLY_TIMEOUT, client.cleanup_session(request)).await;
                    if !matches!(reply, Ok(Ok(_))) {
                        tracing::debug!(worker.id = %worker.id, "session cleanup request failed");
                    }
                };
                tokio::select! {
                    () = notification => {}
                    () = worker.removed.cancelled() => {}
                }
            });
        }
    }
}
