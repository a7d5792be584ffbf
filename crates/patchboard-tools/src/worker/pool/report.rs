//! Report of a pool's current state.

use std::sync::atomic::Ordering;

use patchboard_core::worker::{PoolReport, WorkerReport, WorkerState};

use super::{SlotStage, WorkerPool};

impl WorkerPool {
    pub(in crate::worker) fn report(&self) -> PoolReport {
        let state = self.state();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let mut workers: Vec<WorkerReport> = state
            .workers
            .iter()
            .map(|(number, record)| WorkerReport {
                id: record.id.clone(),
                state: record.state,
                pid: record.pid,
                in_flight: state.dispatcher.in_flight(*number),
                capacity: record.capacity,
                calls: record.worker.as_ref().map_or(0, |worker| worker.calls.load(Ordering::Relaxed)),
                memory_bytes: record.memory,
                since: record.since,
                address: record.address.clone(),
            })
            .collect();
        // Slots without a worker and without a running attempt to start one.
        for (number, slot) in state.slots.iter().enumerate() {
            let is_tried = state.workers.values().any(|record| record.slot as usize == number);
            if let (Some((id, since)), false) = (&slot.last_worker, slot.stage == SlotStage::Running || is_tried) {
                workers.push(WorkerReport {
                    id: id.clone(),
                    state: WorkerState::BackingOff,
                    pid: None,
                    in_flight: 0,
                    capacity: 0,
                    calls: 0,
                    memory_bytes: None,
                    since: *since,
                    address: None,
                });
            }
        }
        let counts = state.dispatcher.counts();
        PoolReport {
            name: self.name().clone(),
            workers,
            target_workers: self.options.count,
            queued: count(state.dispatcher.queued()),
            tools: count(state.tools.specs().len()),
            succeeded: self.tally.succeeded.load(Ordering::Relaxed),
            failed: self.tally.failed.load(Ordering::Relaxed),
            timed_out: counts.timed_out + self.tally.timed_out.load(Ordering::Relaxed),
            refused: counts.refused,
            restarts: state.restarts,
            recycled: state.recycled,
            last_error: state.last_error.clone(),
        }
    }
}
