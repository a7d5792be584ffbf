//! One call: a fresh instance on the machine's own threads, within its bounds, and a sentence when it breaks.

use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::engine::{Machine, Turn};
use crate::imports;
use crate::rights::PluginLimits;
use crate::state::{CallState, Caller, Tail};

mod failure;

pub(crate) use failure::{Failure, TooMuch, size};

/// What a guest may hand to the host at once, whatever the limit of its result is.
const HANDED_OVER: usize = 8 * 1024 * 1024;
/// Handles to resources of the host or of its own.
const HANDLES: usize = 10_000;

/// Instructions, about, that a guest may take on the thread of whoever asks before it goes on elsewhere: some 30 µs.
const FIRST_SLICE: u64 = 50_000;

/// What to do with a fresh instance.
pub(crate) type Entry<T> = Box<dyn for<'a> FnOnce(&'a mut Store<CallState>, Instance) -> Doing<'a, T> + Send>;
pub(crate) type Doing<'a, T> = BoxFuture<'a, wasmtime::Result<T>>;

impl Machine {
    /// Dropping the future ends the guest at its next tick. A plugin whose calls are done in a blink is called right
    /// here; all others, and a call that takes longer than expected, on the machine's own threads.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        pre: InstancePre<CallState>,
        caller: Caller,
        limits: PluginLimits,
        entry: Entry<T>,
    ) -> Result<T, Failure> {
        if caller.stop.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let turn = self
            .turns()
            .take(&caller.share, limits.time, &caller.stop)
            .await
            .map_err(|none| Failure::of_turn(&none, limits.time))?;
        let ticking = self.tick();
        let pace = caller.pace.clone();
        let is_quick = pace.is_quick();
        let slice = is_quick.then_some(FIRST_SLICE);
        let work = async move {
            let _ticking = ticking;
            call(&pre, caller, &limits, turn, entry, slice).await
        };
        let mut work = Box::pin(work.in_current_span());
        if is_quick {
            // The guest gives way after a slice, so whoever asks is not held up for longer than waking a thread takes.
            if let Poll::Ready((ended, took, store)) = futures_util::poll!(work.as_mut()) {
                pace.note(took);
                drop(store);
                return ended;
            }
            pace.was_slow();
        }
        let (answer, answered) = oneshot::channel();
        let task = AbortOnDropHandle::new(self.threads().spawn(async move {
            let (ended, took, store) = work.await;
            pace.note(took);
            // Nobody waits for the instance to be cleared away.
            drop(answer.send(ended));
            drop(store);
        }));
        match answered.await {
            Ok(ended) => ended,
            Err(_) => {
                Err(Failure::Lost(task.await.map_or_else(|error| error.to_string(), |()| "no answer".to_owned())))
            }
        }
    }
}

async fn call<T>(
    pre: &InstancePre<CallState>,
    caller: Caller,
    limits: &PluginLimits,
    turn: Turn,
    entry: Entry<T>,
    slice: Option<u64>,
) -> (Result<T, Failure>, Duration, Store<CallState>) {
    let began = Instant::now();
    let mut store = Store::new(pre.engine(), CallState::new(caller, limits, turn));
    store.limiter(|state| &mut state.limiter);
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    store.set_hostcall_fuel(limits.output.max(HANDED_OVER));
    store.set_max_component_handles(HANDLES);
    if let Err(error) = store.set_fuel(limits.fuel).and_then(|()| store.fuel_async_yield_interval(slice)) {
        return (Err(Failure::Lost(error.to_string())), began.elapsed(), store);
    }
    let (deadline, stop) = (store.data().deadline, store.data().stop.clone());
    let ended = {
        let work = async {
            let instance = pre.instantiate_async(&mut store).await?;
            entry(&mut store, instance).await
        };
        // The guest first: most are done before anything else has to be looked at. It gives way at every tick.
        tokio::select! {
            biased;
            done = work => done.map_err(Ended::Broke),
            () = stop.cancelled() => Err(Ended::Stopped),
            () = tokio::time::sleep_until(deadline.into()) => Err(Ended::Late),
        }
    };
    let state = store.data();
    log_printed(state);
    imports::tell_dropped(state);
    let ended = ended.map_err(|ended| match ended {
        Ended::Broke(error) => failure::explain(&error, state, limits),
        Ended::Stopped => Failure::Cancelled,
        Ended::Late => Failure::Time(limits.time),
    });
    (ended, began.elapsed(), store)
}

enum Ended {
    Broke(wasmtime::Error),
    Stopped,
    Late,
}

fn log_printed(state: &CallState) {
    let plugin = &*state.rights.plugin;
    let log = |stream: &'static str, tail: &Tail| {
        if !tail.is_empty() && tracing::enabled!(target: "plugin", tracing::Level::DEBUG) {
            for line in tail.text().lines() {
                tracing::debug!(target: "plugin", plugin, stream, "{}", failure::printable(line));
            }
        }
    };
    log("stdout", &state.printed);
    log("stderr", &state.complained);
}

/// What a result weighs must not be more than that.
pub(crate) fn within(bytes: usize, limit: usize) -> wasmtime::Result<()> {
    match bytes <= limit {
        true => Ok(()),
        false => Err(TooMuch.into()),
    }
}

/// For sentences: `30 s`, `250 ms`.
pub(crate) fn seconds(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        _ => format!("{} ms", time.as_millis()),
    }
}
