//! Executes one run from start to end: performs the strategy's steps, and records events before they are published.

use crate::budget::call_chain::CallChain;
use crate::caller::Principal;
use crate::executor::CallRecorder;
use crate::figures::FlowKind;
use crate::port::{FolderGrant, ProgressSink, ToolScope};
use crate::run::RunRequest;
use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::model_call::{MissingToolsNote, ModelCallResult, PendingCommit, PreparedModelCall};
use super::node_tracker::NodeTracker;
use super::start::{FirstWork, RunControl, StartedRun};
use super::strategy::{AnswerKind, Strategy, StrategyInput, StrategyOutcome, StrategyStep, ToolAvailability};
use super::task_set::TaskSet;
use crate::agent::AgentSpec;
use crate::budget::Ledger;
use crate::budget::price::PriceTable;
use crate::conversation::ConversationOrigin;
use crate::error::{BoardError, ErrorKind};
use crate::event::{Event, NewEvent, RunOutcome};
use crate::executor::CallIntent;
use crate::executor::{CallContext, StoredInputs, ToolExecutor, ToolRegistry};
use crate::id::{CallId, NodeId, Seq};
use crate::log::{EventLog, TopicWriter};
use crate::memory::Memory;
use crate::model::{ModelMessage, ToolCall};
use crate::port::{Clock, IdGenerator, WorkingFolders};
use crate::reloadable::Reloadable;
use crate::run_spec::NodeKey;
use crate::session::SessionPermit;
use crate::store::{Durability, NewTurn, StoreWrite};
use crate::tool::ToolOutput;
use crate::trace;

/// Dependencies shared by all runs.
#[derive(Debug)]
pub struct RunDeps {
    pub log: Arc<EventLog>,
    pub ledger: Arc<Ledger>,
    pub tool_executor: Arc<ToolExecutor>,
    pub registry: Arc<ToolRegistry>,
    pub memory: Memory,
    pub folders: Arc<dyn WorkingFolders>,
    pub prices: Arc<Reloadable<PriceTable>>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdGenerator>,
    pub limits: Reloadable<RunLimits>,
}

#[derive(Debug, Clone, Copy)]
pub struct RunLimits {
    /// How long a run continues without subscribers.
    pub orphan_grace: Duration,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { orphan_grace: Duration::from_secs(60) }
    }
}

/// A run that has started.
#[derive(Debug)]
pub struct Driver {
    pub(super) deps: Arc<RunDeps>,
    pub(super) agent: Arc<AgentSpec>,
    pub(super) context: CallContext,
    pub(super) writer: Arc<TopicWriter>,
    pub(super) system: Arc<str>,
    /// Whether the run records its nodes. Such runs are resumed after a crash.
    pub(super) records_nodes: bool,
    pub(super) verbose: bool,
    pub(super) model_calls: AtomicU32,
    pub(super) missing_tools_note: Mutex<MissingToolsNote>,
    /// Output limit of one model call, in tokens.
    pub(super) max_output: u32,
    pub(super) origin: ConversationOrigin,
    pub(super) content: Arc<str>,
    pub(super) control: RunControl,
    /// Cancelled with the run, and when the strategy has finished while calls are still active.
    pub(super) work_stop: CancellationToken,
    pub(super) started: tokio::time::Instant,
    pub(super) trace: Option<Arc<str>>,
    /// Held to the end: the session's next turn starts after this one is recorded.
    pub(super) _session_permit: SessionPermit,
}

/// The settings of a run that are not part of its request.
pub(super) struct RunSetup {
    pub(super) system: Arc<str>,
    pub(super) folder: Option<Arc<Path>>,
    pub(super) folder_grant: Option<FolderGrant>,
    pub(super) records_nodes: bool,
    pub(super) verbose: bool,
    /// Held to the end of the run.
    pub(super) session_permit: SessionPermit,
}

impl Driver {
    pub(super) fn count_start(&self) {
        let caller = &self.context.caller;
        crate::telemetry::run_started(caller.surface.name());
        // Channels are those of the configuration, so the origins are bounded.
        let from = if let Principal::Channel(channel) = &caller.principal { channel } else { caller.surface.name() };
        self.deps.tool_executor.statistics.flowed(FlowKind::Run, from, &self.agent.name, self.deps.clock.now());
    }

    /// Refused if a tool of the client has the name of another tool of the agent.
    pub(super) fn new(
        deps: Arc<RunDeps>,
        request: RunRequest,
        writer: Arc<TopicWriter>,
        setup: RunSetup,
    ) -> Result<Self, BoardError> {
        let RunRequest { run, caller, agent, strategy, origin, session, content, call_chain, control, trace, .. } =
            request;
        let tool_set =
            deps.registry.tool_set_for_agent(agent.tools_for(caller.surface).as_deref(), setup.folder.as_deref());
        let tool_set = tool_set.with_client_tools(&request.client_tools).map_err(|name| {
            BoardError::invalid(format!(
                "the agent has a tool named `{name}` already: give the client's tool another name"
            ))
        })?;
        let owner = origin.memory_owner();
        let made_by = call_chain.as_ref().map(|_| format!("agent {}", agent.name).into());
        let call_chain = call_chain.unwrap_or_else(|| {
            CallChain::with_slot(session.clone(), &caller.principal, agent.max_run_tokens, request.slot)
        });
        let tool_set = deps.tool_executor.tools_of_key(call_chain.key.as_deref(), tool_set);
        Ok(Self {
            context: CallContext {
                caller,
                agent: Some(agent.name.clone()),
                run,
                call_chain,
                scope: ToolScope {
                    session,
                    owner,
                    folder: setup.folder,
                    folder_grant: setup.folder_grant,
                    progress: ProgressSink::default(),
                    call_metadata: None,
                },
                tool_set,
                node: None,
                recorder: CallRecorder::RunLog { writer: writer.clone(), records_nodes: setup.records_nodes },
                plugin_depth: 0,
                made_by,
                stored_inputs: StoredInputs::new(request.stored_inputs),
            },
            writer,
            system: setup.system,
            records_nodes: setup.records_nodes,
            verbose: setup.verbose,
            model_calls: AtomicU32::new(0),
            missing_tools_note: Mutex::default(),
            max_output: agent.reasoning.max_output(strategy, agent.max_tokens),
            started: tokio::time::Instant::now(),
            _session_permit: setup.session_permit,
            deps,
            agent,
            origin,
            content,
            work_stop: control.cancel.child_token(),
            control,
            trace,
        })
    }
}

/// Result of one task.
enum WorkOutcome {
    Model(ModelCallResult),
    Tool(CallId, ToolOutput),
}

type DriverTasks<'a> = TaskSet<'a, Result<WorkOutcome, BoardError>>;

/// How this process stopped working on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunExit {
    /// Its end is recorded.
    Ended,
    /// The next process continues it.
    Suspended,
    /// Another process works on it.
    Lost,
    /// It could not be recorded: whoever takes it over continues or closes it.
    Released,
}

impl StartedRun {
    /// Runs until the run has ended and its end is recorded, or this process cannot continue it.
    pub async fn run(self) -> RunExit {
        let driver = &self.driver;
        let session = &driver.context.scope.session;
        let span = trace::run(driver.context.run, session, &driver.agent.name, driver.trace.as_deref());
        self.run_in_span().instrument(span).await
    }

    async fn run_in_span(self) -> RunExit {
        let Self { driver, mut strategy, mut nodes, start } = self;
        let ended = {
            let work = driver.drive(strategy.as_mut(), &mut nodes, start);
            let abandoned = driver.until_abandoned();
            tokio::pin!(work);
            tokio::select! {
                ended = &mut work => ended,
                () = abandoned => {
                    tracing::debug!("the run has no subscribers any more; cancelling it");
                    driver.control.cancel.cancel();
                    work.await
                }
                () = driver.context.call_chain.waits.working_time(driver.agent.run_timeout) => {
                    driver.work_stop.cancel();
                    work.await
                }
                // Another process works on the run now: nothing more may be recorded or done here.
                () = driver.deps.log.tenure().lost().cancelled() => {
                    driver.report_outcome(RunOutcome::Interrupted);
                    return RunExit::Lost;
                }
                () = driver.control.suspend.cancelled() => {
                    if !driver.work_stop.is_cancelled() {
                        // The task is dropped: its records suffice for the next process to resume the run.
                        driver.writer.suspend();
                        driver.report_outcome(RunOutcome::Interrupted);
                        return RunExit::Suspended;
                    }
                    // Work was already stopped: only the end has to be recorded, so that the run does not resume at the
                    // next start.
                    work.await
                }
            }
        };
        let recorded = match ended {
            Ok(ending) => driver.record_end(&strategy.transcript(), &mut nodes, ending).await,
            Err(error) => Err(error),
        };
        let Err(error) = recorded else { return RunExit::Ended };
        driver.report_outcome(RunOutcome::Interrupted);
        if driver.deps.log.tenure().may_act().is_err() {
            return RunExit::Lost;
        }
        // The last events may not be stored, so followers wait for whoever takes the run over.
        let cause = error.source.as_ref().map(ToString::to_string).unwrap_or_default();
        tracing::error!(%error, cause, "the run could not be recorded; it is released and taken up again");
        RunExit::Released
    }
}

/// How a run ends, with the events and writes still to be recorded.
struct RunConclusion {
    outcome: RunOutcome,
    failure: Option<String>,
    pending: PendingCommit,
}

impl RunConclusion {
    fn failed(message: String, pending: PendingCommit) -> Self {
        Self { outcome: RunOutcome::Failed, failure: Some(message), pending }
    }
}

/// A model call requested by a strategy and not started yet.
struct QueuedModelCall {
    node: NodeKey,
    messages: Vec<ModelMessage>,
    tools: ToolAvailability,
    answer_kind: AnswerKind,
}

/// State of a run's loop: its active tasks and queued calls.
struct RunLoop<'a, 'n> {
    driver: &'a Driver,
    nodes: &'n mut NodeTracker,
    tasks: DriverTasks<'a>,
    /// Number of active model calls.
    calls_in_flight: usize,
    /// Model calls that wait for budget until another call of this run is settled.
    queued_calls: VecDeque<QueuedModelCall>,
    /// Tool calls of the previous process that may have taken effect.
    outcome_unknown: HashSet<CallId>,
    /// Tool calls contained in a recorded model response; a strategy may create others from the model's text.
    announced: HashSet<CallId>,
    /// Tool calls of the previous process whose intent is recorded and that have not started.
    intended: HashSet<CallId>,
}

impl Driver {
    /// Resolves when the run had no subscriber for the grace period and is not detached.
    async fn until_abandoned(&self) {
        // A run that waits for an answer is not abandoned; its grace period begins anew with the answer.
        let unfollowed = || self.writer.wait_until_unfollowed(self.deps.limits.get().orphan_grace);
        self.context.call_chain.waits.while_working(unfollowed).await;
        if self.control.detached.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    async fn drive(
        &self,
        strategy: &mut dyn Strategy,
        nodes: &mut NodeTracker,
        start: FirstWork,
    ) -> Result<RunConclusion, BoardError> {
        let mut run_loop = RunLoop {
            driver: self,
            nodes,
            tasks: TaskSet::new(),
            calls_in_flight: 0,
            queued_calls: VecDeque::new(),
            outcome_unknown: HashSet::new(),
            announced: HashSet::new(),
            intended: HashSet::new(),
        };
        let ending = run_loop.run_to_end(strategy, start).await?;
        // Stops all active work; its cost and effects are recorded before the run's end is.
        self.work_stop.cancel();
        let mut tasks = run_loop.tasks;
        while let Some(progress) = tasks.next().await {
            if let WorkOutcome::Model(ModelCallResult { mut pending, .. }) = progress? {
                tasks.run_alongside(self.record(&mut pending)).await?;
            }
        }
        Ok(ending)
    }

    fn model_task(&self, call: PreparedModelCall) -> BoxFuture<'_, Result<WorkOutcome, BoardError>> {
        Box::pin(async move { Ok(WorkOutcome::Model(self.make_call(call, &self.work_stop).await?)) })
    }

    fn tool_task(&self, node: Option<NodeId>, intent: CallIntent) -> BoxFuture<'_, Result<WorkOutcome, BoardError>> {
        Box::pin(async move {
            let context = CallContext { node, ..self.context.clone() };
            let output = self.deps.tool_executor.call(&context, &intent, &self.work_stop).await?;
            Ok(WorkOutcome::Tool(intent.call_id().clone(), output))
        })
    }

    /// Commits pending events and writes, then settles the budget: the tokens are spent even if the commit fails.
    async fn record(&self, pending: &mut PendingCommit) -> Result<(), BoardError> {
        let PendingCommit { events, writes, settlement } = std::mem::take(pending);
        let recorded = if events.is_empty() && writes.is_empty() {
            Ok(())
        } else {
            self.writer.append(events, writes, Durability::Boundary).await
        };
        if let Some((reservation, used)) = settlement {
            reservation.settle(used);
        }
        recorded
    }

    /// The final commit: the turn, its facts and `RunEnded` together, so that a client that receives `done` finds the
    /// turn stored.
    async fn record_end(
        &self,
        transcript: &[ModelMessage],
        nodes: &mut NodeTracker,
        ending: RunConclusion,
    ) -> Result<(), BoardError> {
        let RunConclusion { outcome, failure, mut pending } = ending;
        let at = self.deps.clock.now();
        let run = self.context.run;
        let reason = match outcome {
            RunOutcome::Cancelled => "cancelled",
            RunOutcome::Completed | RunOutcome::Failed | RunOutcome::Interrupted => "the run ended",
        };
        pending.events.extend(nodes.leave_all(failure.as_deref().unwrap_or(reason)));
        if let Some(message) = failure {
            tracing::debug!(failure = %message, "run failed");
            pending.events.push(Event::RunFailed { message: message.into() }.into());
        }
        if outcome == RunOutcome::Completed {
            let session = self.context.scope.session.clone();
            let facts = match self.context.call_chain.depth() {
                0 => {
                    self.deps
                        .memory
                        .extract_facts(&self.origin, (&session, run), &self.content, &self.control.cancel)
                        .await
                }
                // The text of another agent, not the user's.
                _ => Vec::new(),
            };
            pending.writes.push(StoreWrite::AddTurn(NewTurn { session, run, at, messages: transcript.to_vec() }));
            pending.writes.extend(facts.into_iter().map(StoreWrite::LearnFact));
        }
        pending.events.push(Event::RunEnded { outcome }.into());
        pending.writes.push(StoreWrite::CloseRun { run, outcome, at });
        self.control.ended.store(true, Ordering::Relaxed);
        self.record(&mut pending).await?;
        self.report_outcome(outcome);
        Ok(())
    }

    fn report_outcome(&self, outcome: RunOutcome) {
        crate::telemetry::run_ended(outcome, self.started.elapsed());
        trace::run_ended(outcome);
    }
}

impl RunLoop<'_, '_> {
    async fn run_to_end(&mut self, strategy: &mut dyn Strategy, start: FirstWork) -> Result<RunConclusion, BoardError> {
        match start {
            FirstWork::Fresh(first) => self.start_call(*first),
            FirstWork::Resumed { steps, outcome_unknown, announced, intended } => {
                self.outcome_unknown = outcome_unknown;
                self.announced = announced;
                self.intended = intended;
                if let Some(ending) = self.perform(steps, PendingCommit::default()).await? {
                    return Ok(ending);
                }
            }
        }
        while let Some(progress) = self.tasks.next().await {
            let (input, pending) = match progress? {
                WorkOutcome::Model(ModelCallResult { node, result, pending }) => {
                    self.calls_in_flight -= 1;
                    let input = match result {
                        Ok(completion) => {
                            self.announced.extend(completion.calls.iter().map(|call| call.id.clone()));
                            StrategyInput::ModelAnswered { node, completion }
                        }
                        Err(error) => StrategyInput::ModelFailed { node, error: format!("provider error: {error}") },
                    };
                    (input, pending)
                }
                WorkOutcome::Tool(call, output) => {
                    (StrategyInput::ToolFinished { call, output }, PendingCommit::default())
                }
            };
            let driver = self.driver;
            if driver.control.cancel.is_cancelled() {
                return Ok(RunConclusion { outcome: RunOutcome::Cancelled, failure: None, pending });
            }
            if driver.work_stop.is_cancelled() {
                let seconds = driver.agent.run_timeout.as_secs();
                return Ok(RunConclusion::failed(
                    format!("stopped after {seconds} s, the longest a run may take"),
                    pending,
                ));
            }
            let mut steps = Vec::new();
            let advanced = std::panic::catch_unwind(AssertUnwindSafe(|| strategy.advance(input, &mut steps)));
            if advanced.is_err() {
                tracing::error!("the strategy panicked");
                return Ok(RunConclusion::failed("internal error in the strategy".to_owned(), pending));
            }
            if let Some(ending) = self.perform(steps, pending).await? {
                return Ok(ending);
            }
        }
        Ok(RunConclusion::failed("the run stopped without an answer".to_owned(), PendingCommit::default()))
    }

    /// Performs the strategy's steps. A model's text, its tool calls and its usage are recorded in one commit before
    /// any of them takes effect.
    async fn perform(
        &mut self,
        steps: Vec<StrategyStep>,
        mut pending: PendingCommit,
    ) -> Result<Option<RunConclusion>, BoardError> {
        let mut intents: Vec<(Option<NodeId>, CallIntent)> = Vec::new();
        for step in steps {
            match step {
                StrategyStep::Enter { node, name } => {
                    if self.driver.verbose {
                        tracing::info!(node = name, "node entered");
                    }
                    pending.events.extend(self.nodes.enter(node, name));
                }
                StrategyStep::Leave { node, failed } => {
                    if self.driver.verbose {
                        tracing::info!(node = node.0, failed, "node left");
                    }
                    pending.events.extend(self.nodes.leave(node, failed));
                }
                StrategyStep::Report { node, finding } => {
                    pending.events.extend(self.nodes.finding_entry(node, finding));
                }
                StrategyStep::CallTool { node, call } => {
                    let node = self.nodes.node(node);
                    intents.push((node, self.intent_for(node, call, &mut pending)));
                }
                StrategyStep::AskModel { node, messages, tools, answer_kind } => {
                    self.queued_calls.push_back(QueuedModelCall { node, messages, tools, answer_kind });
                }
                StrategyStep::Finish(StrategyOutcome::Completed) => {
                    return Ok(Some(RunConclusion { outcome: RunOutcome::Completed, failure: None, pending }));
                }
                StrategyStep::Finish(StrategyOutcome::Failed(message)) => {
                    return Ok(Some(RunConclusion::failed(message, pending)));
                }
            }
        }
        // Settles first: the budget released by this call may be what the next one needs.
        if pending.settlement.is_some() && !self.queued_calls.is_empty() {
            self.record(&mut pending).await?;
        }
        if let Some(refused) = self.start_queued_calls(&mut pending).await? {
            return Ok(Some(RunConclusion::failed(refused, pending)));
        }
        self.record(&mut pending).await?;
        for (node, intent) in intents {
            self.tasks.push(self.driver.tool_task(node, intent));
        }
        Ok(None)
    }

    /// The intent of a call of the previous process is already recorded; the tool executor decides how to treat its
    /// unknown outcome.
    fn intent_for(&mut self, node: Option<NodeId>, call: ToolCall, pending: &mut PendingCommit) -> CallIntent {
        if self.outcome_unknown.remove(&call.id) {
            return CallIntent::with_unknown_outcome(call);
        }
        if self.intended.remove(&call.id) {
            return ToolExecutor::prepare_intent(call, true).1;
        }
        let is_announced = self.driver.records_nodes && self.announced.remove(&call.id);
        let (event, intent) = ToolExecutor::prepare_intent(call, is_announced);
        if self.driver.records_nodes {
            pending.events.push(NewEvent { node, event });
        } else {
            pending.add_before_usage(event.into());
        }
        intent
    }

    /// Starts as many queued model calls as the budget allows. While calls of this run are active, the others wait for
    /// the budget that those release; otherwise a refusal is final.
    async fn start_queued_calls(&mut self, pending: &mut PendingCommit) -> Result<Option<String>, BoardError> {
        while let Some(queued_call) = self.queued_calls.pop_front() {
            let QueuedModelCall { node, messages, tools, answer_kind } = queued_call;
            let node_id = self.nodes.node(node);
            let requeue_messages = if self.calls_in_flight > 0 { Some(messages.clone()) } else { None };
            let preparing = self.driver.prepare_call(node, node_id, messages, tools, answer_kind);
            let call = match (self.tasks.run_alongside(preparing).await, requeue_messages) {
                (Ok(call), _) => call,
                (Err(refused), Some(messages)) if refused.kind == ErrorKind::Exhausted => {
                    self.queued_calls.push_front(QueuedModelCall { node, messages, tools, answer_kind });
                    return Ok(None);
                }
                (Err(refused), _) => return Ok(Some(refused.message)),
            };
            let next = self.tasks.run_alongside(self.driver.writer.next_seq()).await;
            // Pending events take their sequence numbers first; the call's text comes after them.
            let pending_seqs: u64 = pending.events.iter().map(|entry| entry.event.seq_count()).sum();
            let first_seq = Seq(next.0 + pending_seqs);
            pending.writes.push(self.driver.open_row(&call, first_seq));
            self.record(pending).await?;
            self.start_call(call);
        }
        Ok(None)
    }

    fn start_call(&mut self, call: PreparedModelCall) {
        self.calls_in_flight += 1;
        self.tasks.push(self.driver.model_task(call));
    }

    async fn record(&mut self, pending: &mut PendingCommit) -> Result<(), BoardError> {
        self.tasks.run_alongside(self.driver.record(pending)).await
    }
}
