//! The bounded table of sessions, each with its active requests. Time is passed in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use patchboard_core::caller::Caller;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::wire::RpcError;
use crate::limit::{RateLimit, TokenBucket};

/// Concurrent sessions; a further one evicts the longest idle one, or is refused if none may be evicted.
pub(super) const MAX_SESSIONS: usize = 256;
/// Sessions end after this idle time.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Sessions used more recently than this are not evicted.
pub(super) const MIN_IDLE_TO_EVICT: Duration = Duration::from_secs(60);
/// Concurrent requests of one session; further ones are refused.
pub(super) const MAX_ACTIVE_REQUESTS: usize = 64;
/// New sessions of all clients together.
const SESSION_START_RATE: RateLimit = RateLimit { per_second: 20.0, burst: 100.0 };

#[derive(Debug)]
pub(super) struct McpSessions {
    table: Mutex<McpSessionTable>,
}

#[derive(Debug)]
struct McpSessionTable {
    open: HashMap<Arc<str>, Arc<McpSession>>,
    start_bucket: TokenBucket,
}

#[derive(Debug)]
pub(super) struct McpSession {
    pub(super) id: Arc<str>,
    pub(super) caller: Caller,
    state: Mutex<SessionState>,
}

#[derive(Debug)]
struct SessionState {
    used_at: Duration,
    bucket: TokenBucket,
    active_requests: HashMap<String, CancellationToken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionRefusal {
    RateExceeded,
    Full,
}

impl Default for McpSessions {
    fn default() -> Self {
        let table = McpSessionTable {
            open: HashMap::new(),
            start_bucket: TokenBucket::new(SESSION_START_RATE, Duration::ZERO),
        };
        Self { table: Mutex::new(table) }
    }
}

impl McpSessions {
    /// `rate` limits the session's requests.
    pub(super) fn begin(
        &self,
        caller: Caller,
        rate: RateLimit,
        now: Duration,
    ) -> Result<Arc<McpSession>, SessionRefusal> {
        let mut table = self.lock_table();
        if !table.start_bucket.take(now) {
            return Err(SessionRefusal::RateExceeded);
        }
        table.open.retain(|_, session| session.idle_for(now) < IDLE_TIMEOUT || session.is_busy());
        if table.open.len() >= MAX_SESSIONS {
            let idle =
                table.open.values().filter(|session| session.idle_for(now) >= MIN_IDLE_TO_EVICT && !session.is_busy());
            let idlest = idle.max_by_key(|session| session.idle_for(now)).map(|session| session.id.clone());
            table.open.remove(&idlest.ok_or(SessionRefusal::Full)?);
        }
        let session = Arc::new(McpSession {
            // The id is unguessable, but does not authenticate: `McpService::session` also compares the principal.
            id: Uuid::new_v4().simple().to_string().into(),
            caller,
            state: Mutex::new(SessionState {
                used_at: now,
                bucket: TokenBucket::new(rate, now),
                active_requests: HashMap::new(),
            }),
        });
        table.open.insert(session.id.clone(), session.clone());
        Ok(session)
    }

    pub(super) fn find(&self, id: &str, now: Duration) -> Option<Arc<McpSession>> {
        let mut table = self.lock_table();
        let session = table.open.get(id)?.clone();
        if session.idle_for(now) >= IDLE_TIMEOUT && !session.is_busy() {
            table.open.remove(id);
            return None;
        }
        session.lock_state().used_at = now;
        Some(session)
    }

    /// Ends the session and cancels its active requests.
    pub(super) fn end(&self, session: &McpSession) {
        self.lock_table().open.remove(&session.id);
        for (_, stop) in session.lock_state().active_requests.drain() {
            stop.cancel();
        }
    }

    fn lock_table(&self) -> MutexGuard<'_, McpSessionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl McpSession {
    /// Whether the rate limit permits another request.
    pub(super) fn take_rate_token(&self, now: Duration) -> bool {
        self.lock_state().bucket.take(now)
    }

    /// Registers a request; it stays active until the `ActiveRequest` is dropped.
    pub(super) fn begin_request(self: &Arc<Self>, id: &Value) -> Result<ActiveRequest, RpcError> {
        let key = id.to_string();
        let mut state = self.lock_state();
        if state.active_requests.len() >= MAX_ACTIVE_REQUESTS {
            return Err(RpcError::server("too many requests at once in this session"));
        }
        if state.active_requests.contains_key(&key) {
            return Err(RpcError::new(RpcError::INVALID_REQUEST, "a request of that id is under way"));
        }
        let stop = CancellationToken::new();
        state.active_requests.insert(key.clone(), stop.clone());
        drop(state);
        Ok(ActiveRequest { session: self.clone(), key, stop })
    }

    /// Unknown ids are ignored: the request has been answered already.
    pub(super) fn cancel(&self, id: &Value) {
        if let Some(stop) = self.lock_state().active_requests.get(&id.to_string()) {
            stop.cancel();
        }
    }

    fn idle_for(&self, now: Duration) -> Duration {
        now.saturating_sub(self.lock_state().used_at)
    }

    fn is_busy(&self) -> bool {
        !self.lock_state().active_requests.is_empty()
    }

    fn lock_state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in progress; cancelled on drop unless it has completed.
#[derive(Debug)]
pub(super) struct ActiveRequest {
    session: Arc<McpSession>,
    key: String,
    stop: CancellationToken,
}

impl ActiveRequest {
    pub(super) fn cancel_token(&self) -> CancellationToken {
        self.stop.clone()
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.session.lock_state().active_requests.remove(&self.key);
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests;
