//! Takes over unfinished work that no living process works on: runs are resumed or closed, messages and deliveries
//! continue. At the start this is what the previous process left; later, what another process left that is gone, and what
//! this one could not record.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Board;
use super::run_permits::PermitSlot;
use super::run_start::{LiveRunGuard, RunNameLease};
use crate::agent::AgentTable;
use crate::caller::{Caller, GrantSet, Principal, Surface};
use crate::command::{RunKind, RunPlan};
use crate::conversation::ConversationOrigin;
use crate::error::BoardError;
use crate::id::{ConnectionId, RunId};
use crate::run::recover::ClosingReason;
use crate::run::start::{RunFolder, StartedRun};
use crate::run::{RunControl, RunExit, RunRequest, recover};
use crate::run_spec::{RunSpec, StrategyKind};
use crate::session::QueueSlot;
use crate::store::{NodeRole, RunRow, UnfinishedRun};

/// Runs taken over at a time, so that several processes share the work of one that is gone.
const ADOPTED_AT_ONCE: usize = 64;
/// How often work without an owner is looked for, besides when this process has released some.
const ADOPTION_INTERVAL: Duration = Duration::from_secs(30);
/// How long a run that could not be closed is left alone before it is tried again.
const DEFERRAL: Duration = Duration::from_secs(60);

/// What was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdoptionReport {
    pub resumed: usize,
    pub closed: usize,
    /// Hub messages that no app has accepted yet.
    pub messages: usize,
    /// Channel messages without an answer, or with an answer that is not sent yet.
    pub deliveries: usize,
}

#[derive(Debug, Default)]
pub(super) struct AdoptionState {
    /// Notified when this process gives up unfinished work.
    released: Notify,
    /// Held while work is taken over: two passes must not resume the same run.
    pass: tokio::sync::Mutex<()>,
    /// Runs that could not be closed, and when to try again.
    deferred: Mutex<HashMap<RunId, Instant>>,
}

impl AdoptionState {
    fn deferred(&self) -> MutexGuard<'_, HashMap<RunId, Instant>> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run that is about to continue in this process.
struct ResumedRun {
    started: StartedRun,
    live_guard: LiveRunGuard,
    name_lease: Option<RunNameLease>,
}

impl Board {
    /// Takes over all unfinished work that has no owner. Must be called once before the first command. An error in one
    /// run affects neither the other runs nor the start of the server.
    pub async fn adopt(&self) -> Result<AdoptionReport, BoardError> {
        let _pass = self.0.adoption.pass.lock().await;
        let mut report = AdoptionReport::default();
        let mut resumed = Vec::new();
        loop {
            let unfinished = self.0.store.adopt_runs(self.runs_to_leave(), ADOPTED_AT_ONCE).await?;
            let is_last = unfinished.len() < ADOPTED_AT_ONCE;
            for unfinished in unfinished {
                match self.resume_or_close(&unfinished).await {
                    AdoptedRun::Resumed(run) => resumed.push(*run),
                    AdoptedRun::Closed => report.closed += 1,
                    AdoptedRun::Deferred => {}
                }
            }
            if is_last {
                break;
            }
        }
        report.resumed = resumed.len();
        // Only after all runs are settled: the first active run reads the remaining budgets.
        for ResumedRun { started, live_guard, name_lease } in resumed {
            let board = self.clone();
            self.0.tracker.spawn(async move {
                let exit = started.run().await;
                drop((live_guard, name_lease));
                board.note_exit(exit);
            });
        }
        if self.0.store.claim_role(NodeRole::Hub).await? {
            report.messages = self.0.hub.adopt().await?;
        } else {
            self.0.hub.stand_by();
        }
        report.deliveries = self.adopt_deliveries().await?;
        Ok(report)
    }

    /// Takes over work for as long as the server runs.
    pub(super) async fn adopt_repeatedly(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = self.0.adoption.released.notified() => {}
                () = tokio::time::sleep(ADOPTION_INTERVAL) => {}
                () = stop.cancelled() => return,
            }
            if self.is_draining() || self.0.log.tenure().may_act().is_err() {
                continue;
            }
            match self.adopt().await {
                Ok(AdoptionReport { resumed: 0, closed: 0, .. }) => {}
                Ok(AdoptionReport { resumed, closed, .. }) => {
                    tracing::info!(resumed, closed, "took over unfinished runs that no process worked on");
                }
                Err(error) => tracing::warn!(%error, "unfinished work could not be looked for; trying again later"),
            }
        }
    }

    /// Work that this process gave up is taken up again soon, by whichever process finds it.
    pub(super) fn note_exit(&self, exit: RunExit) {
        if exit == RunExit::Released {
            self.note_released();
        }
    }

    pub(super) fn note_released(&self) {
        self.0.adoption.released.notify_one();
    }

    /// Runs that are worked on here, and those that were tried in vain a moment ago.
    fn runs_to_leave(&self) -> HashSet<RunId> {
        let now = Instant::now();
        let mut deferred = self.0.adoption.deferred();
        deferred.retain(|_, until| *until > now);
        let mut runs = self.0.held_runs.snapshot();
        runs.extend(deferred.keys());
        runs
    }

    async fn resume_or_close(&self, unfinished: &UnfinishedRun) -> AdoptedRun {
        let run = unfinished.run.run;
        if unfinished.run.requests.cancel {
            return self.close(unfinished, &ClosingReason::Cancelled).await;
        }
        // A record may make a strategy panic, possibly again.
        let outcome = AssertUnwindSafe(self.resume(unfinished)).catch_unwind().await;
        let reason = match outcome {
            Ok(Ok(Ok(resumed))) => return AdoptedRun::Resumed(Box::new(resumed)),
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
        self.close(unfinished, &ClosingReason::Interrupted(reason)).await
    }

    async fn close(&self, unfinished: &UnfinishedRun, reason: &ClosingReason) -> AdoptedRun {
        let run = unfinished.run.run;
        match recover::close_unfinished(&self.0.run_deps, &self.0.store, unfinished, reason).await {
            Ok(()) => AdoptedRun::Closed,
            Err(error) => {
                tracing::error!(run.id = %run, %error, "a run of the previous process cannot be closed; trying again later");
                self.0.adoption.deferred().insert(run, Instant::now() + DEFERRAL);
                AdoptedRun::Deferred
            }
        }
    }

    /// The inner error says why the run cannot continue.
    async fn resume(&self, unfinished: &UnfinishedRun) -> Result<Result<ResumedRun, String>, BoardError> {
        let row = &unfinished.run;
        let agents = self.0.agents.get();
        let recorded = recover::recorded_spec(&self.0.store, row.run).await?;
        let is_agent_run = recorded.is_some();
        let spec = match recorded {
            Some(spec) => spec,
            None => match self.chat_spec(row, &agents).await? {
                Ok(spec) => Arc::new(spec),
                Err(reason) => return Ok(Err(reason)),
            },
        };
        let Ok((agent, _)) = agents.select_for_run(&spec.requested_agent) else {
            return Ok(Err(format!("interrupted: no agent is named `{}` any more", spec.requested_agent)));
        };
        let selected = spec.model.as_deref().map(|name| agents.models().select(agent, name));
        let agent = match selected.unwrap_or_else(|| Ok(agent.clone())) {
            Ok(agent) => agent,
            Err(refused) => return Ok(Err(format!("interrupted: {refused}"))),
        };
        if !is_agent_run && agent.strategy != spec.strategy {
            return Ok(Err("interrupted: its agent is configured otherwise now".to_owned()));
        }
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
        let control = RunControl::new(CancellationToken::new(), spec.detached || row.requests.detach);
        // Ids of chat turns need not be unique.
        let name_lease = match is_agent_run.then(|| self.lease_name(&row.principal, &row.client_id, &control)) {
            None => None,
            Some(Ok(name_lease)) => Some(name_lease),
            Some(Err(_)) => {
                return Ok(Err(format!("interrupted: another run of the id {} goes on", row.client_id)));
            }
        };
        let principal = Principal::from(&*row.principal);
        let caller = Caller {
            surface: Surface::from_name(&row.surface).unwrap_or(Surface::Runs),
            grants: if let Principal::Channel(_) = principal { GrantSet::CHANNEL } else { GrantSet::CLIENT },
            principal,
            connection: ConnectionId::NONE,
        };
        let kind = if is_agent_run {
            RunKind::Agent(RunPlan {
                agent: spec.requested_agent.clone(),
                default_model: None,
                adaptive: spec.adaptive,
                detach: spec.detached,
                verbose: spec.verbose,
            })
        } else {
            RunKind::Chat { agent: Some(spec.requested_agent.clone()) }
        };
        // These runs had permits before: with a smaller limit now, they start without one and do not wait.
        let run_permit = self.0.run_permits.try_acquire();
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
            client_tools: spec.client_tools.clone(),
            kind,
            folder,
            call_chain: None,
            control,
            slot: Some(PermitSlot::new(self.0.run_permits.clone(), run_permit)),
            stored_inputs: Vec::new(),
            // The trace of the request ended with the previous process.
            trace: None,
        };
        let live_guard = self.register_live(&request, true);
        let resumed = recover::resume(&self.0.run_deps, &self.0.store, unfinished, &spec, request, turn).await?;
        Ok(resumed.map(|started| ResumedRun { started, live_guard, name_lease }))
    }

    /// What a chat turn was asked to do, with its soul, facts and past turns recalled again. The inner error says why the
    /// turn cannot continue.
    async fn chat_spec(&self, row: &RunRow, agents: &AgentTable) -> Result<Result<RunSpec, String>, BoardError> {
        let interrupted = || "interrupted: the server stopped during this turn".to_owned();
        let Some((agent_name, chat)) = recover::chat_briefing(&self.0.store, row.run).await? else {
            return Ok(Err(interrupted()));
        };
        let (Some(agent), Some(parts)) = (agents.agent(&agent_name), row.session.conversation_parts()) else {
            return Ok(Err(interrupted()));
        };
        let origin = ConversationOrigin {
            channel: parts.channel,
            account: parts.account,
            peer: Some(parts.peer),
            guild: chat.guild.as_deref().map(str::to_owned),
            team: chat.team.as_deref().map(str::to_owned),
        };
        let memory = &self.0.run_deps.memory;
        let instructions = match &chat.folder {
            Some(folder) => Some((folder.clone(), self.0.run_deps.folders.documents(folder).await)),
            None => None,
        };
        let folder = instructions.as_ref().map(|(folder, documents)| (&**folder, documents));
        let stop = CancellationToken::new();
        let recalled = memory.recall(agent, &origin, &row.session, &row.input, folder, &stop).await?;
        Ok(Ok(RunSpec {
            client_id: row.client_id.clone(),
            thread: None,
            requested_agent: agent_name,
            strategy: StrategyKind::React,
            adaptive: false,
            detached: false,
            verbose: false,
            model: chat.model.clone(),
            folder: chat.folder.clone(),
            folder_granted: chat.folder_granted,
            origin,
            message: row.input.clone(),
            system: recalled.system.into(),
            history: recalled.messages,
            client_tools: chat.client_tools.clone(),
        }))
    }
}

/// What became of a run that was taken over.
enum AdoptedRun {
    Resumed(Box<ResumedRun>),
    Closed,
    /// It could not even be closed.
    Deferred,
}
