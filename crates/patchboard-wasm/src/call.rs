//! Runs one call: a fresh instance on the plugin threads, within the limits, with an error text for every failure.

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

/// Bytes that a guest may pass to a host function at once, whatever its output limit.
const MAX_HOSTCALL_BYTES: usize = 8 * 1024 * 1024;
/// Resource handles of one call.
const MAX_HANDLES: usize = 10_000;

/// Approximate number of instructions that a guest may execute on the caller's thread before it moves to a plugin
/// thread: about 30 µs.
const INLINE_FUEL: u64 = 50_000;

/// The function to run on a fresh instance.
pub(crate) type GuestEntry<T> =
    Box<dyn for<'a> FnOnce(&'a mut Store<CallState>, Instance) -> GuestFuture<'a, T> + Send>;
pub(crate) type GuestFuture<'a, T> = BoxFuture<'a, wasmtime::Result<T>>;

impl PluginMachine {
    /// Dropping the future stops the guest at its next tick. Plugins with quick calls start on the caller's thread; all
    /// other calls, and quick ones that exceed their slice, run on the plugin threads.
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
        let slot = self
            .slots()
            .acquire(&caller.quota, limits.time, &caller.stop)
            .await
            .map_err(|error| GuestFailure::from_admission(&error, limits.time))?;
        let tick_guard = self.tick();
        let pace = caller.pace.clone();
        let is_quick = pace.is_quick();
        let slice = is_quick.then_some(INLINE_FUEL);
        let work = async move {
            let _tick_guard = tick_guard;
            run_guest(&pre, caller, &limits, slot, entry, slice).await
        };
        let mut work = Box::pin(work.in_current_span());
        if is_quick {
            // The guest yields after its slice, so the caller is delayed no longer than by waking another thread.
            if let Poll::Ready((result, duration, store)) = futures_util::poll!(work.as_mut()) {
                pace.record(duration);
                drop(store);
                return result;
            }
            pace.reset();
        }
        let (sender, receiver) = oneshot::channel();
        let task = AbortOnDropHandle::new(self.threads().spawn(async move {
            let (result, duration, store) = work.await;
            pace.record(duration);
            // The result is sent first, so that the caller does not wait for the instance's teardown.
            drop(sender.send(result));
            drop(store);
        }));
        match receiver.await {
            Ok(result) => result,
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
    slot: CallSlot,
    entry: GuestEntry<T>,
    slice: Option<u64>,
) -> (Result<T, GuestFailure>, Duration, Store<CallState>) {
    let started = Instant::now();
    let mut store = Store::new(pre.engine(), CallState::new(caller, limits, slot));
    store.limiter(|state| &mut state.limiter);
    // The guest yields to the executor at every tick.
    // The guest yields to the executor at every tick.
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    store.set_hostcall_fuel(limits.output.max(MAX_HOSTCALL_BYTES));
    store.set_max_component_handles(MAX_HANDLES);
    if let Err(error) = store.set_fuel(limits.fuel).and_then(|()| store.fuel_async_yield_interval(slice)) {
        return (Err(GuestFailure::HostError(error.to_string())), started.elapsed(), store);
    }
    let (deadline, stop) = (store.data().deadline, store.data().stop.clone());
    let result = {
        let work = async {
            let instance = pre.instantiate_async(&mut store).await?;
            entry(&mut store, instance).await
        };
        // The guest is polled first, because most calls complete at once. It yields at every tick, so the other
        // branches are reached.
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
    let result = result.map_err(|result| match result {
        CallEnd::Trapped(error) => failure::classify(&error, state, limits),
        CallEnd::Cancelled => GuestFailure::Cancelled,
        CallEnd::TimedOut => GuestFailure::Time(limits.time),
    });
    (result, started.elapsed(), store)
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

/// Checks the size of a result against its limit.
pub(crate) fn check_output_size(bytes: usize, limit: usize) -> wasmtime::Result<()> {
    match bytes <= limit {
        true => Ok(()),
        false => Err(OutputTooLarge.into()),
    }
}
