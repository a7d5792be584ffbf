//! Sessions: as many as there are places for, each with the requests it waits for. Time is passed in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use patchboard_core::access::Caller;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::wire::Problem;
use crate::limit::{Bucket, Rate};

/// Sessions at once; a further one takes the place of one that has been idle, or is refused.
pub(super) const MAX_SESSIONS: usize = 256;
/// A session that nobody used for so long is over.
pub(super) const IDLE: Duration = Duration::from_secs(30 * 60);
/// A session that was used this recently keeps its place.
pub(super) const SETTLED: Duration = Duration::from_secs(60);
/// Requests of one session at once; a further one is refused.
pub(super) const MAX_CALLS: usize = 64;
/// Sessions begun by everybody together.
const BEGINNINGS: Rate = Rate { per_second: 20.0, burst: 100.0 };

#[derive(Debug)]
pub(super) struct Sessions {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    open: HashMap<Arc<str>, Arc<Session>>,
    beginnings: Bucket,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: Arc<str>,
    pub(super) caller: Caller,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    used_at: Duration,
    bucket: Bucket,
    calls: HashMap<String, CancellationToken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    TooFast,
    Full,
}

impl Default for Sessions {
    fn default() -> Self {
        let table = Table { open: HashMap::new(), beginnings: Bucket::new(BEGINNINGS, Duration::ZERO) };
        Self { table: Mutex::new(table) }
    }
}

impl Sessions {
    /// `rate` is that of the session's requests.
    pub(super) fn begin(&self, caller: Caller, rate: Rate, now: Duration) -> Result<Arc<Session>, NoPlace> {
        let mut table = self.table();
        if !table.beginnings.take(now) {
            return Err(NoPlace::TooFast);
        }
        table.open.retain(|_, session| session.idle_for(now) < IDLE || session.is_busy());
        if table.open.len() >= MAX_SESSIONS {
            let idle = table.open.values().filter(|session| session.idle_for(now) >= SETTLED && !session.is_busy());
            let idlest = idle.max_by_key(|session| session.idle_for(now)).map(|session| session.id.clone());
            table.open.remove(&idlest.ok_or(NoPlace::Full)?);
        }
        let session = Arc::new(Session {
            // Unguessable; still, it opens nothing to another principal.
            id: Uuid::new_v4().simple().to_string().into(),
            caller,
            inside: Mutex::new(Inside { used_at: now, bucket: Bucket::new(rate, now), calls: HashMap::new() }),
        });
        table.open.insert(session.id.clone(), session.clone());
        Ok(session)
    }

    pub(super) fn find(&self, id: &str, now: Duration) -> Option<Arc<Session>> {
        let mut table = self.table();
        let session = table.open.get(id)?.clone();
        if session.idle_for(now) >= IDLE && !session.is_busy() {
            table.open.remove(id);
            return None;
        }
        session.inside().used_at = now;
        Some(session)
    }

    /// Everything it waits for is cancelled.
    pub(super) fn end(&self, session: &Session) {
        self.table().open.remove(&session.id);
        for (_, stop) in session.inside().calls.drain() {
            stop.cancel();
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// May it ask once more, by its rate?
    pub(super) fn take_turn(&self, now: Duration) -> bool {
        self.inside().bucket.take(now)
    }

    /// A request that begins; it is over when the call is dropped.
    pub(super) fn call(self: &Arc<Self>, id: &Value) -> Result<Call, Problem> {
        let key = id.to_string();
        let mut inside = self.inside();
        if inside.calls.len() >= MAX_CALLS {
            return Err(Problem::server("too many requests at once in this session"));
        }
        if inside.calls.contains_key(&key) {
            return Err(Problem::new(Problem::INVALID_REQUEST, "a request of that id is under way"));
        }
        let stop = CancellationToken::new();
        inside.calls.insert(key.clone(), stop.clone());
        drop(inside);
        Ok(Call { session: self.clone(), key, stop })
    }

    /// An unknown request is one that has been answered already.
    pub(super) fn cancel(&self, id: &Value) {
        if let Some(stop) = self.inside().calls.get(&id.to_string()) {
            stop.cancel();
        }
    }

    fn idle_for(&self, now: Duration) -> Duration {
        now.saturating_sub(self.inside().used_at)
    }

    fn is_busy(&self) -> bool {
        !self.inside().calls.is_empty()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way. Dropped, it is cancelled, if it is not over.
#[derive(Debug)]
pub(super) struct Call {
    session: Arc<Session>,
    key: String,
    stop: CancellationToken,
}

impl Call {
    pub(super) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.session.inside().calls.remove(&self.key);
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests;
