//! The clock that makes guests give way: a thread that ticks while calls are under way and sleeps otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// A guest runs so long before others have their turn.
const TICK: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct EpochTicker {
    shared: Arc<TickerState>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct TickerState {
    calls: AtomicUsize,
    is_stopped: AtomicBool,
}

impl EpochTicker {
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let shared = Arc::new(TickerState::default());
        let ticking = shared.clone();
        let thread = thread::Builder::new().name("wasm-tick".to_owned()).stack_size(128 * 1024).spawn(move || {
            while !ticking.is_stopped.load(Ordering::Acquire) {
                match ticking.calls.load(Ordering::Acquire) {
                    0 => thread::park(),
                    _ => {
                        thread::sleep(TICK);
                        engine.increment_epoch();
                    }
                }
            }
        })?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// Ticks as long as the guard lives. Cheap when it ticks already: a wake-up is paid at most once a tick.
    pub(crate) fn tick(&self) -> TickGuard {
        if self.shared.calls.fetch_add(1, Ordering::AcqRel) == 0 {
            self.thread.unpark();
        }
        TickGuard { shared: self.shared.clone() }
    }
}

impl Drop for EpochTicker {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

#[derive(Debug)]
pub(crate) struct TickGuard {
    shared: Arc<TickerState>,
}

impl Drop for TickGuard {
    fn drop(&mut self) {
        self.shared.calls.fetch_sub(1, Ordering::AcqRel);
    }
}
