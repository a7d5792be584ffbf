//! One call: a fresh instance on the machine's own threads, within its bounds, and a sentence when it breaks.

use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::engine::CallSlot;
use crate::imports;
use crate::machine::PluginMachine;
use crate::rights::PluginLimits;
use crate::state::{CallState, GuestCall, GuestOutputTail};
use crate::text::printable;

mod failure;

pub(crate) use failure::{GuestFailure, OutputTooLarge};

/// What a guest may hand to the host at once, whatever the limit of its result is.
const MAX_HOSTCALL_BYTES: usize = 8 * 1024 * 1024;
/// Handles to resources of the host or of its own.
const MAX_HANDLES: usize = 10_000;

/// Instructions, about, that a guest may take on the thread of whoever asks before it goes on elsewhere: some 30 µs.
const INLINE_FUEL: u64 = 50_000;

/// What to do with a fresh instance.
pub(crate) type GuestEntry<T> =
    Box<dyn for<'a> FnOnce(&'a mut Store<CallState>, Instance) -> GuestFuture<'a, T> + Send>;
pub(crate) type GuestFuture<'a, T> = BoxFuture<'a, wasmtime::Result<T>>;

impl PluginMachine {
    /// Dropping the future ends the guest at its next tick. A plugin whose calls are done in a blink is called right
    /// here; all others, and a call that takes longer than expected, on the machine's own threads.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        pre: InstancePre<CallState>,
        caller: GuestCall,
        limits: PluginLimits,
        entry: GuestEntry<T>,
    ) -> Result<T, GuestFailure> {
        if caller.stop.is_cancelled() {
            return Err(GuestFailure::Cancelled);
        }
        let turn = self
            .slots()
            .acquire(&caller.quota, limits.time, &caller.stop)
            .await
            .map_err(|none| GuestFailure::from_admission(&none, limits.time))?;
        let ticking = self.tick();
        let pace = caller.pace.clone();
        let is_quick = pace.is_quick();
        let slice = is_quick.then_some(INLINE_FUEL);
        let work = async move {
            let _ticking = ticking;
            run_guest(&pre, caller, &limits, turn, entry, slice).await
        };
        let mut work = Box::pin(work.in_current_span());
        if is_quick {
            // The guest gives way after a slice, so whoever asks is not held up for longer than waking a thread takes.
            if let Poll::Ready((ended, took, store)) = futures_util::poll!(work.as_mut()) {
                pace.record(took);
                drop(store);
                return ended;
            }
            pace.reset();
        }
        let (answer, answered) = oneshot::channel();
        let task = AbortOnDropHandle::new(self.threads().spawn(async move {
            let (ended, took, store) = work.await;
            pace.record(took);
            // Nobody waits for the instance to be cleared away.
            drop(answer.send(ended));
            drop(store);
        }));
        match answered.await {
            Ok(ended) => ended,
            Err(_) => Err(GuestFailure::HostError(
                task.await.map_or_else(|error| error.to_string(), |()| "no answer".to_owned()),
            )),
        }
    }
}

async fn run_guest<T>(
    pre: &InstancePre<CallState>,
    caller: GuestCall,
    limits: &PluginLimits,
    turn: CallSlot,
    entry: GuestEntry<T>,
    slice: Option<u64>,
) -> (Result<T, GuestFailure>, Duration, Store<CallState>) {
    let began = Instant::now();
    let mut store = Store::new(pre.engine(), CallState::new(caller, limits, turn));
    store.limiter(|state| &mut state.limiter);
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    store.set_hostcall_fuel(limits.output.max(MAX_HOSTCALL_BYTES));
    store.set_max_component_handles(MAX_HANDLES);
    if let Err(error) = store.set_fuel(limits.fuel).and_then(|()| store.fuel_async_yield_interval(slice)) {
        return (Err(GuestFailure::HostError(error.to_string())), began.elapsed(), store);
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
            done = work => done.map_err(CallEnd::Trapped),
            () = stop.cancelled() => Err(CallEnd::Cancelled),
            () = tokio::time::sleep_until(deadline.into()) => Err(CallEnd::TimedOut),
        }
    };
    let state = store.data();
    log_guest_output(state);
    imports::log_dropped_lines(state);
    let ended = ended.map_err(|ended| match ended {
        CallEnd::Trapped(error) => failure::classify(&error, state, limits),
        CallEnd::Cancelled => GuestFailure::Cancelled,
        CallEnd::TimedOut => GuestFailure::Time(limits.time),
    });
    (ended, began.elapsed(), store)
}

enum CallEnd {
    Trapped(wasmtime::Error),
    Cancelled,
    TimedOut,
}

fn log_guest_output(state: &CallState) {
    let plugin = &*state.rights.plugin;
    let log = |stream: &'static str, tail: &GuestOutputTail| {
        if !tail.is_empty() && tracing::enabled!(target: "plugin", tracing::Level::DEBUG) {
            for line in tail.text().lines() {
                tracing::debug!(target: "plugin", plugin, stream, "{}", printable(line));
            }
        }
    };
    log("stdout", &state.stdout);
    log("stderr", &state.stderr);
}

/// What a result weighs must not be more than that.
pub(crate) fn check_output_size(bytes: usize, limit: usize) -> wasmtime::Result<()> {
    match bytes <= limit {
        true => Ok(()),
        false => Err(OutputTooLarge.into()),
    }
}
