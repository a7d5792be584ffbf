//! Who uses the server, and since when nobody has. Decides when it may sleep; knows no process and no clock of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Shared by everything that uses the server and by the task that keeps its process.
#[derive(Debug, Clone)]
pub(super) struct Activity {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// A call began or ended.
    changed: Notify,
}

#[derive(Debug, Clone, Copy)]
struct State {
    calls: u32,
    /// Calls that ever began; tells one that came after a failed start from one that has heard of it.
    begun: u64,
    /// When the last call ended.
    quiet_since: Instant,
}

/// Keeps the server awake until it is dropped.
#[derive(Debug)]
pub struct Call {
    activity: Activity,
    /// Which call this is, from 1.
    pub(super) number: u64,
}

/// What the keeper of the process does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Somebody uses it.
    Busy,
    /// Nobody does; look again after this long.
    QuietFor(Duration),
    /// It has been unused for long enough.
    Due,
}

impl Activity {
    pub(super) fn new(now: Instant) -> Self {
        let state = State { calls: 0, begun: 0, quiet_since: now };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }) }
    }

    pub(super) fn begin(&self) -> Call {
        let number = {
            let mut state = self.state();
            state.calls = state.calls.saturating_add(1);
            state.begun = state.begun.saturating_add(1);
            state.begun
        };
        self.shared.changed.notify_one();
        Call { activity: self.clone(), number }
    }

    /// Counts from now, as after a call.
    pub(super) fn touch(&self, now: Instant) {
        self.state().quiet_since = now;
    }

    fn end(&self, now: Instant) {
        {
            let mut state = self.state();
            state.calls = state.calls.saturating_sub(1);
            state.quiet_since = now;
        }
        self.shared.changed.notify_one();
    }

    pub(super) fn begun(&self) -> u64 {
        self.state().begun
    }

    /// May it sleep at `now`?
    pub(super) fn rest(&self, now: Instant, idle_after: Duration) -> Rest {
        let state = *self.state();
        let quiet = now.saturating_duration_since(state.quiet_since);
        match idle_after.saturating_sub(quiet) {
            _ if state.calls > 0 => Rest::Busy,
            Duration::ZERO => Rest::Due,
            left => Rest::QuietFor(left),
        }
    }

    /// Resolves when a call has begun or ended since the last time; one listener at a time.
    pub(super) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.activity.end(Instant::now());
    }
}
