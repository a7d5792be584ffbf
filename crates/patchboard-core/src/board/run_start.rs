//! From a run request to its task: the name lease, the slot in the session's queue, the run permit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::run_permits::{PermitSlot, RunPermit};
use super::{Board, CommandFuture, LiveRun, RunName};
use crate::agent::AgentTable;
use crate::caller::Caller;
use crate::command::{MAX_CONTENT, RunKind, StartRun};
use crate::error::{BoardError, ErrorKind};
use crate::id::{RunId, SessionKey};
use crate::run::held::RunHold;
use crate::run::start::{RunFolder, StartedRun};
use crate::run::{RunControl, RunExit, RunRequest};
use crate::run_spec::ClientToolSpec;
use crate::session::{QueueSlot, SessionPermit};
use crate::trace;

/// Where a task reports that its run has started, or why it did not.
pub(super) type StartSender = oneshot::Sender<Result<RunId, BoardError>>;

/// A run with its slot in the session's queue.
struct QueuedRun {
    request: RunRequest,
    slot: QueueSlot,
    /// The model of an agent run whose request and thread name none.
    default_model: Option<Arc<str>>,
    name_lease: Option<RunNameLease>,
}

impl Board {
    /// The slot in the session's queue is taken before this returns.
    pub(super) fn start_run(
        &self,
        caller: &Caller,
        start: StartRun,
        stop: CancellationToken,
    ) -> CommandFuture<StartRun> {
        match self.enqueue_run(caller, start, &stop) {
            Ok(queued) => {
                let board = self.clone();
                Box::pin(async move { board.start_queued(queued).await })
            }
            Err(refused) => Box::pin(std::future::ready(Err(refused))),
        }
    }

    fn enqueue_run(&self, caller: &Caller, start: StartRun, stop: &CancellationToken) -> Result<QueuedRun, BoardError> {
        let plan = start.kind.plan();
        let is_detached = plan.is_some_and(|plan| plan.detach);
        let default_model = plan.and_then(|plan| plan.default_model.clone());
        // A child token: the run's end must not cancel other work that depends on the caller's token.
        let control = RunControl::new(stop.child_token(), is_detached);
        let mut request = self.run_request(caller, start, control)?;
        let mut name_lease = None;
        if let RunKind::Agent(_) = request.kind {
            if request.client_id.is_empty() {
                request.client_id = format!("run-{}", request.run).into();
            }
            name_lease = Some(self.lease_name(&caller.principal.text(), &request.client_id, &request.control)?);
        }
        let slot = self.0.queues.enqueue(&request.session)?;
        if let QueueSlot::Waiting(_) = slot {
            self.0.inputs.shorten_expiry(&request.session);
        }
        Ok(QueuedRun { request, slot, default_model, name_lease })
    }

    fn run_request(&self, caller: &Caller, start: StartRun, control: RunControl) -> Result<RunRequest, BoardError> {
        let StartRun { mut origin, content, client_id, folder, model, client_tools, kind } = start;
        check_client_tools(&client_tools)?;
        if content.len() > MAX_CONTENT {
            return Err(BoardError::invalid(format!("content is too long: at most {MAX_CONTENT} bytes are accepted")));
        }
        let run = RunId(self.0.ids.next());
        let thread = origin.peer.as_deref().map(Arc::from);
        let agents = self.0.agents.get();
        let (agent, strategy, session) = match &kind {
            RunKind::Chat { agent } => {
                let agent = match agent {
                    Some(name) => agents.configured(name)?,
                    None => agents.route(&origin)?,
                };
                (agent, agent.strategy, origin.session_key(&agent.name))
            }
            RunKind::Agent(plan) => {
                let (agent, strategy) = agents.select_for_run(&plan.agent)?;
                if origin.peer.is_none() {
                    origin.peer = Some(format!("run-{run}"));
                }
                // A thread is one conversation, whichever agent works on it.
                (agent, strategy, origin.session_key(AgentTable::DEFAULT))
            }
        };
        self.check_key_agent(caller.principal.key(), &agent.name)?;
        if session.as_str().len() > SessionKey::MAX_BYTES {
            return Err(BoardError::invalid("channel, account and peer are too long"));
        }
        // Refuses an unknown provider at once; whether the provider has the model is checked later.
        if let Some(name) = &model {
            agents.models().select(agent, name)?;
        }
        Ok(RunRequest {
            run,
            caller: caller.clone(),
            agent: agent.clone(),
            strategy,
            origin,
            thread,
            session,
            client_id,
            content,
            model,
            client_tools,
            kind,
            folder: RunFolder::Choose(folder),
            call_chain: None,
            control,
            slot: None,
            stored_inputs: Vec::new(),
            trace: trace::current_traceparent(),
        })
    }

    async fn start_queued(self, queued: QueuedRun) -> Result<RunId, BoardError> {
        let QueuedRun { mut request, slot, default_model, name_lease } = queued;
        let cancel = request.control.cancel.clone();
        let requested_model = request.model.take();
        if let Some(name) = &requested_model {
            request = self.with_model(request, name, &cancel).await?;
        }
        let (turn, run_permit) = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(BoardError::cancelled()),
            permits = self.acquire_permits(slot) => permits?,
        };
        // Queues advance while the board drains; nothing in them may start.
        if self.is_draining() {
            return Err(BoardError::shutting_down());
        }
        // Checked after queueing, because an earlier run of the queue may have created the session.
        self.check_session(&request.caller, &request.session).await?;
        if let (RunKind::Agent(_), None) = (&request.kind, &requested_model) {
            request = self.with_default_model(request, default_model.as_deref(), &cancel).await?;
        }
        request.slot = Some(PermitSlot::new(self.0.run_permits.clone(), Some(run_permit)));
        let (started, reply) = oneshot::channel();
        let board = self.clone();
        // From here on the run does not depend on the caller: it is recorded, or it did not start.
        self.0.tracker.spawn(async move {
            let exit = board.run(request, turn, started).await;
            drop(name_lease);
            board.note_exit(exit);
        });
        reply.await.unwrap_or_else(|_| Err(BoardError::new(ErrorKind::Internal, "the run failed to begin")))
    }

    /// The session's turn first, then a permit to run: a queued session must not hold a run permit.
    async fn acquire_permits(&self, slot: QueueSlot) -> Result<(SessionPermit, RunPermit), BoardError> {
        let turn = slot.permit().await?;
        let run_permit = self.0.run_permits.acquire().await?;
        Ok((turn, run_permit))
    }

    /// Executes a run to its end.
    pub(super) async fn run(&self, request: RunRequest, turn: SessionPermit, started: StartSender) -> RunExit {
        let run = request.run;
        let is_resumable = request.kind.plan().is_some() && request.call_chain.is_none();
        let _live_guard = self.register_live(&request, is_resumable);
        match StartedRun::start(self.0.run_deps.clone(), request, turn).await {
            Ok(started_run) => {
                // Without a receiver, the run waits out its grace period, in which a client may attach.
                drop(started.send(Ok(run)));
                started_run.run().await
            }
            Err(refused) => {
                drop(started.send(Err(refused)));
                RunExit::Ended
            }
        }
    }

    pub(super) fn register_live(&self, request: &RunRequest, is_resumable: bool) -> LiveRunGuard {
        let live =
            LiveRun { principal: request.caller.principal.text(), control: request.control.clone(), is_resumable };
        self.live_runs().insert(request.run, live);
        LiveRunGuard { board: self.clone(), run: request.run, _hold: self.0.held_runs.hold(request.run) }
    }

    pub(super) fn lease_name(
        &self,
        principal: &Arc<str>,
        client_id: &Arc<str>,
        control: &RunControl,
    ) -> Result<RunNameLease, BoardError> {
        let name = (principal.clone(), client_id.clone());
        let mut names = self.run_names();
        if names.get(&name).is_some_and(|ended| !ended.load(Ordering::Relaxed)) {
            return Err(BoardError::new(ErrorKind::Conflict, format!("a run of the id {client_id} is under way")));
        }
        names.insert(name.clone(), control.ended.clone());
        Ok(RunNameLease { board: self.clone(), name, ended: control.ended.clone() })
    }

    fn run_names(&self) -> MutexGuard<'_, HashMap<RunName, Arc<AtomicBool>>> {
        self.0.run_names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most tools that a client may bring, and their size together; more are refused.
const MAX_CLIENT_TOOLS: usize = 128;
const MAX_CLIENT_TOOL_BYTES: usize = 512 * 1024;
/// Longest name of a client's tool, as models accept it.
const MAX_TOOL_NAME: usize = 64;

fn check_client_tools(tools: &[ClientToolSpec]) -> Result<(), BoardError> {
    if tools.len() > MAX_CLIENT_TOOLS {
        return Err(BoardError::invalid(format!("at most {MAX_CLIENT_TOOLS} tools of a client are accepted")));
    }
    if tools.iter().map(ClientToolSpec::approximate_bytes).sum::<usize>() > MAX_CLIENT_TOOL_BYTES {
        return Err(BoardError::invalid(format!("the client's tools take more than {MAX_CLIENT_TOOL_BYTES} bytes")));
    }
    let is_name_character = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    for tool in tools {
        let name = &*tool.name;
        if name.is_empty() || name.len() > MAX_TOOL_NAME || !name.chars().all(is_name_character) {
            let message = format!(
                "`{}` is no name of a tool: it has 1 to {MAX_TOOL_NAME} letters, digits, `_`, `-` or `.`",
                crate::text::clipped(&name, 80)
            );
            return Err(BoardError::invalid(message));
        }
        if !tool.input_schema.is_object() {
            return Err(BoardError::invalid(format!("the schema of the client's tool `{name}` must be an object")));
        }
    }
    Ok(())
}

/// A client's name for a run, reserved until the run has ended.
#[derive(Debug)]
pub(super) struct RunNameLease {
    board: Board,
    name: RunName,
    ended: Arc<AtomicBool>,
}

impl Drop for RunNameLease {
    fn drop(&mut self) {
        let mut names = self.board.run_names();
        // The next run may already hold the name.
        if names.get(&self.name).is_some_and(|ended| Arc::ptr_eq(ended, &self.ended)) {
            names.remove(&self.name);
        }
    }
}

/// Removes a run from the live list however its task ends, including by panic.
pub(super) struct LiveRunGuard {
    board: Board,
    run: RunId,
    _hold: RunHold,
}

impl Drop for LiveRunGuard {
    fn drop(&mut self) {
        self.board.live_runs().remove(&self.run);
        self.board.0.inputs.audience().forget(self.run);
    }
}
