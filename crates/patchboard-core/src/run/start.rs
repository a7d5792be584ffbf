//! Starts a run: recalls, reserves and records before any client is informed. Or, after a crash, rebuilds it from its
//! records.

use crate::run::driver::RunSetup;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use super::driver::{Driver, RunDeps};
use super::model_call::PreparedModelCall;
use super::node_tracker::NodeTracker;
use super::replay::RunReplay;
use super::strategy::{self, Strategy, StrategyInput, StrategySpec, StrategyStep};
use crate::agent::AgentSpec;
use crate::budget::call_chain::CallChain;
use crate::caller::Caller;
use crate::command::{FolderChoice, RunKind};
use crate::conversation::ConversationOrigin;
use crate::error::{BoardError, ErrorKind};
use crate::event::{Event, NewEvent, Topic};
use crate::id::{CallId, RunId, Seq, SessionKey};
use crate::model::ModelMessage;
use crate::port::{FolderDocuments, FolderGrant, WorkingFolders};
use crate::run_spec::StrategyKind;
use crate::run_spec::{ChatBriefing, ClientToolSpec, RunSpec};
use crate::session::SessionPermit;
use crate::store::{Durability, InputRow, RunRequests, RunRow, RunState, StoreWrite};
use crate::waits::WorkSlot;

/// A run that was accepted. It starts when it has its session's permit.
#[derive(Debug)]
pub struct RunRequest {
    pub run: RunId,
    pub caller: Caller,
    pub agent: Arc<AgentSpec>,
    pub strategy: StrategyKind,
    pub origin: ConversationOrigin,
    /// The conversation the client named, if any.
    pub thread: Option<Arc<str>>,
    pub session: SessionKey,
    pub client_id: Arc<str>,
    pub content: Arc<str>,
    /// `provider/model`, if it differs from the agent's configured model; `agent` has it already.
    pub model: Option<Arc<str>>,
    pub client_tools: Vec<ClientToolSpec>,
    pub kind: RunKind,
    pub folder: RunFolder,
    /// Set for a run that another run waits for. Such a run is not resumed: the waiting run starts it again.
    pub call_chain: Option<CallChain>,
    pub control: RunControl,
    /// Its permit to work, given back while it waits for an answer.
    pub slot: Option<Arc<dyn WorkSlot>>,
    /// What it waited for when its last process ended.
    pub stored_inputs: Vec<InputRow>,
    /// The caller's trace parent.
    pub trace: Option<Arc<str>>,
}

/// The folder a run works in.
#[derive(Debug)]
pub enum RunFolder {
    /// As the client named it; still to be admitted.
    Choose(FolderChoice),
    /// Admitted already: the folder and grant of the run that waits for this one, or those of a resumed run.
    Inherit(Arc<Path>, Option<FolderGrant>),
}

impl RunFolder {
    /// The folder of a run of the previous process, admitted again with the same kind of grant.
    pub(crate) async fn readmit(folders: &dyn WorkingFolders, run_spec: &RunSpec) -> Result<Self, BoardError> {
        let Some(folder) = &run_spec.folder else { return Ok(Self::Choose(FolderChoice::Configured)) };
        let named = folder.to_string_lossy().into_owned();
        let choice = if run_spec.folder_granted { FolderChoice::Granted(named) } else { FolderChoice::Named(named) };
        let (folder, grant) = admit_folder(folders, &choice).await?;
        Ok(Self::Inherit(folder, grant))
    }
}

/// The ways a run is controlled from outside.
#[derive(Debug, Clone)]
pub struct RunControl {
    /// Ends it as cancelled.
    pub cancel: CancellationToken,
    /// Drops it without recording an end, to be resumed by the next process. Only for resumable runs.
    pub suspend: CancellationToken,
    /// The run continues without followers.
    pub detached: Arc<AtomicBool>,
    /// Set before the end is recorded, because a client that receives the end may reuse the run's client id at once.
    pub ended: Arc<AtomicBool>,
}

impl RunControl {
    pub fn new(cancel: CancellationToken, detached: bool) -> Self {
        let (suspend, detached) = (CancellationToken::new(), Arc::new(AtomicBool::new(detached)));
        Self { cancel, suspend, detached, ended: Arc::default() }
    }
}

/// A recorded run; `run` executes it.
#[derive(Debug)]
pub struct StartedRun {
    pub(super) driver: Driver,
    pub(super) strategy: Box<dyn Strategy>,
    pub(super) nodes: NodeTracker,
    pub(super) start: FirstWork,
}

#[derive(Debug)]
pub(super) enum FirstWork {
    /// The first model call, reserved and recorded.
    Fresh(Box<PreparedModelCall>),
    /// What the previous process left to be done.
    Resumed {
        steps: Vec<StrategyStep>,
        outcome_unknown: HashSet<CallId>,
        announced: HashSet<CallId>,
        /// Calls whose intent is recorded and that have not started.
        intended: HashSet<CallId>,
    },
}

impl StartedRun {
    /// Recalls, reserves and records. An error means that nothing was stored: no run, no tokens, no turn.
    pub async fn start(
        deps: Arc<RunDeps>,
        request: RunRequest,
        session_permit: SessionPermit,
    ) -> Result<Self, BoardError> {
        let RunRequest { run, agent, session, client_id, content, kind, .. } = &request;
        let plan = kind.plan();
        agent.provider.check()?;
        let resolved_folder = match (&request.folder, plan) {
            // A chat that names no folder has no use for the default folder's documents.
            (RunFolder::Choose(FolderChoice::Configured), None) => None,
            (folder, _) => Some(resolve_folder(&deps, folder).await?),
        };
        let recalled = {
            let folder = resolved_folder
                .as_ref()
                .map(|resolved_folder| (&*resolved_folder.folder, &resolved_folder.instructions));
            deps.memory.recall(agent, &request.origin, session, content, folder, &request.control.cancel).await?
        };
        let (folder, folder_grant) =
            resolved_folder.map(|resolved_folder| (resolved_folder.folder, resolved_folder.grant)).unzip();
        let folder_grant = folder_grant.flatten();
        // React chats do not record nodes: their clients do not know node events.
        let records_nodes = plan.is_some() || request.strategy != StrategyKind::React;
        let strategy_spec = StrategySpec {
            history: recalled.messages.clone(),
            user: ModelMessage::user(content.clone()),
            reasoning: agent.reasoning.clone(),
            adaptive: plan.is_some_and(|plan| plan.adaptive),
            tag: run.0.simple().to_string().into(),
        };
        // A chat turn that another run waits for is started again by that run.
        let is_continuable = plan.is_none() && !records_nodes && request.call_chain.is_none();
        let chat = is_continuable.then(|| {
            Arc::new(ChatBriefing {
                model: request.model.clone(),
                folder: folder.clone(),
                folder_granted: folder_grant.is_some(),
                guild: request.origin.guild.as_deref().map(Into::into),
                team: request.origin.team.as_deref().map(Into::into),
                client_tools: request.client_tools.clone(),
            })
        });
        let started = Event::RunStarted { session: session.clone(), agent: agent.name.clone(), chat };
        let mut opening = vec![NewEvent::from(started)];
        let system: Arc<str> = recalled.system.into();
        if let Some(plan) = plan.filter(|_| request.call_chain.is_none()) {
            let run_spec = RunSpec {
                client_id: client_id.clone(),
                thread: request.thread.clone(),
                requested_agent: plan.agent.clone(),
                strategy: request.strategy,
                adaptive: plan.adaptive,
                detached: plan.detach,
                verbose: plan.verbose,
                model: request.model.clone(),
                folder: folder.clone(),
                folder_granted: folder_grant.is_some(),
                origin: request.origin.clone(),
                message: content.clone(),
                system: system.clone(),
                history: recalled.messages,
                client_tools: request.client_tools.clone(),
            };
            opening.push(Event::RunBriefed(Arc::new(run_spec)).into());
        }
        let row = RunRow {
            run: *run,
            session: session.clone(),
            principal: request.caller.principal.text(),
            client_id: client_id.clone(),
            surface: request.caller.surface.name().into(),
            agent: agent.name.clone(),
            strategy: request.strategy,
            started_at: deps.clock.now(),
            input: content.clone(),
            state: RunState::Running,
            requests: RunRequests::default(),
        };
        let mut strategy = strategy::build(request.strategy, strategy_spec);
        let writer = Arc::new(deps.log.open(Topic::Run(*run), Seq::FIRST));
        let verbose = plan.is_some_and(|plan| plan.verbose);
        let driver = Driver::new(
            deps,
            request,
            writer,
            RunSetup { system, folder, folder_grant, records_nodes, verbose, session_permit },
        )?;
        let mut nodes = NodeTracker::new(records_nodes);
        let mut steps = Vec::new();
        strategy.advance(StrategyInput::Begin, &mut steps);
        let mut first = None;
        for step in steps {
            match step {
                StrategyStep::Enter { node, name } => opening.extend(nodes.enter(node, name)),
                StrategyStep::Leave { node, failed } => opening.extend(nodes.leave(node, failed)),
                StrategyStep::Report { node, finding } => opening.extend(nodes.finding_entry(node, finding)),
                StrategyStep::AskModel { node, messages, tools, answer_kind } => {
                    first = Some(driver.prepare_call(node, nodes.node(node), messages, tools, answer_kind).await?);
                }
                // Rejected below: a run has to begin with a model call.
                StrategyStep::CallTool { .. } | StrategyStep::Finish(_) => {}
            }
        }
        let Some(first) = first else {
            return Err(BoardError::new(ErrorKind::Internal, "the strategy did not begin by asking the model"));
        };
        let before_call: u64 = opening.iter().map(|entry| entry.event.seq_count()).sum();
        let first_seq = Seq(Seq::FIRST.0 + before_call);
        let writes = vec![StoreWrite::OpenRun(row), driver.open_row(&first, first_seq)];
        driver.writer.append(opening, writes, Durability::Boundary).await?;
        driver.count_start();
        Ok(Self { driver, strategy, nodes, start: FirstWork::Fresh(Box::new(first)) })
    }

    /// Resumes a run of the previous process. `settled` are the events and writes that close its open model calls.
    pub(super) async fn resume(
        deps: Arc<RunDeps>,
        request: RunRequest,
        session_permit: SessionPermit,
        run_spec: &RunSpec,
        replay: RunReplay,
        next: Seq,
        settled: (Vec<NewEvent>, Vec<StoreWrite>),
    ) -> Result<Self, BoardError> {
        let folder_grant = match &request.folder {
            RunFolder::Inherit(_, grant) => grant.clone(),
            RunFolder::Choose(_) => None,
        };
        let RunReplay {
            strategy,
            mut nodes,
            steps,
            outcome_unknown,
            announced,
            intended,
            used_tokens,
            model_calls,
            ..
        } = replay;
        let (mut entries, writes) = settled;
        // The replay does not count interrupted calls; their tokens and numbers are used up too.
        let (interrupted_calls, interrupted_tokens) = settled_calls(&writes);
        entries.extend(nodes.reenter_all());
        if request.kind.plan().is_none() {
            entries.push(Event::RunResumed.into());
        }
        let writer = Arc::new(deps.log.open(Topic::Run(request.run), next));
        let setup = RunSetup {
            system: run_spec.system.clone(),
            folder: run_spec.folder.clone(),
            folder_grant,
            // A chat turn of react never did.
            records_nodes: request.kind.plan().is_some(),
            verbose: run_spec.verbose,
            session_permit,
        };
        let driver = Driver::new(deps, request, writer, setup)?;
        driver.context.call_chain.token_budget.spend(used_tokens.saturating_add(interrupted_tokens));
        driver.model_calls.store(model_calls.saturating_add(interrupted_calls), Ordering::Relaxed);
        driver.writer.append(entries, writes, Durability::Boundary).await?;
        driver.count_start();
        Ok(Self { driver, strategy, nodes, start: FirstWork::Resumed { steps, outcome_unknown, announced, intended } })
    }
}

/// How many model calls these writes settle, and their tokens.
fn settled_calls(writes: &[StoreWrite]) -> (u32, u64) {
    let settled = writes.iter().filter_map(|write| {
        if let StoreWrite::SettleModelCall(usage) = write { Some(usage.tokens.total()) } else { None }
    });
    settled.fold((0, 0), |(calls, tokens), used| (calls.saturating_add(1), tokens.saturating_add(used)))
}

/// The folder of a run with its documents.
struct ResolvedFolder {
    folder: Arc<Path>,
    grant: Option<FolderGrant>,
    instructions: FolderDocuments,
}

async fn resolve_folder(deps: &RunDeps, folder: &RunFolder) -> Result<ResolvedFolder, BoardError> {
    let (folder, grant) = match folder {
        RunFolder::Choose(choice) => admit_folder(&*deps.folders, choice).await?,
        RunFolder::Inherit(folder, grant) => (folder.clone(), grant.clone()),
    };
    let documents = deps.folders.documents(&folder).await;
    Ok(ResolvedFolder { folder, grant, instructions: documents })
}

/// Every folder that a request chooses is opened here.
pub(crate) async fn admit_folder(
    folders: &dyn WorkingFolders,
    choice: &FolderChoice,
) -> Result<(Arc<Path>, Option<FolderGrant>), BoardError> {
    let admitted = match choice {
        FolderChoice::Configured => folders.resolve(None).await.map(|path| (path, None)),
        FolderChoice::Named(named) => folders.resolve(Some(named)).await.map(|path| (path, None)),
        FolderChoice::Granted(named) => folders.grant(named).await.map(|granted| (granted.path, granted.grant)),
    };
    admitted.map_err(BoardError::invalid)
}
