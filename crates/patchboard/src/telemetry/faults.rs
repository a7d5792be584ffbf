//! The last warnings and errors of the log, as they left the redactor.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use patchboard_core::figures::{Fault, FaultLevel};
use patchboard_core::text::cut_with_mark;
use serde_json::{Map, Value};

use super::figures::FaultCounts;

/// Faults that are kept; older ones are in the log file only.
const MAX_FAULTS: usize = 200;
/// Bytes of a message, of a field, and how many fields: at most 5 KB each, so a megabyte in all.
const MAX_MESSAGE: usize = 1024;
const MAX_FIELD: usize = 256;
const MAX_FIELDS: usize = 16;

/// Clones share the faults.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultLog(Arc<Mutex<Faults>>);

#[derive(Debug, Default)]
struct Faults {
    kept: VecDeque<Fault>,
    counts: FaultCounts,
}

impl FaultLog {
    /// Takes a redacted line of the log file. Nothing here may log.
    pub(super) fn record(&self, line: &[u8]) {
        let Ok(Value::Object(fields)) = serde_json::from_slice(line) else { return };
        let Some(mut fault) = fault(fields) else { return };
        let mut faults = self.faults();
        match fault.level {
            FaultLevel::Warning => faults.counts.warnings += 1,
            FaultLevel::Error => faults.counts.errors += 1,
        }
        fault.number = faults.counts.warnings + faults.counts.errors;
        if faults.kept.len() == MAX_FAULTS {
            faults.kept.pop_front();
        }
        faults.kept.push_back(fault);
    }

    /// Newest first.
    pub(crate) fn list(&self) -> Vec<Fault> {
        self.faults().kept.iter().rev().cloned().collect()
    }

    pub(crate) fn counts(&self) -> FaultCounts {
        self.faults().counts
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `None` for a line of another level.
fn fault(mut fields: Map<String, Value>) -> Option<Fault> {
    let mut take = |name: &str| fields.remove(name).map(|value| text(&value)).unwrap_or_default();
    let level = match take("level").as_str() {
        "WARN" => FaultLevel::Warning,
        "ERROR" => FaultLevel::Error,
        _ => return None,
    };
    let at = take("timestamp").parse().unwrap_or(Timestamp::UNIX_EPOCH);
    let (source, message) = (take("target"), take("message"));
    let (_, _) = (take("span"), take("spans"));
    let field = |(name, value): (String, Value)| (shortened(&name, MAX_FIELD), shortened(&text(&value), MAX_FIELD));
    Some(Fault {
        number: 0,
        at,
        level,
        source: shortened(&source, MAX_FIELD),
        message: shortened(&message, MAX_MESSAGE),
        fields: fields.into_iter().take(MAX_FIELDS).map(field).collect(),
    })
}

fn text(value: &Value) -> String {
    if let Value::String(text) = value { text.clone() } else { value.to_string() }
}

fn shortened(text: &str, most: usize) -> String {
    cut_with_mark(text, most).into_owned()
}

#[cfg(test)]
mod tests;
