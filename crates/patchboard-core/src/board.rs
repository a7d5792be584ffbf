//! The board, the single entry point: `ask` authorises and executes commands, `follow` replays and tails a topic,
//! `drain` shuts down in order.

use crate::executor::plugin_tools::NestedCaller;
use crate::executor::registry::RegisteredHost;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access;
use crate::access::Guarded;
use crate::agent::{AgentSpec, AgentTable};
use crate::approval::policy::ApprovalPolicy;
use crate::audit::AuditTrail;
use crate::bridge::{Bridge, BridgeCaller, BridgeOptions, TelemetryBus, VariableToolHost, WorkerToolHost};
use crate::budget::price::PriceTable;
use crate::budget::{BudgetLimits, Ledger};
use crate::caller::Caller;
use crate::channel::ChannelService;
use crate::command::ReadMessage;
use crate::error::BoardError;
use crate::event::{Envelope, Topic};
use crate::executor::QuestionToolHost;
use crate::executor::ToolLimits;
use crate::executor::builtin::CoreToolHost;
use crate::executor::plugin_tools::PluginToolHost;
use crate::executor::statistics::CallStatistics;
use crate::executor::{ToolExecutor, ToolRegistry};
use crate::hub::notice::{NoticeOptions, Notifier};
use crate::hub::{AppToolHost, MAX_CONCURRENT_CALLS, ModelRouter};
use crate::hub::{Hub, HubOptions, HubParts};
use crate::id::{RunId, Seq};
use crate::input::{InputExpiries, InputQueue};
use crate::keys::KeyRing;
use crate::log::{EventLog, FollowerPacing};
use crate::memory::{Memory, MemoryOptions};
use crate::port::ServerMonitor;
use crate::port::{
    BoxStream, Clock, Embedder, IdGenerator, NoticeSink, PluginRuntime, SchemaValidator, ServerControl, SoulSource,
    ToolHost, WorkerSupervisor, WorkingFolders,
};
use crate::reloadable::Reloadable;
use crate::run::agent_tools::AgentToolHost;
use crate::run::held::HeldRuns;
use crate::run::{RunControl, RunDeps, RunLimits};
use crate::session::SessionQueues;
use crate::store::Store;
use crate::trace;
use crate::webhook::ChannelOptions;
use crate::workspaces::WorkspaceService;
use tracing::Instrument;

mod accounts;
mod adoption;
mod bridge_api;
mod channels;
mod conversations;
mod deliveries;
mod extensions;
mod handlers;
mod housekeeping;
mod keys;
mod messages;
mod models;
mod nested_runs;
mod plugins;
mod readiness;
mod records;
mod run_control;
mod run_permits;
mod run_queries;
mod run_start;
mod sessions;
mod settings;

pub use adoption::AdoptionReport;
use adoption::AdoptionState;
pub use handlers::{BoardCommand, CommandFuture};
pub use housekeeping::RetentionPolicy;
pub use keys::{FileKeyChange, OpenKeysError};
use run_permits::RunPermits;
pub use settings::BoardSettings;

/// Dependencies and options of a board.
#[derive(Debug)]
pub struct BoardParts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdGenerator>,
    pub agents: AgentTable,
    /// In order of precedence: built-ins first.
    pub tools: Vec<Arc<dyn ToolHost>>,
    /// One host per worker pool.
    pub pools: Vec<Arc<dyn ToolHost>>,
    pub workers: Option<Arc<dyn WorkerSupervisor>>,
    /// `None` if plugins cannot be loaded.
    pub plugins: Option<Arc<dyn PluginRuntime>>,
    pub channels: Vec<ChannelOptions>,
    /// Telemetry events of the server and its workers.
    pub telemetry: TelemetryBus,
    pub bridge: BridgeOptions,
    pub hub: HubOptions,
    pub notices: NoticeOptions,
    /// Sinks that show notices to the user.
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
    pub inputs: InputExpiries,
    /// Most requests queued for one session; the next one is refused.
    pub session_queue: usize,
    /// Most runs active at once; further ones wait.
    pub concurrent_runs: usize,
}

impl Default for BoardLimits {
    fn default() -> Self {
        Self {
            run: RunLimits::default(),
            tool: ToolLimits::default(),
            inputs: InputExpiries::default(),
            session_queue: 8,
            concurrent_runs: 256,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Board(Arc<BoardShared>);

/// A weak reference, for parts that the board owns and that call it.
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
    agent_tools: Arc<AgentToolHost>,
    /// The hub's routing agent, if configured: its name and its current specification.
    routing_agent: Option<(Arc<str>, Arc<Reloadable<AgentSpec>>)>,
    log: Arc<EventLog>,
    ledger: Arc<Ledger>,
    inputs: Arc<InputQueue>,
    run_deps: Arc<RunDeps>,
    hub: Hub,
    bridge: Bridge,
    plugins: Option<Arc<dyn PluginRuntime>>,
    channels: Arc<ChannelService>,
    audit_trail: AuditTrail,
    /// Held while a key is created or revoked, or those of the file are replaced.
    key_changes: Arc<tokio::sync::Mutex<()>>,
    workspaces: WorkspaceService,
    queues: SessionQueues,
    /// Permits of top-level runs.
    run_permits: RunPermits,
    /// Permits of nested runs: a separate pool of the same size. A nested run never waits for a permit.
    nested_run_permits: RunPermits,
    live_runs: Mutex<HashMap<RunId, LiveRun>>,
    /// The live runs and those of the hub's routing model.
    held_runs: HeldRuns,
    adoption: AdoptionState,
    /// Names of live and queued runs by principal, each with the flag that is set when the run has ended.
    run_names: Mutex<HashMap<RunName, Arc<AtomicBool>>>,
    tracker: TaskTracker,
    draining: AtomicBool,
    /// Cancelled when the drain timeout has passed: ends tool calls and deliveries that belong to no run.
    closing: CancellationToken,
    /// When the store last accepted the write of `is_ready`.
    last_write_at: Mutex<Option<Instant>>,
    /// Reloads settings that lie outside the board.
    control: OnceLock<Arc<dyn ServerControl>>,
    /// Figures and faults of the process, which it measures itself.
    monitor: OnceLock<Arc<dyn ServerMonitor>>,
    version: &'static str,
}

#[derive(Debug, Clone)]
struct LiveRun {
    principal: Arc<str>,
    control: RunControl,
    /// Whether the next process can resume it.
    is_resumable: bool,
}

/// A principal and its name for a run.
type RunName = (Arc<str>, Arc<str>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainReport {
    /// Runs that did not end within the timeout and were cancelled.
    pub cancelled: usize,
    /// Runs that did not end within the timeout and will resume at the next start.
    pub suspended: usize,
}

impl Board {
    pub fn assemble(parts: BoardParts) -> Self {
        let log = Arc::new(EventLog::new(parts.store.clone(), parts.clock.clone()));
        let ledger = Arc::new(Ledger::new(parts.budgets, parts.store.clone(), parts.clock.clone()));
        let queues = SessionQueues::new(parts.limits.session_queue);
        let held_runs = HeldRuns::default();
        let keys: Arc<KeyRing> = Arc::default();
        let inputs = Arc::new(InputQueue::new(
            parts.clock.clone(),
            parts.ids.clone(),
            parts.store.clone(),
            parts.schemas.clone(),
            parts.limits.inputs,
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
            held_runs: held_runs.clone(),
            tenure: log.tenure().clone(),
            clock: parts.clock.clone(),
            ids: parts.ids.clone(),
            call_permits: Semaphore::new(MAX_CONCURRENT_CALLS),
            keys: keys.clone(),
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
        let channels = ChannelService::new(
            parts.channels,
            plugins,
            store,
            log.tenure().clone(),
            parts.clock.clone(),
            parts.ids.clone(),
        );
        let tracker = TaskTracker::new();
        let audit_trail = AuditTrail::new(parts.store.clone(), tracker.clone());
        let agent_tools = Arc::new(AgentToolHost::new(&parts.agents, &exposed));
        // Core hosts come first, so that no other host can take their tool names.
        let mut hosts = vec![
            RegisteredHost::Plain(Arc::new(CoreToolHost::new(memory.clone()))),
            RegisteredHost::Plain(Arc::new(QuestionToolHost)),
            RegisteredHost::Plain(Arc::new(AppToolHost(hub.clone()))),
            RegisteredHost::Plain(Arc::new(VariableToolHost(bridge.variables().clone()))),
            RegisteredHost::Contextual(agent_tools.clone()),
        ];
        hosts.extend(parts.tools.into_iter().map(RegisteredHost::Plain));
        let plugin_tools = parts.plugins.clone().map(|plugins| Arc::new(PluginToolHost::new(plugins)));
        hosts.extend(plugin_tools.clone().map(|tools| RegisteredHost::Contextual(tools)));
        hosts.extend(parts.pools.into_iter().map(|pool| {
            RegisteredHost::Contextual(Arc::new(WorkerToolHost {
                pool,
                bridge: bridge.clone(),
                ids: parts.ids.clone(),
            }))
        }));
        let registry = Arc::new(ToolRegistry::new(hosts));
        let tool_executor = Arc::new(ToolExecutor {
            policy: Reloadable::new(parts.approval_policy),
            inputs: inputs.clone(),
            store: parts.store.clone(),
            schemas: parts.schemas,
            clock: parts.clock.clone(),
            tenure: log.tenure().clone(),
            limits: Reloadable::new(parts.limits.tool),
            keys,
            statistics: CallStatistics::default(),
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
            inputs,
            run_deps: deps,
            hub,
            bridge,
            plugins: parts.plugins,
            channels: Arc::new(channels),
            audit_trail,
            key_changes: Arc::default(),
            queues,
            run_permits: RunPermits::new(parts.limits.concurrent_runs),
            nested_run_permits: RunPermits::new(parts.limits.concurrent_runs),
            live_runs: Mutex::new(HashMap::new()),
            held_runs,
            adoption: AdoptionState::default(),
            run_names: Mutex::new(HashMap::new()),
            tracker,
            draining: AtomicBool::new(false),
            closing: CancellationToken::new(),
            last_write_at: Mutex::default(),
            control: OnceLock::new(),
            monitor: OnceLock::new(),
            version: parts.version,
        }));
        agent_tools.bind(Arc::new(board.downgrade()));
        board
    }

    fn downgrade(&self) -> WeakBoard {
        WeakBoard(Arc::downgrade(&self.0))
    }

    /// Executes one command. Access is checked, and the slot in a session's queue or mailbox is taken, before this
    /// returns: the order of calls is the order of execution. Cancelling `stop` withdraws the request and, if it
    /// started a run, cancels the run; merely dropping the future does not stop a run that has started.
    pub fn ask<C: BoardCommand>(&self, caller: &Caller, command: C, stop: CancellationToken) -> CommandFuture<C> {
        self.ask_traced(caller, command, stop, None)
    }

    /// `ask` for a client that sent a `traceparent`: the request's span continues that trace. Queries and keep-alives
    /// have no span.
    pub fn ask_traced<C: BoardCommand>(
        &self,
        caller: &Caller,
        command: C,
        stop: CancellationToken,
        traceparent: Option<&str>,
    ) -> CommandFuture<C> {
        let Some(name) = C::SPAN else { return self.execute(caller, command, stop) };
        let span = trace::request(caller, name, traceparent);
        if span.is_disabled() {
            return self.execute(caller, command, stop);
        }
        let reply = span.in_scope(|| self.execute(caller, command, stop));
        let request = span.clone();
        let traced = async move { reply.await.inspect_err(|error| trace::request_failed(&request, error)) };
        Box::pin(traced.instrument(span))
    }

    fn execute<C: BoardCommand>(&self, caller: &Caller, command: C, stop: CancellationToken) -> CommandFuture<C> {
        match self.admit(caller, &command) {
            Ok(()) => command.execute(self, caller, stop),
            Err(refused) => Box::pin(std::future::ready(Err(refused))),
        }
    }

    fn admit(&self, caller: &Caller, command: &impl Guarded) -> Result<(), BoardError> {
        access::authorise(caller, command)?;
        self.check_key(caller)?;
        self.check_channels(caller, command)?;
        if self.is_draining() && !is_accepted_while_draining(caller, command) {
            return Err(BoardError::shutting_down());
        }
        Ok(())
    }

    /// Replays a topic from `from`, then tails it. No gap, no duplicate.
    pub async fn follow(
        &self,
        caller: &Caller,
        topic: Topic,
        from: Seq,
        pace: FollowerPacing,
    ) -> Result<BoxStream<Result<Arc<Envelope>, BoardError>>, BoardError> {
        self.check_key(caller)?;
        let run = match &topic {
            Topic::Run(run) => run,
            Topic::Message(message) => {
                access::authorise(caller, &ReadMessage { message: *message, newer_than: None })?;
                return Ok(self.0.log.follow(&topic, from, pace));
            }
        };
        self.check_run(caller, *run).await?;
        let guard = self.0.inputs.audience().follow(*run, caller.connection);
        let events = self.0.log.follow(&topic, from, pace);
        // The connection counts as following for as long as it reads.
        Ok(Box::pin(events.inspect(move |_| {
            let _following = &guard;
        })))
    }

    /// Refuses new commands, gives active work `timeout` to end, cancels the rest, then closes the store.
    pub async fn drain(&self, timeout: Duration) -> Result<DrainReport, BoardError> {
        self.0.draining.store(true, Ordering::SeqCst);
        // Apps are disconnected at once; their pending messages continue at the next start.
        self.0.hub.close().await;
        // Channel deliveries are suspended too, and continue at the next start.
        self.0.channels.drain();
        self.0.tracker.close();
        let (mut cancelled, mut suspended) = (0, 0);
        if tokio::time::timeout(timeout, self.0.tracker.wait()).await.is_err() {
            self.0.closing.cancel();
            let mut remaining: Vec<LiveRun> = self.live_runs().values().cloned().collect();
            // A resumable run must be suspended before a nested run that it waits for is cancelled, or it would record
            // the cancellation as the nested run's result.
            remaining.sort_by_key(|live| !live.is_resumable);
            for live in remaining {
                if live.is_resumable {
                    suspended += 1;
                    live.control.suspend.cancel();
                } else {
                    cancelled += 1;
                    live.control.cancel.cancel();
                }
            }
            // Cancelled runs only have to record their end; a store that hangs must not block the exit.
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

    fn live_runs(&self) -> MutexGuard<'_, HashMap<RunId, LiveRun>> {
        self.0.live_runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Commands that help active work to its end, and commands of workers, which finish their calls.
fn is_accepted_while_draining<C: Guarded>(caller: &Caller, _command: &C) -> bool {
    C::WHILE_DRAINING || matches!(bridge_api::bridge_caller(caller), BridgeCaller::Worker(_))
}

#[cfg(test)]
mod tests;
