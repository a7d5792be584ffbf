//! The host functions that plugins may call. Each checks the plugin's rights, explains a refusal, and never blocks a
//! thread.

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

/// Host calls between two yields, so that a guest that only calls the host still shares its thread.
const CALLS_BETWEEN_YIELDS: u32 = 64;
/// Distinct refusals logged per call; the plugin is informed of all.
const MAX_LOGGED_REFUSALS: usize = 16;

/// Adds all `patchboard:plugin` interfaces.
pub(crate) fn add_to_linker(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    ToolAndChannel::add_to_linker::<_, HasSelf<_>>(linker, |state| state)
}

/// Why a host function aborts the guest instead of returning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallAborted {
    #[error("the call's time limit is exceeded")]
    OutOfTime,
    #[error("the call was cancelled")]
    Cancelled,
}

impl CallState {
    /// Must be the first step of every host function: makes guests that only call the host yield, and end on
    /// cancellation and timeout.
    async fn begin_host_call(&mut self) -> wasmtime::Result<()> {
        self.host_calls.calls = self.host_calls.calls.wrapping_add(1);
        if self.host_calls.calls.is_multiple_of(CALLS_BETWEEN_YIELDS) {
            tokio::task::yield_now().await;
        }
        Ok(check_not_aborted(self.deadline, &self.stop)?)
    }

    /// Logs a refusal once per call and `what`. Returns the reason, for the plugin.
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

/// Waits for `work` until the call's deadline.
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
