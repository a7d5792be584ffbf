//! What the previous process left unfinished: runs are resumed or closed, messages and deliveries continue.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::Board;
use super::run_permits::RunPermit;
use super::run_start::{LiveRunGuard, RunNameLease};
use crate::caller::{Caller, GrantSet, Principal, Surface};
use crate::command::{RunKind, RunPlan};
use crate::error::BoardError;
use crate::id::ConnectionId;
use crate::run::start::{RunFolder, StartedRun};
use crate::run::{RunControl, RunRequest, recover};
use crate::session::QueueSlot;
use crate::store::UnfinishedRun;

/// What was found unfinished at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecoveryReport {
    pub resumed: usize,
    pub closed: usize,
    /// Hub messages that no app has accepted yet.
    pub messages: usize,
    /// Channel messages without an answer, or with an answer that is not sent yet.
    pub deliveries: usize,
}

/// A run of the previous process that is about to continue.
struct ResumedRun {
    started: StartedRun,
    live_guard: LiveRunGuard,
    name_lease: RunNameLease,
    run_permit: Option<RunPermit>,
}

impl Board {
    /// Resumes what the previous process left unfinished, and closes what cannot continue. Must be called once, before
    /// the first command. An error in one run affects neither the other runs nor the start of the server.
    pub async fn recover(&self) -> Result<RecoveryReport, BoardError> {
        let mut report = RecoveryReport::default();
        let mut resumed = Vec::new();
        for unfinished in self.0.store.unfinished_runs().await? {
            let run = unfinished.run.run;
            // A record may make a strategy panic, possibly again.
            let outcome = AssertUnwindSafe(self.resume(&unfinished)).catch_unwind().await;
            let reason = match outcome {
                Ok(Ok(Ok(run))) => {
                    resumed.push(run);
                    continue;
                }
                Ok(Ok(Err(reason))) => reason,
                Ok(Err(error)) => {
                    tracing::error!(run.id = %run, %error, "a run of the previous process cannot be read back; closing it");
                    "interrupted: what is on record of it cannot be read back".to_owned()
                }
                Err(_panic) => {
                    tracing::error!(run.id = %run, "a run of the previous process panicked; closing it");
                    "interrupted: internal error".to_owned()
                }
            };
            match recover::close_interrupted(&self.0.run_deps, &self.0.store, &unfinished, &reason).await {
                Ok(()) => report.closed += 1,
                Err(error) => {
                    tracing::error!(run.id = %run, %error, "a run of the previous process cannot be closed; it stays as it is");
                }
            }
        }
        report.resumed = resumed.len();
        // Only after all runs are settled: the first active run reads the remaining budgets.
        for ResumedRun { started, live_guard, name_lease, run_permit } in resumed {
            self.0.tracker.spawn(async move {
                started.run().await;
                drop((live_guard, name_lease, run_permit));
            });
        }
        report.messages = self.0.hub.recover().await?;
        report.deliveries = self.recover_deliveries().await?;
        Ok(report)
    }

    /// The inner error says why the run cannot continue.
    async fn resume(&self, unfinished: &UnfinishedRun) -> Result<Result<ResumedRun, String>, BoardError> {
        let row = &unfinished.run;
        let Some(spec) = recover::recorded_spec(&self.0.store, row.run).await? else {
            return Ok(Err("interrupted: the server stopped during this turn".to_owned()));
        };
        let agents = self.0.agents.get();
        let Ok((agent, _)) = agents.select_for_run(&spec.requested_agent) else {
            return Ok(Err(format!("interrupted: no agent is named `{}` any more", spec.requested_agent)));
        };
        let selected = spec.model.as_deref().map(|name| agents.models().select(agent, name));
        let agent = match selected.unwrap_or_else(|| Ok(agent.clone())) {
            Ok(agent) => agent,
            Err(refused) => return Ok(Err(format!("interrupted: {refused}"))),
        };
        // The folder may have been deleted or closed to runs since.
        let folder = match RunFolder::readmit(&*self.0.run_deps.folders, &spec).await {
            Ok(folder) => folder,
            Err(refused) => return Ok(Err(format!("interrupted: {refused}"))),
        };
        let turn = match self.0.queues.enqueue(&row.session)? {
            QueueSlot::Ready(turn) => turn,
            // The end of an earlier run of the session was not recorded before the server stopped during this one.
            QueueSlot::Waiting(_) => return Ok(Err("interrupted: the server stopped during this run".to_owned())),
        };
        let control = RunControl::new(CancellationToken::new(), spec.detached);
        let Ok(name_lease) = self.lease_name(&row.principal, &row.client_id, &control) else {
            return Ok(Err(format!("interrupted: another run of the id {} goes on", row.client_id)));
        };
        let caller = Caller {
            surface: Surface::Runs,
            principal: Principal::from(&*row.principal),
            // No connection of this process: only the operator can answer its approvals.
            connection: ConnectionId(0),
            grants: GrantSet::CLIENT,
        };
        let plan = RunPlan {
            agent: spec.requested_agent.clone(),
            default_model: None,
            adaptive: spec.adaptive,
            detach: spec.detached,
            verbose: spec.verbose,
        };
        let request = RunRequest {
            run: row.run,
            caller,
            agent,
            strategy: spec.strategy,
            origin: spec.origin.clone(),
            thread: spec.thread.clone(),
            session: row.session.clone(),
            client_id: row.client_id.clone(),
            content: spec.message.clone(),
            model: spec.model.clone(),
            kind: RunKind::Agent(plan),
            folder,
            call_chain: None,
            control,
            // The trace of the request ended with the previous process.
            trace: None,
        };
        let live_guard = self.register_live(&request, true);
        let resumed = recover::resume(&self.0.run_deps, &self.0.store, unfinished, &spec, request, turn).await?;
        // These runs had permits before: with a smaller limit now, they start without one and do not wait.
        let run_permit = self.0.run_permits.try_acquire();
        Ok(resumed.map(|started| ResumedRun { started, live_guard, name_lease, run_permit }))
    }
}
