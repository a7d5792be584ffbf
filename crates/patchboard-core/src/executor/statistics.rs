//! Counts since the start: calls of each tool, and who talks to what. Counting allocates nothing once a name is known.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::extensions::ToolCounts;
use crate::figures::{Flow, FlowKind};

/// Tools that are counted, by name; calls of further ones are in the metrics only.
const MAX_TOOLS: usize = 4096;
/// Pairs of parties that are counted, 300 bytes each; further ones count together as `other`.
const MAX_FLOWS: usize = 256;
/// Minutes for which flows are kept apart.
const FLOW_MINUTES: usize = 60;
const OTHER: &str = "other";

#[derive(Debug, Default)]
pub struct CallStatistics {
    tools: Mutex<HashMap<Arc<str>, ToolCounts>>,
    flows: Mutex<FlowTable>,
}

type FlowsByTarget = HashMap<Box<str>, FlowCounts>;
type FlowsByOrigin = HashMap<Box<str>, FlowsByTarget>;

#[derive(Debug, Default)]
struct FlowTable {
    flows: HashMap<FlowKind, FlowsByOrigin>,
    len: usize,
}

#[derive(Debug)]
struct FlowCounts {
    total: u64,
    newest_minute: i64,
    by_minute: [u32; FLOW_MINUTES],
}

impl CallStatistics {
    pub(super) fn tool_called(&self, tool: &Arc<str>, is_failure: bool) {
        let mut tools = lock(&self.tools);
        if let Some(counts) = tools.get_mut(tool) {
            counts.add(is_failure);
        } else if tools.len() < MAX_TOOLS {
            let mut counts = ToolCounts::default();
            counts.add(is_failure);
            tools.insert(tool.clone(), counts);
        }
    }

    pub fn tool_counts(&self, tool: &str) -> ToolCounts {
        lock(&self.tools).get(tool).copied().unwrap_or_default()
    }

    pub fn flowed(&self, kind: FlowKind, from: &str, to: &str, now: Timestamp) {
        lock(&self.flows).add(kind, from, to, minute(now));
    }

    /// All flows, with those of the last `minutes`; most frequent first.
    pub fn flows(&self, minutes: usize, now: Timestamp) -> Vec<Flow> {
        let table = lock(&self.flows);
        let mut flows = Vec::with_capacity(table.len);
        for (kind, by_origin) in &table.flows {
            for (from, by_target) in by_origin {
                for (to, counts) in by_target {
                    flows.push(Flow {
                        kind: *kind,
                        from: (&**from).into(),
                        to: (&**to).into(),
                        recent: counts.recent(minutes, minute(now)),
                        total: counts.total,
                    });
                }
            }
        }
        flows.sort_by(|left, right| {
            let key = |flow: &Flow| (Reverse(flow.recent), Reverse(flow.total), flow.kind);
            key(left).cmp(&key(right)).then_with(|| (&left.from, &left.to).cmp(&(&right.from, &right.to)))
        });
        flows
    }
}

impl FlowTable {
    fn add(&mut self, kind: FlowKind, from: &str, to: &str, minute: i64) {
        if let Some(counts) =
            self.flows.get_mut(&kind).and_then(|flows| flows.get_mut(from)).and_then(|flows| flows.get_mut(to))
        {
            return counts.add(minute);
        }
        // One entry of each kind is left for what does not fit.
        let (from, to) = if self.len < MAX_FLOWS { (from, to) } else { (OTHER, OTHER) };
        let flows = self.flows.entry(kind).or_default().entry(from.into()).or_default();
        let known = flows.len();
        flows.entry(to.into()).or_insert_with(FlowCounts::new).add(minute);
        self.len += flows.len() - known;
    }
}

impl FlowCounts {
    fn new() -> Self {
        Self { total: 0, newest_minute: i64::MIN, by_minute: [0; FLOW_MINUTES] }
    }

    fn add(&mut self, minute: i64) {
        let passed = minute.saturating_sub(self.newest_minute);
        if passed >= FLOW_MINUTES as i64 {
            self.by_minute = [0; FLOW_MINUTES];
        } else {
            for passed_minute in 0..passed {
                self.slot(minute - passed_minute, |count| *count = 0);
            }
        }
        // A clock that was set back counts in the newest minute.
        self.newest_minute = self.newest_minute.max(minute);
        self.total += 1;
        self.slot(self.newest_minute, |count| *count = count.saturating_add(1));
    }

    fn slot(&mut self, minute: i64, change: impl FnOnce(&mut u32)) {
        self.by_minute.get_mut(slot_of(minute)).map(change);
    }

    fn recent(&self, minutes: usize, now: i64) -> u64 {
        let window = i64::try_from(minutes.min(FLOW_MINUTES)).unwrap_or(0);
        let oldest_kept = self.newest_minute.saturating_sub(FLOW_MINUTES as i64 - 1);
        let first = now.saturating_sub(window).saturating_add(1).max(oldest_kept);
        (first..=self.newest_minute)
            .filter_map(|minute| self.by_minute.get(slot_of(minute)))
            .map(|count| u64::from(*count))
            .sum()
    }
}

fn slot_of(minute: i64) -> usize {
    usize::try_from(minute.rem_euclid(FLOW_MINUTES as i64)).unwrap_or(0)
}

fn minute(now: Timestamp) -> i64 {
    now.as_second().div_euclid(60)
}

/// Counts are consistent after a panic, so a poisoned lock is used.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
