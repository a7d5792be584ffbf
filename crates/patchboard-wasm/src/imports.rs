//! What plugins may call. Each function asks the plugin's rights anew, says no with a reason, and never blocks a thread.

mod clock;
mod functions;
pub(crate) mod http;
mod log;
mod random;
mod settings;
mod store;

use std::future::Future;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use wasmtime::component::{HasSelf, Linker};

use crate::state::CallState;
use crate::world::ToolAndChannel;

pub(crate) use log::log_dropped_lines;

/// Between two pauses a call may ask the host so often; a guest that does nothing else shares its thread all the same.
const CALLS_BETWEEN_YIELDS: u32 = 64;
/// Of one call so many different refusals are logged; the plugin is told of all.
const MAX_LOGGED_REFUSALS: usize = 16;

/// All interfaces of `patchboard:plugin` that a component may import.
pub(crate) fn add_to_linker(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    ToolAndChannel::add_to_linker::<_, HasSelf<_>>(linker, |state| state)
}

/// Why a host function does not return to the guest at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallAborted {
    #[error("the call's time is over")]
    OutOfTime,
    #[error("the call was cancelled")]
    Cancelled,
}

impl CallState {
    /// The first thing every host function does: a guest that only ever asks the host ends too, and lets others run.
    async fn begin_host_call(&mut self) -> wasmtime::Result<()> {
        self.host_calls.calls = self.host_calls.calls.wrapping_add(1);
        if self.host_calls.calls.is_multiple_of(CALLS_BETWEEN_YIELDS) {
            tokio::task::yield_now().await;
        }
        Ok(check_not_aborted(self.deadline, &self.stop)?)
    }

    /// Says in the log what the plugin was refused: once for each `what` of a call. Returns the reason, for the plugin.
    fn log_refusal(&mut self, what: &str, reason: String) -> String {
        if self.host_calls.refused.len() < MAX_LOGGED_REFUSALS && self.host_calls.refused.insert(what.to_owned()) {
            tracing::warn!(target: "plugin", plugin = %self.rights.plugin, "refused: {}", log::one_line(&reason));
        }
        reason
    }
}

fn check_not_aborted(deadline: Instant, stop: &CancellationToken) -> Result<(), CallAborted> {
    match (stop.is_cancelled(), Instant::now() >= deadline) {
        (true, _) => Err(CallAborted::Cancelled),
        (false, true) => Err(CallAborted::OutOfTime),
        (false, false) => Ok(()),
    }
}

/// Waits as long as the call may still last.
async fn until_deadline<T>(
    deadline: Instant,
    stop: &CancellationToken,
    work: impl Future<Output = T>,
) -> Result<T, CallAborted> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(CallAborted::Cancelled),
        done = tokio::time::timeout_at(deadline.into(), work) => done.map_err(|_| CallAborted::OutOfTime),
    }
}

#[cfg(test)]
mod tests;
