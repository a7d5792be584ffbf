//! Why a call failed, and its error text.

use std::time::Duration;

use patchboard_core::tool::{ToolFault, ToolOutput};
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::MAX_HOSTCALL_BYTES;
use crate::engine::SlotError;
use crate::imports;
use crate::rights::PluginLimits;
use crate::state::CallState;
use crate::telemetry::GuestCallOutcome;
use crate::text::{format_duration, format_size, printable};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GuestFailure {
    Time(Duration),
    Memory(usize),
    Fuel(u64),
    Output(usize),
    /// The guest passed too many bytes to a host function at once.
    HostcallData(usize),
    Stack,
    /// The guest's final output, if any.
    Panic(Option<String>),
    Exit(i32),
    /// Any other trap.
    Trap(String),
    Cancelled,
    QueueFull,
    QueueTimeout(Duration),
    /// The host failed, not the guest.
    HostError(String),
}

/// A result that exceeds the output limit.
#[derive(Debug, thiserror::Error)]
#[error("the result is too large")]
pub(crate) struct OutputTooLarge;

impl GuestFailure {
    pub(super) fn from_admission(none: &SlotError, longest: Duration) -> Self {
        match none {
            SlotError::QueueFull => Self::QueueFull,
            SlotError::TimedOut => Self::QueueTimeout(longest),
            SlotError::Cancelled => Self::Cancelled,
        }
    }

    pub(crate) fn message(&self, plugin: &str) -> String {
        match self {
            Self::Time(limit) => format!("plugin {plugin} ran longer than {}", format_duration(*limit)),
            Self::Memory(limit) => format!("plugin {plugin} used more than {} of memory", format_size(*limit)),
            Self::Fuel(limit) => format!("plugin {plugin} ran out of fuel ({limit})"),
            Self::Output(limit) => format!("plugin {plugin} returned more than {}", format_size(*limit)),
            Self::HostcallData(limit) => {
                format!("plugin {plugin} handed more than {} to the host at once", format_size(*limit))
            }
            Self::Stack => format!("plugin {plugin} recursed too deep"),
            Self::Panic(Some(words)) => format!("plugin {plugin} panicked: {words}"),
            Self::Panic(None) => format!("plugin {plugin} panicked"),
            Self::Exit(code) => format!("plugin {plugin} ended itself with exit code {code}"),
            Self::Trap(reason) => format!("plugin {plugin} broke: {reason}"),
            Self::Cancelled => "cancelled".to_owned(),
            Self::QueueFull => "too many plugin calls wait".to_owned(),
            Self::QueueTimeout(longest) => {
                format!("a call of plugin {plugin} waited {} for its turn", format_duration(*longest))
            }
            Self::HostError(reason) => format!("a call of plugin {plugin} was lost: {reason}"),
        }
    }

    pub(crate) fn output(&self, plugin: &str) -> ToolOutput {
        let fault = match self {
            Self::Time(_) => ToolFault::TimedOut,
            Self::Cancelled => ToolFault::Cancelled,
            Self::QueueFull => ToolFault::Saturated,
            Self::QueueTimeout(_) => ToolFault::QueueTimeout,
            Self::Memory(_)
            | Self::Fuel(_)
            | Self::Output(_)
            | Self::HostcallData(_)
            | Self::Stack
            | Self::Panic(_)
            | Self::Exit(_)
            | Self::Trap(_)
            | Self::HostError(_) => ToolFault::Internal,
        };
        ToolOutput::fault(fault, self.message(plugin))
    }

    pub(crate) fn outcome(&self) -> GuestCallOutcome {
        match self {
            Self::Time(_) => GuestCallOutcome::Time,
            Self::Memory(_) => GuestCallOutcome::Memory,
            Self::Fuel(_) => GuestCallOutcome::Fuel,
            Self::Output(_) | Self::HostcallData(_) => GuestCallOutcome::Output,
            Self::Stack | Self::Panic(_) | Self::Exit(_) | Self::Trap(_) | Self::HostError(_) => {
                GuestCallOutcome::Trapped
            }
            Self::Cancelled => GuestCallOutcome::Cancelled,
            Self::QueueFull | Self::QueueTimeout(_) => GuestCallOutcome::Refused,
        }
    }
}

/// Determines the failure from wasmtime's error and the state of the call.
pub(super) fn classify(error: &wasmtime::Error, state: &CallState, limits: &PluginLimits) -> GuestFailure {
    if let Some(ended) = error.downcast_ref::<imports::CallAborted>() {
        return match ended {
            imports::CallAborted::OutOfTime => GuestFailure::Time(limits.time),
            imports::CallAborted::Cancelled => GuestFailure::Cancelled,
        };
    }
    if error.is::<OutputTooLarge>() {
        return GuestFailure::Output(limits.output);
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return GuestFailure::QueueFull;
    }
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return GuestFailure::Exit(*code);
    }
    // wasmtime does not export this error's type.
    if error.root_cause().to_string().contains("fuel allocated for hostcalls") {
        let at_work = error.downcast_ref::<WasmBacktrace>().is_some_and(|trace| !trace.frames().is_empty());
        return match at_work {
            true => GuestFailure::HostcallData(limits.output.max(MAX_HOSTCALL_BYTES)),
            false => GuestFailure::Output(limits.output),
        };
    }
    let trap = error.downcast_ref::<Trap>().copied();
    match trap {
        Some(Trap::OutOfFuel) => GuestFailure::Fuel(limits.fuel),
        Some(Trap::StackOverflow) => GuestFailure::Stack,
        // Any trap after a refused allocation is caused by it.
        _ if state.limiter.was_refused => GuestFailure::Memory(limits.memory),
        Some(Trap::UnreachableCodeReached) => GuestFailure::Panic(panic_message(&state.stderr.text())),
        // Languages with a shadow stack in linear memory overflow it this way.
        Some(Trap::MemoryOutOfBounds) => {
            GuestFailure::Trap("out of bounds memory access, or recursion too deep".to_owned())
        }
        Some(trap) => GuestFailure::Trap(trap.to_string().trim_start_matches("wasm trap: ").to_owned()),
        None => GuestFailure::Trap(printable(&error.root_cause().to_string())),
    }
}

/// The last line of standard error that is not a `note:`.
fn panic_message(text: &str) -> Option<String> {
    let is_message = |line: &&str| !line.is_empty() && !line.starts_with("note: ");
    text.lines().map(str::trim).rfind(is_message).map(printable)
}

#[cfg(test)]
mod tests;
