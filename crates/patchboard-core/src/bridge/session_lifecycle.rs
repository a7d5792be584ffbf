//! Opening and ending of sessions, with cleanup of the data kept for them elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::sessions::{
    BridgeCaller, EndedSession, SessionOpener, SessionScope, SessionSerial, SessionTasks, SessionTransition,
};
use super::{Bridge, MeasuredValue, TelemetryEvent, session_key, session_not_found};
use crate::budget::call_chain::CallChain;
use crate::caller::Caller;
use crate::command::OpenSession;
use crate::error::BoardError;
use crate::tool::ToolSpec;
use crate::worker::{WorkerId, WorkerTool};

/// How often expired sessions are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Built-in tools are cancelled when their session ends; the cleanup waits for them no longer than this.
const CALLS_TIMEOUT: Duration = Duration::from_secs(5);

/// A call in a session, for its duration.
#[derive(Debug)]
pub(crate) struct SessionCall {
    pub(crate) scope: SessionScope,
    /// The call chain that the call belongs to.
    pub(crate) call_chain: Option<CallChain>,
    _lease: SessionLease,
    tasks: Arc<SessionTasks>,
    /// The cleanup of the session waits until this is dropped.
    tracking_token: Option<TaskTrackerToken>,
}

/// Keeps a session from expiring; dropping it counts as a use.
#[derive(Debug)]
pub(crate) struct SessionLease {
    bridge: Bridge,
    id: Arc<str>,
    /// `None` for callers whose use does not count.
    serial: Option<SessionSerial>,
}

impl SessionLease {
    pub(super) fn new(bridge: &Bridge, id: Arc<str>, serial: SessionSerial) -> Self {
        Self { bridge: bridge.clone(), id, serial: Some(serial) }
    }

    pub(super) fn session(&self) -> &Arc<str> {
        &self.id
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        if let Some(serial) = self.serial {
            self.bridge.sessions().end_call(&self.id, serial, Instant::now());
        }
    }
}

impl SessionCall {
    /// For a worker's tool: the worker is notified that the session has ended, and the tool may go on.
    pub(crate) fn stop_tracking(&mut self) {
        self.tracking_token = None;
    }

    /// Cancelled when the session ends.
    pub(crate) fn session_ended(&self) -> &CancellationToken {
        &self.tasks.stop
    }
}

impl Bridge {
    pub(crate) async fn open(&self, request: &OpenSession, caller: &Caller) -> Result<(), BoardError> {
        let opener = SessionOpener::of(caller);
        loop {
            // Before the check, or a notification in between would be lost.
            let cleaned_up = self.0.cleanup_done.notified();
            let transition = self.sessions().open(request, &opener, self.0.clock.now(), Instant::now())?;
            match transition {
                SessionTransition::Done => return Ok(()),
                SessionTransition::CleanUpFirst(ended) => drop(self.clean_up(ended).await),
                SessionTransition::WaitForCleanup => cleaned_up.await,
            }
        }
    }

    /// Ends a session and returns the number of removed resources: itself, its tools, cached results and variables.
    pub(crate) async fn close(&self, id: &str, caller: BridgeCaller<'_>) -> u32 {
        loop {
            // Before the check, or a notification in between would be lost.
            let cleaned_up = self.0.cleanup_done.notified();
            let transition = self.sessions().close(id, caller);
            match transition {
                SessionTransition::Done => return 0,
                SessionTransition::CleanUpFirst(ended) => {
                    return u32::try_from(self.clean_up(ended).await).unwrap_or(u32::MAX);
                }
                SessionTransition::WaitForCleanup => cleaned_up.await,
            }
        }
    }

    /// Returns the number of removed resources. If the future is dropped half-way, another task continues.
    async fn clean_up(&self, ended: EndedSession) -> usize {
        let mut guard = CleanupGuard { bridge: self, ended: Some(ended) };
        let Some(ended) = &guard.ended else { return 0 };
        if let Some(workers) = &self.0.workers {
            workers.session_closed(&ended.id);
        }
        if let Some(tasks) = &ended.tasks
            && tokio::time::timeout(CALLS_TIMEOUT, tasks.tracker.wait()).await.is_err()
        {
            tracing::warn!("tools are still running in an ended session");
        }
        let mut resources = ended.resources + self.cache().remove_session(&ended.id);
        if ended.has_variables {
            resources += self.0.variables.delete_all(&session_key(&ended.id)).await;
        }
        guard.finish();
        resources
    }

    pub(crate) fn describe_session(
        &self,
        id: &str,
        caller: BridgeCaller<'_>,
    ) -> Option<(BTreeMap<String, String>, Timestamp)> {
        self.sessions().describe(id, caller, Instant::now())
    }

    pub(crate) fn touch_session(&self, id: &str, caller: BridgeCaller<'_>) -> Option<SessionScope> {
        self.sessions().touch(id, caller, Instant::now())
    }

    pub(crate) fn begin_call(&self, id: &str, caller: BridgeCaller<'_>) -> Option<SessionCall> {
        let mut sessions = self.sessions();
        let snapshot = sessions.begin_call(id, caller, Instant::now())?;
        // Under the lock, so that a cleanup that begins now waits for this call.
        let tracking_token = Some(snapshot.tasks.tracker.token());
        drop(sessions);
        let serial = (caller == BridgeCaller::Client).then_some(snapshot.serial);
        let lease = SessionLease { bridge: self.clone(), id: snapshot.id, serial };
        Some(SessionCall {
            scope: snapshot.scope,
            call_chain: snapshot.call_chain,
            _lease: lease,
            tasks: snapshot.tasks,
            tracking_token,
        })
    }

    /// Registers a pool worker's tools with that worker, and any other client's tools with the session.
    pub(crate) fn register(
        &self,
        session: &str,
        tools: Vec<WorkerTool>,
        registered_by: &Arc<str>,
        worker: Option<&WorkerId>,
    ) -> Result<(), BoardError> {
        match (worker, &self.0.workers) {
            (Some(worker), Some(workers)) => {
                self.touch_session(session, BridgeCaller::Worker(&worker.0))
                    .ok_or_else(|| session_not_found(session))?;
                workers.tools_registered(worker, tools);
                Ok(())
            }
            (Some(_), None) | (None, _) => self.sessions().register(session, tools, registered_by, Instant::now()),
        }
    }

    /// A tool registered in the session, and the client that registered it.
    pub(crate) fn registered_tool(&self, session: &str, name: &str) -> Option<(ToolSpec, Arc<str>)> {
        self.sessions().tool(session, name).map(|tool| (tool.spec.clone(), tool.registered_by.clone()))
    }

    pub(crate) fn registered_tools(&self, session: &str) -> Vec<ToolSpec> {
        self.sessions().tools(session)
    }

    /// Ends expired sessions until `stop`.
    pub(crate) async fn run_housekeeping(&self, stop: CancellationToken) {
        let mut sweep =
            tokio::time::interval(SWEEP_INTERVAL.min(self.0.options.session_ttl).max(Duration::from_millis(100)));
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = sweep.tick() => {}
                () = stop.cancelled() => return,
            }
            let expired_count = self.sessions().expire(Instant::now());
            if expired_count > 0 {
                let count = i64::try_from(expired_count).unwrap_or(i64::MAX);
                self.0.telemetry.emit(|| {
                    TelemetryEvent::new("bridge.session.pruned", self.0.clock.now())
                        .with_measure("count", MeasuredValue::Int(count))
                });
            }
            let ended_ids = self.sessions().ended_ids();
            for id in ended_ids {
                let ended = self.sessions().claim_cleanup(&id);
                if let Some(ended) = ended {
                    stop.run_until_cancelled(self.clean_up(ended)).await;
                }
            }
        }
    }
}

/// A cleanup in progress. If dropped before `finish`, the cleanup is queued again.
struct CleanupGuard<'a> {
    bridge: &'a Bridge,
    ended: Option<EndedSession>,
}

impl CleanupGuard<'_> {
    fn finish(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.bridge.sessions().finish_cleanup(&ended.id);
        }
    }
}

impl Drop for CleanupGuard<'_> {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.bridge.sessions().requeue_cleanup(ended);
        }
        self.bridge.0.cleanup_done.notify_waiters();
    }
}
