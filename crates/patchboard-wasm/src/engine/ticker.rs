//! The clock that makes guests give way: a thread that ticks while calls are under way and sleeps otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// A guest runs so long before others have their turn.
const TICK: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    calls: AtomicUsize,
    over: AtomicBool,
}

impl Ticker {
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let ticking = shared.clone();
        let thread = thread::Builder::new().name("wasm-tick".to_owned()).stack_size(128 * 1024).spawn(move || {
            while !ticking.over.load(Ordering::Acquire) {
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
    pub(crate) fn tick(&self) -> Ticking {
        if self.shared.calls.fetch_add(1, Ordering::AcqRel) == 0 {
            self.thread.unpark();
        }
        Ticking { shared: self.shared.clone() }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

#[derive(Debug)]
pub(crate) struct Ticking {
    shared: Arc<Shared>,
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.shared.calls.fetch_sub(1, Ordering::AcqRel);
    }
}
