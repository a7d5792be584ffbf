//! Increments the engine's epoch so that guests yield: a thread that ticks while calls run and is parked otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// Longest time a guest runs before it yields.
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

    /// Ticks while the guard lives. Cheap if it is ticking already: the thread is unparked at most once per tick.
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
