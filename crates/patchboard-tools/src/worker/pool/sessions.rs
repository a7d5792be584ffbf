//! The end of sessions, for the workers that saw them.

use std::sync::Arc;
use std::time::Duration;

use patchboard_proto::pb::CleanupSessionRequest;
use tokio::sync::Semaphore;

use super::{Pool, Worker};

const ANSWER: Duration = Duration::from_secs(5);
/// Sessions may expire by the thousand; workers are told of so many at once.
const AT_ONCE: usize = 16;
/// Further ones are not told at all: the workers keep what they have of them until they end.
const MAX_WAITING: usize = 10_000;

/// Keeps the ends of many sessions from drowning the work on others.
#[derive(Debug)]
pub(in crate::worker) struct Farewells {
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

impl Default for Farewells {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(AT_ONCE)), places: Arc::new(Semaphore::new(MAX_WAITING)) }
    }
}

impl Pool {
    /// Tells the workers that saw it, in their own time.
    pub(in crate::worker) fn session_over(&self, session: &str) {
        let workers: Vec<Arc<Worker>> = {
            let mut state = self.state();
            let seen = state.dispatch.forget_session(session);
            seen.into_iter().filter_map(|worker| state.worker(worker)).collect()
        };
        for worker in workers {
            let Ok(place) = self.farewells.places.clone().try_acquire_owned() else { return };
            let turns = self.farewells.turns.clone();
            let request = CleanupSessionRequest { session_id: session.to_owned(), force: false };
            self.common.tasks.spawn(async move {
                let _place = place;
                let telling = async {
                    let Ok(_turn) = turns.acquire().await else { return };
                    let mut client = worker.link.client();
                    let told = tokio::time::timeout(ANSWER, client.cleanup_session(request)).await;
                    if !matches!(told, Ok(Ok(_))) {
                        tracing::debug!(worker.id = %worker.id, "could not be told that a session is over");
                    }
                };
                tokio::select! {
                    () = telling => {}
                    () = worker.gone.cancelled() => {}
                }
            });
        }
    }
}
