//! The board: the only way in. `ask` authorises, then answers; `follow` replays, then tails; `drain` lets go in order.

use crate::command::MAX_CONTENT;
use crate::executor::plugin_tools::NestedCaller;
use crate::executor::registry::RegisteredHost;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access;
use crate::agent::{AgentSpec, AgentTable};
use crate::approval::ApprovalQueue;
use crate::approval::policy::ApprovalPolicy;
use crate::audit::AuditTrail;
use crate::bridge::{Bridge, BridgeCaller, BridgeOptions, TelemetryBus, VariableTools, WorkerTools};
use crate::budget::price::PriceTable;
use crate::budget::{BudgetLimits, Ledger};
use crate::caller::{Caller, GrantSet, Surface};
use crate::channel::ChannelService;
use crate::command::{Command, StartRun};
use crate::conversation::ConversationOrigin;
use crate::error::{BoardError, ErrorKind};
use crate::event::{Envelope, Topic};
use crate::executor::ToolLimits;
use crate::executor::builtin::CoreTools;
use crate::executor::plugin_tools::PluginTools;
use crate::executor::{ToolExecutor, ToolRegistry};
use crate::hub::notice::{NoticeOptions, Notifier};
use crate::hub::{AppTools, MAX_CONCURRENT_CALLS, ModelRouter};
use crate::hub::{Hub, HubOptions, HubParts};
use crate::id::{ConnectionId, RunId, Seq, SessionKey};
use crate::log::{EventLog, FollowerPacing};
use crate::memory::{Memory, MemoryOptions};
use crate::port::{
    BoxStream, Clock, Embedder, IdGenerator, NoticeSink, PluginRuntime, SchemaValidator, ServerControl, SoulSource,
    ToolHost, WorkerSupervisor, WorkingFolders,
};
use crate::reloadable::Reloadable;
use crate::reply::BoardReply;
use crate::run::agent_tools::AgentTools;
use crate::run::start::{RunFolder, StartedRun};
use crate::run::{RunControl, RunDeps, RunLimits, RunRequest, recover};
use crate::run_spec::StrategyKind;
use crate::session::{QueueSlot, SessionPermit, SessionQueues};
use crate::store::{Store, UnfinishedRun};
use crate::trace;
use crate::webhook::ChannelOptions;
use crate::workspaces::WorkspaceService;
use tracing::Instrument;

mod bridge_api;
mod channels;
mod dispatch;
mod housekeeping;
mod messages;
mod models;
mod nested_runs;
mod plugins;
mod readiness;
mod run_permits;
mod sessions;
mod settings;

pub use housekeeping::RetentionPolicy;
use run_permits::{RunPermit, RunPermits};
pub use settings::BoardSettings;

/// Everything a board is made of.
#[derive(Debug)]
pub struct BoardParts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdGenerator>,
    pub agents: AgentTable,
    /// In order of precedence: built-ins first.
    pub tools: Vec<Arc<dyn ToolHost>>,
    /// One for each pool of workers.
    pub pools: Vec<Arc<dyn ToolHost>>,
    pub workers: Option<Arc<dyn WorkerSupervisor>>,
    /// `None` where none can be loaded.
    pub plugins: Option<Arc<dyn PluginRuntime>>,
    pub channels: Vec<ChannelOptions>,
    /// What the server and its workers tell about themselves.
    pub telemetry: TelemetryBus,
    pub bridge: BridgeOptions,
    pub hub: HubOptions,
    pub notices: NoticeOptions,
    /// Where notices are shown.
    pub sinks: Vec<Arc<dyn NoticeSink>>,
    pub schemas: Arc<dyn SchemaValidator>,
    pub souls: Arc<dyn SoulSource>,
    pub folders: Arc<dyn WorkingFolders>,
    pub embedder: Option<Arc<dyn Embedder>>,
    pub budgets: BudgetLimits,
    pub prices: PriceTable,
    pub memory: MemoryOptions,
    pub approval_policy: ApprovalPolicy,
    pub limits: BoardLimits,
    pub version: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub struct BoardLimits {
    pub run: RunLimits,
    pub tool: ToolLimits,
    pub approval_expiry: Duration,
    /// Requests that may wait for one session; the next one is refused.
    pub session_queue: usize,
    /// Runs at work at once; further ones wait.
    pub concurrent_runs: usize,
}

impl Default for BoardLimits {
    fn default() -> Self {
        Self {
            run: RunLimits::default(),
            tool: ToolLimits::default(),
            approval_expiry: Duration::from_secs(120),
            session_queue: 8,
            concurrent_runs: 256,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Board(Arc<BoardShared>);

/// For what belongs to a board and works on it.
#[derive(Debug, Clone)]
struct WeakBoard(Weak<BoardShared>);

impl WeakBoard {
    fn board(&self) -> Result<Board, BoardError> {
        self.0.upgrade().map(Board).ok_or_else(BoardError::shutting_down)
    }
}

#[derive(Debug)]
struct BoardShared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGenerator>,
    agents: Reloadable<AgentTable>,
    agent_tools: Arc<AgentTools>,
    /// The hub's own, where it has one: a name, and the agent of that name.
    routing_agent: Option<(Arc<str>, Arc<Reloadable<AgentSpec>>)>,
    log: Arc<EventLog>,
    ledger: Arc<Ledger>,
    approvals: Arc<ApprovalQueue>,
    run_deps: Arc<RunDeps>,
    hub: Hub,
    bridge: Bridge,
    plugins: Option<Arc<dyn PluginRuntime>>,
    channels: Arc<ChannelService>,
    audit_trail: AuditTrail,
    workspaces: WorkspaceService,
    queues: SessionQueues,
    /// Places for runs at work.
    run_permits: RunPermits,
    /// Places for runs that others wait for; there are as many, and nobody waits for one.
    nested_run_permits: RunPermits,
    live_runs: Mutex<HashMap<RunId, LiveRun>>,
    /// Names of live and waiting runs, by principal, and whether the run is over.
    run_names: Mutex<HashMap<RunName, Arc<AtomicBool>>>,
    tracker: TaskTracker,
    draining: AtomicBool,
    /// Cancelled when a drain has waited long enough: ends what is under way and is no run.
    closing: CancellationToken,
    /// When the store last took what `is_ready` wrote.
    last_write_at: Mutex<Option<Instant>>,
    /// What of the server lies outside of the board.
    control: OnceLock<Arc<dyn ServerControl>>,
    version: &'static str,
}

#[derive(Debug, Clone)]
struct LiveRun {
    principal: Arc<str>,
    control: RunControl,
    /// Can the next process go on with it?
    is_resumable: bool,
}

/// A principal and what it calls a run.
type RunName = (Arc<str>, Arc<str>);

/// A client's name for a run, taken until the run has ended.
#[derive(Debug)]
struct RunNameLease {
    board: Board,
    name: RunName,
    ended: Arc<AtomicBool>,
}

impl Drop for RunNameLease {
    fn drop(&mut self) {
        let mut claims = self.board.run_names();
        // The next run may have the name already.
        if claims.get(&self.name).is_some_and(|over| Arc::ptr_eq(over, &self.ended)) {
            claims.remove(&self.name);
        }
    }
}

/// What was found unfinished at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecoveryReport {
    pub resumed: usize,
    pub closed: usize,
    /// Utterances that have not found their app yet.
    pub messages: usize,
    /// Messages of channels that are not answered yet, or whose answers are not out.
    pub deliveries: usize,
}

/// A run of the last process that is about to go on.
struct ResumedRun {
    started: StartedRun,
    live_guard: LiveRunGuard,
    name_lease: RunNameLease,
    permit: Option<RunPermit>,
}

/// A request to run that may wait for its turn.
#[derive(Debug)]
struct AcceptedRun {
    agent: Arc<AgentSpec>,
    strategy: StrategyKind,
    origin: ConversationOrigin,
    thread: Option<Arc<str>>,
    session: SessionKey,
    client_id: Arc<str>,
    model: Option<Arc<str>>,
    name_lease: Option<RunNameLease>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainReport {
    /// Runs that did not end in time and were cancelled.
    pub cancelled: usize,
    /// Runs that did not end in time and go on at the next start.
    pub suspended: usize,
}

impl Board {
    pub fn assemble(parts: BoardParts) -> Self {
        let log = Arc::new(EventLog::new(parts.store.clone(), parts.clock.clone()));
        let ledger = Arc::new(Ledger::new(parts.budgets, parts.store.clone(), parts.clock.clone()));
        let queues = SessionQueues::new(parts.limits.session_queue);
        let approvals = Arc::new(ApprovalQueue::new(
            parts.clock.clone(),
            parts.ids.clone(),
            parts.limits.approval_expiry,
            queues.clone(),
        ));
        let memory = Memory {
            options: parts.memory,
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            souls: parts.souls,
            embedder: parts.embedder,
        };
        let prices = Arc::new(Reloadable::new(parts.prices));
        let routing_agent = parts.hub.agent.clone().and_then(|name| {
            let agent = parts.agents.select_for_run(&name).ok()?.0.clone();
            Some((name, Arc::new(Reloadable::new(agent))))
        });
        let router = routing_agent.as_ref().map(|(_, agent)| ModelRouter {
            agent: agent.clone(),
            ledger: ledger.clone(),
            prices: prices.clone(),
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            ids: parts.ids.clone(),
            call_permits: Semaphore::new(MAX_CONCURRENT_CALLS),
        });
        let hub = Hub::new(HubParts {
            options: parts.hub,
            store: parts.store.clone(),
            log: log.clone(),
            clock: parts.clock.clone(),
            ids: parts.ids.clone(),
            embedder: memory.embedder.clone(),
            router,
            notices: Arc::new(Notifier::new(parts.notices, parts.sinks, parts.clock.clone())),
        });
        let exposed = parts.bridge.expose.clone();
        let bridge =
            Bridge::new(parts.bridge, parts.workers, parts.telemetry, parts.store.clone(), parts.clock.clone());
        let (plugins, store) = (parts.plugins.clone(), parts.store.clone());
        let channels = ChannelService::new(parts.channels, plugins, store, parts.clock.clone(), parts.ids.clone());
        let tracker = TaskTracker::new();
        let trail = AuditTrail::new(parts.store.clone(), tracker.clone());
        let agent_tools = Arc::new(AgentTools::new(&parts.agents, &exposed));
        // First, so that nothing takes their names.
        let mut hosts = vec![
            RegisteredHost::Plain(Arc::new(CoreTools::new(memory.clone()))),
            RegisteredHost::Plain(Arc::new(AppTools(hub.clone()))),
            RegisteredHost::Plain(Arc::new(VariableTools(bridge.variables().clone()))),
            RegisteredHost::Contextual(agent_tools.clone()),
        ];
        hosts.extend(parts.tools.into_iter().map(RegisteredHost::Plain));
        let plugin_tools = parts.plugins.clone().map(|plugins| Arc::new(PluginTools::new(plugins)));
        hosts.extend(plugin_tools.clone().map(|tools| RegisteredHost::Contextual(tools)));
        hosts.extend(parts.pools.into_iter().map(|pool| {
            RegisteredHost::Contextual(Arc::new(WorkerTools { pool, bridge: bridge.clone(), ids: parts.ids.clone() }))
        }));
        let registry = Arc::new(ToolRegistry::new(hosts));
        let tool_executor = Arc::new(ToolExecutor {
            policy: Reloadable::new(parts.approval_policy),
            approvals: approvals.clone(),
            schemas: parts.schemas,
            clock: parts.clock.clone(),
            limits: Reloadable::new(parts.limits.tool),
        });
        if let Some(tools) = plugin_tools {
            tools.bind(NestedCaller {
                executor: tool_executor.clone(),
                registry: Arc::downgrade(&registry),
                ids: parts.ids.clone(),
                tracker: tracker.clone(),
            });
        }
        let deps = Arc::new(RunDeps {
            log: log.clone(),
            ledger: ledger.clone(),
            tool_executor,
            registry,
            memory,
            folders: parts.folders,
            prices,
            clock: parts.clock.clone(),
            ids: parts.ids.clone(),
            limits: Reloadable::new(parts.limits.run),
        });
        let board = Self(Arc::new(BoardShared {
            workspaces: WorkspaceService::new(parts.store.clone(), parts.clock.clone(), parts.ids.clone()),
            store: parts.store,
            clock: parts.clock,
            ids: parts.ids,
            agents: Reloadable::new(parts.agents),
            agent_tools: agent_tools.clone(),
            routing_agent,
            log,
            ledger,
            approvals,
            run_deps: deps,
            hub,
            bridge,
            plugins: parts.plugins,
            channels: Arc::new(channels),
            audit_trail: trail,
            queues,
            run_permits: RunPermits::new(parts.limits.concurrent_runs),
            nested_run_permits: RunPermits::new(parts.limits.concurrent_runs),
            live_runs: Mutex::new(HashMap::new()),
            run_names: Mutex::new(HashMap::new()),
            tracker,
            draining: AtomicBool::new(false),
            closing: CancellationToken::new(),
            last_write_at: Mutex::default(),
            control: OnceLock::new(),
            version: parts.version,
        }));
        agent_tools.bind(Arc::new(board.downgrade()));
        board
    }

    fn downgrade(&self) -> WeakBoard {
        WeakBoard(Arc::downgrade(&self.0))
    }

    /// Goes on with what the last process left unfinished, and closes what cannot go on. To be called once, before
    /// anything is asked. Whatever is wrong with one run, the others and the server start.
    pub async fn recover(&self) -> Result<RecoveryReport, BoardError> {
        let mut report = RecoveryReport::default();
        let mut resumed = Vec::new();
        for unfinished in self.0.store.unfinished_runs().await? {
            let run = unfinished.run.run;
            // What is on record may make a strategy panic, as it may have done before.
            let taken_up = AssertUnwindSafe(self.resume(&unfinished)).catch_unwind().await;
            let reason = match taken_up {
                Ok(Ok(Ok(run))) => {
                    resumed.push(run);
                    continue;
                }
                Ok(Ok(Err(reason))) => reason,
                Ok(Err(error)) => {
                    tracing::error!(run.id = %run, %error, "a run of the last server cannot be read back; closing it");
                    "interrupted: what is on record of it cannot be read back".to_owned()
                }
                Err(_panic) => {
                    tracing::error!(run.id = %run, "a run of the last server panicked; closing it");
                    "interrupted: it failed inside".to_owned()
                }
            };
            match recover::close_interrupted(&self.0.run_deps, &self.0.store, &unfinished, &reason).await {
                Ok(()) => report.closed += 1,
                Err(error) => {
                    tracing::error!(run.id = %run, %error, "a run of the last server cannot be closed; it is left as it is");
                }
            }
        }
        report.resumed = resumed.len();
        // Not before all are settled: the first one at work reads what the budgets have left.
        for ResumedRun { started: begun, live_guard: forget, name_lease: claim, permit: working } in resumed {
            self.0.tracker.spawn(async move {
                begun.run().await;
                drop((forget, claim, working));
            });
        }
        report.messages = self.0.hub.recover().await?;
        report.deliveries = self.recover_deliveries().await?;
        Ok(report)
    }

    /// The inner error says why the run cannot go on.
    async fn resume(&self, unfinished: &UnfinishedRun) -> Result<Result<ResumedRun, String>, BoardError> {
        let row = &unfinished.run;
        let Some(briefing) = recover::recorded_spec(&self.0.store, row.run).await? else {
            return Ok(Err("interrupted: the server stopped during this turn".to_owned()));
        };
        let agents = self.0.agents.get();
        let Ok((agent, _)) = agents.select_for_run(&briefing.requested_agent) else {
            return Ok(Err(format!("interrupted: no agent is named `{}` any more", briefing.requested_agent)));
        };
        let selected = briefing.model.as_deref().map(|named| agents.models().select(agent, named));
        let agent = match selected.unwrap_or_else(|| Ok(agent.clone())) {
            Ok(agent) => agent,
            Err(refused) => return Ok(Err(format!("interrupted: {refused}"))),
        };
        // It may be gone, or closed to runs by now.
        let folder = match RunFolder::readmit(&*self.0.run_deps.folders, &briefing).await {
            Ok(folder) => folder,
            Err(refused) => return Ok(Err(format!("interrupted: {refused}"))),
        };
        let turn = match self.0.queues.enqueue(&row.session)? {
            QueueSlot::Ready(turn) => turn,
            // The first one's end could not be recorded, and then the server stopped during this one.
            QueueSlot::Waiting(_) => return Ok(Err("interrupted: the server stopped during this run".to_owned())),
        };
        let stops = RunControl::new(CancellationToken::new(), briefing.detached);
        let Ok(claim) = self.claim_name(&row.principal, &row.client_id, &stops) else {
            return Ok(Err(format!("interrupted: another run of the id {} goes on", row.client_id)));
        };
        let caller = Caller {
            surface: Surface::Runs,
            principal: row.principal.clone(),
            // No connection of this process: only the operator answers what it asks.
            connection: ConnectionId(0),
            grants: GrantSet::CLIENT,
        };
        let request = RunRequest {
            run: row.run,
            caller,
            agent,
            strategy: briefing.strategy,
            origin: briefing.origin.clone(),
            thread: briefing.thread.clone(),
            session: row.session.clone(),
            client_id: row.client_id.clone(),
            content: briefing.message.clone(),
            model: briefing.model.clone(),
            plan: None,
            folder,
            call_chain: None,
            turn,
            control: stops,
            // Whoever asked for it did so in another process.
            trace: None,
        };
        let forget = self.register_live(&request, true);
        let begun = recover::resume(&self.0.run_deps, &self.0.store, unfinished, &briefing, request).await?;
        // They had their places before; with fewer places now, they are not made to wait for one.
        let working = self.0.run_permits.try_acquire();
        Ok(begun.map(|begun| ResumedRun { started: begun, live_guard: forget, name_lease: claim, permit: working }))
    }

    /// Asks for one thing. Rights are checked, and a place in a session's line is taken, before this returns:
    /// the order of calls is the order of turns. Cancelling `stop` withdraws the request and, when it started a run,
    /// cancels the run; merely dropping the future leaves a run that has begun alone.
    pub fn ask(
        &self,
        caller: &Caller,
        command: Command,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<BoardReply, BoardError>> {
        self.ask_traced(caller, command, stop, None)
    }

    /// `ask` for a client that gave its position in a trace: the span of the request continues from there. Requests that
    /// only look something up or keep a connection going have no span.
    pub fn ask_traced(
        &self,
        caller: &Caller,
        command: Command,
        stop: CancellationToken,
        traceparent: Option<&str>,
    ) -> BoxFuture<'static, Result<BoardReply, BoardError>> {
        let Some(name) = trace::traced_request_name(&command) else { return self.ask_in_span(caller, command, stop) };
        let span = trace::request(caller, name, traceparent);
        if span.is_disabled() {
            return self.ask_in_span(caller, command, stop);
        }
        let asking = span.in_scope(|| self.ask_in_span(caller, command, stop));
        let traced = async move { asking.await.inspect_err(trace::request_failed) };
        Box::pin(traced.instrument(span))
    }

    fn ask_in_span(
        &self,
        caller: &Caller,
        command: Command,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<BoardReply, BoardError>> {
        if let Err(refused) = self.admit(caller, &command) {
            return Box::pin(std::future::ready(Err(refused)));
        }
        if let Command::StartRun(start) = command {
            return self.start_run(caller, start, stop);
        }
        // What an app says is taken down here and now: the order of calls is the order in which it counts.
        if let Command::AnswerMessage { message, response } = command {
            let answer = self.0.hub.respond(caller, message, response);
            return Box::pin(async move { answer.await.unwrap_or_else(|_| Err(BoardError::shutting_down())) });
        }
        let board = self.clone();
        let caller = caller.clone();
        Box::pin(async move { board.dispatch(&caller, command, stop).await })
    }

    /// Replays a topic from `from`, then tails it. No gap, no duplicate.
    pub async fn follow(
        &self,
        caller: &Caller,
        topic: Topic,
        from: Seq,
        pace: FollowerPacing,
    ) -> Result<BoxStream<Result<Arc<Envelope>, BoardError>>, BoardError> {
        let run = match &topic {
            Topic::Run(run) => run,
            Topic::Message(message) => {
                access::authorise(caller, &Command::ReadMessage { message: *message, newer_than: None })?;
                return Ok(self.0.log.follow(&topic, from, pace));
            }
        };
        let live = self.live_runs().get(run).map(|live| live.principal.clone());
        let principal = match live {
            Some(principal) => Some(principal),
            None => self.0.store.run(*run).await?.map(|row| row.principal),
        };
        match principal {
            Some(principal) if access::can_control(caller, &principal) => Ok(self.0.log.follow(&topic, from, pace)),
            // Whose run it is is nobody else's business, so both cases read the same.
            Some(_) | None => Err(BoardError::not_found("run expired or unknown")),
        }
    }

    /// Takes nothing new, gives what runs `patience` to end, cancels the rest, then closes the store.
    pub async fn drain(&self, patience: Duration) -> Result<DrainReport, BoardError> {
        self.0.draining.store(true, Ordering::SeqCst);
        // Apps hear of it at once; what is on its way to them goes on at the next start.
        self.0.hub.close().await;
        // So does what waits to be answered or sent.
        self.0.channels.drain();
        self.0.tracker.close();
        let (mut cancelled, mut suspended) = (0, 0);
        if tokio::time::timeout(patience, self.0.tracker.wait()).await.is_err() {
            self.0.closing.cancel();
            let mut left: Vec<LiveRun> = self.live_runs().values().cloned().collect();
            // Runs that go on must not hear first that one they wait for is cancelled.
            left.sort_by_key(|live| !live.is_resumable);
            for live in left {
                if live.is_resumable {
                    suspended += 1;
                    live.control.suspend.cancel();
                } else {
                    cancelled += 1;
                    live.control.cancel.cancel();
                }
            }
            // Cancelled runs only have their end to record; a store that hangs must not hang the exit too.
            if tokio::time::timeout(Duration::from_secs(5), self.0.tracker.wait()).await.is_err() {
                tracing::warn!(
                    "some runs did not end after being cancelled; they end as interrupted at the next start"
                );
            }
        }
        self.0.store.close().await?;
        Ok(DrainReport { cancelled, suspended })
    }

    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::SeqCst)
    }

    fn admit(&self, caller: &Caller, command: &Command) -> Result<(), BoardError> {
        access::authorise(caller, command)?;
        self.check_channels(caller, command)?;
        // What helps runs under way to their end is still taken.
        let lets_runs_end = matches!(
            command,
            Command::CancelRun(_)
                | Command::DetachRun(_)
                | Command::AnswerApproval { .. }
                | Command::DeregisterApp
                | Command::DescribeServer
        );
        // So is what workers need to finish the calls they have.
        let lets_calls_end = matches!(bridge_api::bridge_caller(caller), BridgeCaller::Worker(_));
        if self.is_draining() && !lets_runs_end && !lets_calls_end {
            return Err(BoardError::shutting_down());
        }
        Ok(())
    }

    fn start_run(
        &self,
        caller: &Caller,
        start: StartRun,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<BoardReply, BoardError>> {
        let run = RunId(self.0.ids.next());
        let is_detached = start.plan.as_ref().is_some_and(|plan| plan.detach);
        // A run's own end (cancelled by someone else, orphaned) must not reach what else hangs on the asker's token.
        let stops = RunControl::new(stop.child_token(), is_detached);
        let trace = crate::trace::current_traceparent();
        let placed = self.check_start(&start, run).and_then(|mut accepted| {
            if start.plan.is_some() {
                let name =
                    if start.client_id.is_empty() { format!("run-{run}").into() } else { start.client_id.clone() };
                accepted.name_lease = Some(self.claim_name(&caller.principal, &name, &stops)?);
                accepted.client_id = name;
            }
            let place = self.0.queues.enqueue(&accepted.session)?;
            if let QueueSlot::Waiting(_) = place {
                self.0.approvals.shorten_expiry(&accepted.session);
            }
            Ok((accepted, place))
        });
        let (accepted, place) = match placed {
            Ok(placed) => placed,
            Err(refused) => return Box::pin(std::future::ready(Err(refused))),
        };
        let board = self.clone();
        let caller = caller.clone();
        Box::pin(async move {
            let mut accepted = accepted;
            if let Some(named) = accepted.model.take() {
                let (agent, model) = board.with_model(&accepted.agent, &named, &stops.cancel).await?;
                (accepted.agent, accepted.model) = (agent, Some(model));
            }
            let (turn, working) = tokio::select! {
                biased;
                () = stops.cancel.cancelled() => return Err(BoardError::cancelled()),
                turn = board.wait_for_turn(place) => turn?,
            };
            // The line moves on while the board drains; nothing in it begins any more.
            if board.is_draining() {
                return Err(BoardError::shutting_down());
            }
            // Now that nobody else is at work in it.
            board.check_session(&caller, &accepted.session).await?;
            if let Some(plan) = start.plan.as_ref().filter(|_| accepted.model.is_none()) {
                accepted = board.with_default_model(accepted, plan.default_model.as_deref(), &stops.cancel).await?;
            }
            let AcceptedRun { agent, strategy, origin, thread, session, client_id, model, name_lease: claim } =
                accepted;
            let StartRun { content, plan, folder, .. } = start;
            let plan = plan.map(|plan| *plan);
            let request = RunRequest {
                run,
                caller,
                agent,
                strategy,
                origin,
                thread,
                session,
                client_id,
                content,
                model,
                plan,
                folder: RunFolder::Choose(folder),
                call_chain: None,
                turn,
                control: stops,
                trace,
            };
            let (begun, answer) = oneshot::channel();
            let task = board.clone();
            // From here on the run does not depend on whoever asked: it is either on record or did not happen.
            board.0.tracker.spawn(async move {
                task.run(request, begun).await;
                drop((working, claim));
            });
            answer.await.unwrap_or_else(|_| Err(BoardError::new(ErrorKind::Internal, "the run failed to begin")))
        })
    }

    /// The session's turn first, then a place to work: a session that waits must not hold a place.
    async fn wait_for_turn(&self, place: QueueSlot) -> Result<(SessionPermit, RunPermit), BoardError> {
        let turn = place.permit().await?;
        let working = self.0.run_permits.acquire().await?;
        Ok((turn, working))
    }

    fn check_start(&self, start: &StartRun, run: RunId) -> Result<AcceptedRun, BoardError> {
        if start.content.len() > MAX_CONTENT {
            return Err(BoardError::invalid(format!("content is too long: at most {MAX_CONTENT} bytes are accepted")));
        }
        let mut origin = start.origin.clone();
        let thread = origin.peer.as_deref().map(Arc::from);
        let agents = self.0.agents.get();
        let (agent, strategy, session) = match &start.plan {
            None => {
                let agent = match &start.agent {
                    Some(named) => agents.configured(named)?.clone(),
                    None => agents.route(&origin)?.clone(),
                };
                let session = origin.session_key(&agent.name);
                (agent.clone(), agent.strategy, session)
            }
            Some(plan) => {
                let (agent, strategy) = agents.select_for_run(&plan.agent)?;
                if origin.peer.is_none() {
                    origin.peer = Some(format!("run-{run}"));
                }
                // Whatever agent works on it, a thread is one conversation.
                let session = origin.session_key(AgentTable::DEFAULT);
                (agent.clone(), strategy, session)
            }
        };
        if session.as_str().len() > SessionKey::MAX_BYTES {
            return Err(BoardError::invalid("channel, account and peer are too long"));
        }
        // Whether its provider has it is asked later; a provider there is none of is refused at once.
        if let Some(named) = &start.model {
            agents.models().select(&agent, named)?;
        }
        let (client_id, model) = (start.client_id.clone(), start.model.clone());
        Ok(AcceptedRun { agent, strategy, origin, thread, session, client_id, model, name_lease: None })
    }

    fn claim_name(
        &self,
        principal: &Arc<str>,
        client_id: &Arc<str>,
        stops: &RunControl,
    ) -> Result<RunNameLease, BoardError> {
        let name = (principal.clone(), client_id.clone());
        let mut claims = self.run_names();
        if claims.get(&name).is_some_and(|over| !over.load(Ordering::Relaxed)) {
            return Err(BoardError::new(ErrorKind::Conflict, format!("a run of the id {client_id} is under way")));
        }
        claims.insert(name.clone(), stops.ended.clone());
        Ok(RunNameLease { board: self.clone(), name, ended: stops.ended.clone() })
    }

    fn run_names(&self) -> MutexGuard<'_, HashMap<RunName, Arc<AtomicBool>>> {
        self.0.run_names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register_live(&self, request: &RunRequest, resumes: bool) -> LiveRunGuard {
        let live = LiveRun {
            principal: request.caller.principal.clone(),
            control: request.control.clone(),
            is_resumable: resumes,
        };
        self.live_runs().insert(request.run, live);
        LiveRunGuard { board: self.clone(), run: request.run }
    }

    async fn run(self, request: RunRequest, begun: oneshot::Sender<Result<BoardReply, BoardError>>) {
        let run = request.run;
        let forget = self.register_live(&request, request.plan.is_some() && request.call_chain.is_none());
        match StartedRun::start(self.0.run_deps.clone(), request).await {
            Ok(run_begun) => {
                // Nobody may be waiting any more; the run then has its grace to be joined in.
                drop(begun.send(Ok(BoardReply::RunStarted(run))));
                run_begun.run().await;
            }
            Err(refused) => drop(begun.send(Err(refused))),
        }
        drop(forget);
    }

    fn live_runs(&self) -> MutexGuard<'_, HashMap<RunId, LiveRun>> {
        self.0.live_runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a run off the live list however its task ends, a panic included.
struct LiveRunGuard {
    board: Board,
    run: RunId,
}

impl Drop for LiveRunGuard {
    fn drop(&mut self) {
        self.board.live_runs().remove(&self.run);
    }
}

#[cfg(test)]
mod tests;
