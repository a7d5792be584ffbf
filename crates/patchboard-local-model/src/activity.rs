//! Counts active calls and idle time, and decides when the server may sleep. Pure: uses neither processes nor a clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Shared by all users of the server and by the supervisor of its process.
#[derive(Debug, Clone)]
pub(super) struct ServerActivity {
    shared: Arc<ActivityShared>,
}

#[derive(Debug)]
struct ActivityShared {
    state: Mutex<ActivityCounts>,
    /// Notified when a call begins or ends.
    changed: Notify,
}

#[derive(Debug, Clone, Copy)]
struct ActivityCounts {
    calls: u32,
    /// Number of calls ever started; distinguishes a call that began after a failed start from one that has received
    /// its error.
    started: u64,
    /// When the last call ended.
    idle_since: Instant,
}

/// Keeps the server running until it is dropped.
#[derive(Debug)]
pub struct ServerLease {
    activity: ServerActivity,
    /// Number of this call, from 1.
    pub(super) number: u64,
}

/// What the supervisor does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleState {
    /// Calls are active.
    Busy,
    /// Idle, but not long enough; check again after this time.
    RecheckAfter(Duration),
    /// Idle for long enough.
    Expired,
}

impl ServerActivity {
    pub(super) fn new(now: Instant) -> Self {
        let state = ActivityCounts { calls: 0, started: 0, idle_since: now };
        Self { shared: Arc::new(ActivityShared { state: Mutex::new(state), changed: Notify::new() }) }
    }

    pub(super) fn acquire(&self) -> ServerLease {
        let number = {
            let mut state = self.state();
            state.calls = state.calls.saturating_add(1);
            state.started = state.started.saturating_add(1);
            state.started
        };
        self.shared.changed.notify_one();
        ServerLease { activity: self.clone(), number }
    }

    /// Restarts the idle time at `now`, as the end of a call does.
    pub(super) fn touch(&self, now: Instant) {
        self.state().idle_since = now;
    }

    fn release(&self, now: Instant) {
        {
            let mut state = self.state();
            state.calls = state.calls.saturating_sub(1);
            state.idle_since = now;
        }
        self.shared.changed.notify_one();
    }

    pub(super) fn calls_started(&self) -> u64 {
        self.state().started
    }

    /// Whether the server may sleep at `now`.
    pub(super) fn idle_state(&self, now: Instant, idle_after: Duration) -> IdleState {
        let state = *self.state();
        let quiet = now.saturating_duration_since(state.idle_since);
        match idle_after.saturating_sub(quiet) {
            _ if state.calls > 0 => IdleState::Busy,
            Duration::ZERO => IdleState::Expired,
            left => IdleState::RecheckAfter(left),
        }
    }

    /// Resolves when a call has begun or ended since the last time. Supports one waiter at a time.
    pub(super) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, ActivityCounts> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ServerLease {
    fn drop(&mut self) {
        self.activity.release(Instant::now());
    }
}
