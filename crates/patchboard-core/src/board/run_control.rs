//! Lasting requests to runs: a cancellation and a detachment are stored before they are acknowledged, so that whoever
//! works on the run honours them, also after a crash.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Board, LiveRun};
use crate::access;
use crate::caller::Caller;
use crate::error::BoardError;
use crate::id::RunId;
use crate::store::{RunRequestKind, RunState, StoreError, StoreWrite, WriteBatch};

impl Board {
    pub(super) async fn request_of_run(
        &self,
        caller: &Caller,
        run: RunId,
        request: RunRequestKind,
    ) -> Result<(), BoardError> {
        let live = self.live_runs().get(&run).cloned();
        let principal: Option<Arc<str>> = match &live {
            Some(live) => Some(live.principal.clone()),
            // Another process may work on it, or none at the moment.
            None => self.0.store.run(run).await?.filter(|row| row.state == RunState::Running).map(|row| row.principal),
        };
        // The same error for both, so that existence does not leak.
        let not_running = || BoardError::not_found("no such run is under way");
        if !principal.is_some_and(|principal| access::can_control(caller, &principal)) {
            return Err(not_running());
        }
        // Takes effect at once, even if the store stalls; the caller hears of it when it is stored.
        if let Some(live) = &live {
            live.apply(request);
        }
        let batch = WriteBatch::boundary(vec![StoreWrite::RequestOfRun { run, request }]);
        match self.0.store.commit(batch).await {
            // Not recorded yet, or its end just was.
            Ok(()) | Err(StoreError::Conflict) if live.is_some() => Ok(()),
            Ok(()) => Ok(()),
            Err(StoreError::Conflict) => Err(not_running()),
            Err(error) => Err(error.into()),
        }
    }
}

impl LiveRun {
    fn apply(&self, request: RunRequestKind) {
        match request {
            RunRequestKind::Cancel => self.control.cancel.cancel(),
            RunRequestKind::Detach => self.control.detached.store(true, Ordering::Relaxed),
        }
    }
}
