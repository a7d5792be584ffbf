//! The metrics of this crate.

use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};

const CALLS: &str = "patchboard_plugin_calls_total";
const CALL_TIME: &str = "patchboard_plugin_call_duration_seconds";
const COMPILED: &str = "patchboard_plugin_compilations_total";

/// How a call ended; a metric label, so a closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuestCallOutcome {
    Answered,
    /// The tool or adapter returned an error.
    Failed,
    Time,
    Memory,
    Fuel,
    Output,
    /// Any other trap.
    Trapped,
    Cancelled,
    Refused,
}

impl GuestCallOutcome {
    const ALL: [Self; 9] = [
        Self::Answered,
        Self::Failed,
        Self::Time,
        Self::Memory,
        Self::Fuel,
        Self::Output,
        Self::Trapped,
        Self::Cancelled,
        Self::Refused,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Time => "time",
            Self::Memory => "memory",
            Self::Fuel => "fuel",
            Self::Output => "output",
            Self::Trapped => "broke",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
        }
    }
}

/// Handles looked up once, so that a call only increments them.
pub(crate) struct CallMetrics {
    calls: [Counter; GuestCallOutcome::ALL.len()],
    seconds: Histogram,
}

impl CallMetrics {
    pub(crate) fn new() -> Self {
        Self {
            calls: GuestCallOutcome::ALL.map(|outcome| counter!(CALLS, "outcome" => outcome.name())),
            seconds: histogram!(CALL_TIME),
        }
    }

    /// `took` is the whole duration of the call, including its wait for a permit.
    pub(crate) fn call_ended(&self, outcome: GuestCallOutcome, took: Duration) {
        if let Some(counter) = self.calls.get(outcome as usize) {
            counter.increment(1);
        }
        self.seconds.record(took.as_secs_f64());
    }
}

/// Counts where a plugin's code came from.
pub(crate) fn compiled(from_cache: bool) {
    counter!(COMPILED, "source" => if from_cache { "cache" } else { "compiler" }).increment(1);
}
