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
            .map(|(no, member)| WorkerReport {
                id: member.id.clone(),
                state: member.state,
                pid: member.pid,
                in_flight: state.dispatcher.in_flight(*no),
                capacity: member.capacity,
                calls: member.worker.as_ref().map_or(0, |worker| worker.calls.load(Ordering::Relaxed)),
                memory_bytes: member.memory,
                since: member.since,
                address: member.address.clone(),
            })
            .collect();
        // Slots without a worker and without a running attempt to start one.
        for (number, slot) in state.slots.iter().enumerate() {
            let is_tried = state.workers.values().any(|member| member.slot as usize == number);
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
