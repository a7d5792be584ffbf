//! Why a call gave no answer, and the sentence that says so.

use std::time::Duration;

use patchboard_core::tool::{Fault, ToolOutput};
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::{HANDED_OVER, seconds};
use crate::engine::NoTurn;
use crate::imports;
use crate::rights::PluginLimits;
use crate::state::CallState;
use crate::telemetry::Outcome;

/// Of a guest's own words in a sentence.
const QUOTED_CHARS: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    Time(Duration),
    Memory(usize),
    Fuel(u64),
    Output(usize),
    /// It gave the host more at once than any call may, while it was at work.
    HandedOver(usize),
    Stack,
    /// What it said last, if it said anything.
    Panic(Option<String>),
    Exit(i32),
    /// Anything else it broke on.
    Trap(String),
    Cancelled,
    TooMany,
    Waited(Duration),
    /// The host failed, not the guest.
    Lost(String),
}

/// A result larger than results may be.
#[derive(Debug, thiserror::Error)]
#[error("the result is too large")]
pub(crate) struct TooMuch;

impl Failure {
    pub(super) fn of_turn(none: &NoTurn, longest: Duration) -> Self {
        match none {
            NoTurn::TooMany => Self::TooMany,
            NoTurn::Waited => Self::Waited(longest),
            NoTurn::Stopped => Self::Cancelled,
        }
    }

    pub(crate) fn sentence(&self, plugin: &str) -> String {
        match self {
            Self::Time(limit) => format!("plugin {plugin} ran longer than {}", seconds(*limit)),
            Self::Memory(limit) => format!("plugin {plugin} used more than {} of memory", size(*limit)),
            Self::Fuel(limit) => format!("plugin {plugin} ran out of fuel ({limit})"),
            Self::Output(limit) => format!("plugin {plugin} returned more than {}", size(*limit)),
            Self::HandedOver(limit) => format!("plugin {plugin} handed more than {} to the host at once", size(*limit)),
            Self::Stack => format!("plugin {plugin} recursed too deep"),
            Self::Panic(Some(words)) => format!("plugin {plugin} panicked: {words}"),
            Self::Panic(None) => format!("plugin {plugin} panicked"),
            Self::Exit(code) => format!("plugin {plugin} ended itself with exit code {code}"),
            Self::Trap(reason) => format!("plugin {plugin} broke: {reason}"),
            Self::Cancelled => "cancelled".to_owned(),
            Self::TooMany => "too many plugin calls wait".to_owned(),
            Self::Waited(longest) => format!("a call of plugin {plugin} waited {} for its turn", seconds(*longest)),
            Self::Lost(reason) => format!("a call of plugin {plugin} got lost: {reason}"),
        }
    }

    pub(crate) fn output(&self, plugin: &str) -> ToolOutput {
        let fault = match self {
            Self::Time(_) => Fault::TimedOut,
            Self::Cancelled => Fault::Cancelled,
            Self::TooMany => Fault::Saturated,
            Self::Waited(_) => Fault::QueueTimeout,
            Self::Memory(_)
            | Self::Fuel(_)
            | Self::Output(_)
            | Self::HandedOver(_)
            | Self::Stack
            | Self::Panic(_)
            | Self::Exit(_)
            | Self::Trap(_)
            | Self::Lost(_) => Fault::Internal,
        };
        ToolOutput::fault(fault, self.sentence(plugin))
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Time(_) => Outcome::Time,
            Self::Memory(_) => Outcome::Memory,
            Self::Fuel(_) => Outcome::Fuel,
            Self::Output(_) | Self::HandedOver(_) => Outcome::Output,
            Self::Stack | Self::Panic(_) | Self::Exit(_) | Self::Trap(_) | Self::Lost(_) => Outcome::Broke,
            Self::Cancelled => Outcome::Cancelled,
            Self::TooMany | Self::Waited(_) => Outcome::Refused,
        }
    }
}

/// What went wrong in a guest, from what wasmtime says and what the call did before.
pub(super) fn explain(error: &wasmtime::Error, state: &CallState, limits: &PluginLimits) -> Failure {
    if let Some(ended) = error.downcast_ref::<imports::Ended>() {
        return match ended {
            imports::Ended::OutOfTime => Failure::Time(limits.time),
            imports::Ended::Stopped => Failure::Cancelled,
        };
    }
    if error.is::<TooMuch>() {
        return Failure::Output(limits.output);
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Failure::TooMany;
    }
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return Failure::Exit(*code);
    }
    // The type of this one is wasmtime's own.
    if error.root_cause().to_string().contains("fuel allocated for hostcalls") {
        let at_work = error.downcast_ref::<WasmBacktrace>().is_some_and(|trace| !trace.frames().is_empty());
        return match at_work {
            true => Failure::HandedOver(limits.output.max(HANDED_OVER)),
            false => Failure::Output(limits.output),
        };
    }
    let trap = error.downcast_ref::<Trap>().copied();
    match trap {
        Some(Trap::OutOfFuel) => Failure::Fuel(limits.fuel),
        Some(Trap::StackOverflow) => Failure::Stack,
        // Whatever it broke on in the end: it did not get what it asked for.
        _ if state.limiter.was_refused => Failure::Memory(limits.memory),
        Some(Trap::UnreachableCodeReached) => Failure::Panic(last_words(&state.complained.text())),
        // Languages that keep a stack of their own in memory run off its end.
        Some(Trap::MemoryOutOfBounds) => Failure::Trap("out of bounds memory access, or recursion too deep".to_owned()),
        Some(trap) => Failure::Trap(trap.to_string().trim_start_matches("wasm trap: ").to_owned()),
        None => Failure::Trap(printable(&error.root_cause().to_string())),
    }
}

/// The last line on standard error that is not advice about how to see more.
fn last_words(text: &str) -> Option<String> {
    let said = |line: &&str| !line.is_empty() && !line.starts_with("note: ");
    text.lines().map(str::trim).rfind(said).map(printable)
}

/// A guest's words in one line: nothing in them begins another line or moves a cursor.
pub(super) fn printable(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(QUOTED_CHARS + 1).collect();
    if line.chars().count() > QUOTED_CHARS {
        line.pop();
        line.push('…');
    }
    line
}

/// For sentences: `64 MiB`, `1500 bytes`.
pub(crate) fn size(bytes: usize) -> String {
    const KIB: usize = 1024;
    const MIB: usize = 1024 * KIB;
    match bytes {
        0 => "0 bytes".to_owned(),
        _ if bytes.is_multiple_of(MIB) => format!("{} MiB", bytes / MIB),
        _ if bytes.is_multiple_of(KIB) => format!("{} KiB", bytes / KIB),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests;
