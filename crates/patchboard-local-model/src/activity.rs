//! Who uses the server, and since when nobody has. Decides when it may sleep; knows no process and no clock of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Shared by everything that uses the server and by the task that keeps its process.
#[derive(Debug, Clone)]
pub(super) struct ServerActivity {
    shared: Arc<ActivityShared>,
}

#[derive(Debug)]
struct ActivityShared {
    state: Mutex<ActivityCounts>,
    /// A call began or ended.
    changed: Notify,
}

#[derive(Debug, Clone, Copy)]
struct ActivityCounts {
    calls: u32,
    /// Calls that ever began; tells one that came after a failed start from one that has heard of it.
    started: u64,
    /// When the last call ended.
    idle_since: Instant,
}

/// Keeps the server awake until it is dropped.
#[derive(Debug)]
pub struct ServerLease {
    activity: ServerActivity,
    /// Which call this is, from 1.
    pub(super) number: u64,
}

/// What the keeper of the process does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleState {
    /// Somebody uses it.
    Busy,
    /// Nobody does; look again after this long.
    RecheckAfter(Duration),
    /// It has been unused for long enough.
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

    /// Counts from now, as after a call.
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

    /// May it sleep at `now`?
    pub(super) fn idle_state(&self, now: Instant, idle_after: Duration) -> IdleState {
        let state = *self.state();
        let quiet = now.saturating_duration_since(state.idle_since);
        match idle_after.saturating_sub(quiet) {
            _ if state.calls > 0 => IdleState::Busy,
            Duration::ZERO => IdleState::Expired,
            left => IdleState::RecheckAfter(left),
        }
    }

    /// Resolves when a call has begun or ended since the last time; one listener at a time.
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
