//! What the workers of a pool wrote, and their replacement on request.

use std::sync::Arc;

use patchboard_core::extensions::WorkerLine;
use patchboard_core::worker::WorkerState;

use super::{PoolState, WorkerPool, WorkerRecord};
use crate::worker::dispatch::WorkerNumber;
use crate::worker::output_tail::StdioTail;

/// Ended workers whose lines can still be read: what a worker wrote matters most once it has crashed.
const MAX_ENDED: usize = 8;

impl WorkerPool {
    pub(in crate::worker) fn record_output(&self, number: WorkerNumber, output: StdioTail) {
        if let Some(record) = self.state().workers.get_mut(&number) {
            record.output = Some(output);
        }
    }

    /// `None` if the worker is not of this pool, or no more.
    pub(in crate::worker) fn lines(&self, worker: &str, after: u64) -> Option<Vec<WorkerLine>> {
        let state = self.state();
        let running = state.workers.values().find(|record| &*record.id.0 == worker);
        let output = match running {
            Some(record) => record.output.clone(),
            None => state.ended_outputs.iter().rev().find(|(id, _)| &*id.0 == worker).map(|(_, output)| output.clone()),
        };
        drop(state);
        output.map(|output| output.lines_after(after))
    }

    /// Asks for the replacement of one worker or of all that run; returns their ids.
    pub(in crate::worker) fn restart(&self, worker: Option<&str>) -> Vec<Arc<str>> {
        let state = self.state();
        let ready = state.workers.values().filter(|record| record.state == WorkerState::Ready);
        let connected = ready.filter_map(|record| record.worker.as_ref());
        let wanted = connected.filter(|connected| worker.is_none_or(|worker| &*connected.id.0 == worker));
        wanted
            .map(|connected| {
                connected.restart.notify_one();
                connected.id.0.clone()
            })
            .collect()
    }
}

impl PoolState {
    pub(super) fn keep_output(&mut self, record: &WorkerRecord) {
        let Some(output) = &record.output else { return };
        if self.ended_outputs.len() == MAX_ENDED {
            self.ended_outputs.pop_front();
        }
        self.ended_outputs.push_back((record.id.clone(), output.clone()));
    }
}
