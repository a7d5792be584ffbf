//! How a run comes to be: recalled, reserved and recorded before anybody hears of it. Or, after a crash, made again from
//! what is on record.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use super::brief::Briefing;
use super::driver::{Driver, RunDeps};
use super::model_call::PreparedCall;
use super::nesting::Nesting;
use super::nodes::NodeBook;
use super::replay::Replay;
use super::strategy::{self, Brief, Input, Step, Strategy};
use crate::access::Caller;
use crate::agent::{AgentSpec, Origin, StrategyKind};
use crate::command::{FolderChoice, RunPlan};
use crate::error::{BoardError, ErrorKind};
use crate::event::{Entry, Event, Topic};
use crate::id::{CallId, RunId, Seq, SessionKey};
use crate::log::TopicWriter;
use crate::model::Message;
use crate::port::{Durability, FolderGrant, FolderWords, Folders, RunRow, RunState, Write};
use crate::session::Turn;
use crate::tool::desk::Record;
use crate::tool::{CallContext, ToolScope, ToolVoice};

/// A run that has its turn.
#[derive(Debug)]
pub struct RunRequest {
    pub run: RunId,
    pub caller: Caller,
    pub agent: Arc<AgentSpec>,
    pub strategy: StrategyKind,
    pub origin: Origin,
    /// The conversation the client named, if it named one.
    pub thread: Option<Arc<str>>,
    pub session: SessionKey,
    pub client_id: Arc<str>,
    pub content: Arc<str>,
    /// `provider/model`, where it is not the agent's own; `agent` has it already.
    pub model: Option<Arc<str>>,
    pub plan: Option<RunPlan>,
    pub folder: RunFolder,
    /// Set for a run that another one waits for. It is not resumed: whoever waited asks again.
    pub beneath: Option<Nesting>,
    pub turn: Turn,
    pub stops: Stops,
    /// Position in the trace of whoever asked for it.
    pub trace: Option<Arc<str>>,
}

/// The folder a run is to work in.
#[derive(Debug)]
pub enum RunFolder {
    /// As the client named it; still to be admitted.
    Choose(FolderChoice),
    /// That of the run which waits for this one, by the same right.
    Inherit(Arc<Path>, Option<FolderGrant>),
}

impl RunFolder {
    /// That of a run of the previous process, admitted again by the right it had then.
    pub(crate) async fn again(folders: &dyn Folders, briefing: &Briefing) -> Result<Self, BoardError> {
        let Some(folder) = &briefing.folder else { return Ok(Self::Choose(FolderChoice::Configured)) };
        let named = folder.to_string_lossy().into_owned();
        let choice = if briefing.folder_granted { FolderChoice::Granted(named) } else { FolderChoice::Named(named) };
        let (folder, grant) = admit(folders, &choice).await?;
        Ok(Self::Inherit(folder, grant))
    }
}

/// The ways a run is ended from outside.
#[derive(Debug, Clone)]
pub struct Stops {
    /// Ends it as cancelled.
    pub cancel: CancellationToken,
    /// Drops it where it stands, to be resumed by the next process. Only for runs that can be.
    pub suspend: CancellationToken,
    /// It goes on although nobody listens.
    pub kept: Arc<AtomicBool>,
    /// Only its end is still to be recorded. Whoever hears of the end may use its name again at once.
    pub over: Arc<AtomicBool>,
}

impl Stops {
    pub fn new(cancel: CancellationToken, kept: bool) -> Self {
        let (suspend, kept) = (CancellationToken::new(), Arc::new(AtomicBool::new(kept)));
        Self { cancel, suspend, kept, over: Arc::default() }
    }
}

/// A run that is on record: `go` carries it on.
#[derive(Debug)]
pub struct Begun {
    pub(super) driver: Driver,
    pub(super) strategy: Box<dyn Strategy>,
    pub(super) nodes: NodeBook,
    pub(super) start: Start,
}

#[derive(Debug)]
pub(super) enum Start {
    /// The first model call, reserved and on record.
    Fresh(Box<PreparedCall>),
    /// What the last process left to be done.
    Resumed { steps: Vec<Step>, unsure: HashSet<CallId>, announced: HashSet<CallId> },
}

impl Begun {
    /// Recalls, reserves and records. An error here means that nothing happened: no run, no tokens, no turn.
    pub async fn begin(deps: Arc<RunDeps>, request: RunRequest) -> Result<Self, BoardError> {
        let RunRequest { run, agent, session, client_id, content, plan, .. } = &request;
        agent.provider.check()?;
        let place = match (&request.folder, plan) {
            // A chat that names no folder has nothing to say about it.
            (RunFolder::Choose(FolderChoice::Configured), None) => None,
            (folder, _) => Some(work_place(&deps, folder).await?),
        };
        let recalled = {
            let place = place.as_ref().map(|place| (&*place.folder, &place.words));
            deps.memory.recall(agent, &request.origin, session, content, place, &request.stops.cancel).await?
        };
        let (folder, folder_grant) = place.map(|place| (place.folder, place.grant)).unzip();
        let folder_grant = folder_grant.flatten();
        // Chats of a single voice tell nothing of their nodes: their clients know no such thing.
        let told = plan.is_some() || request.strategy != StrategyKind::React;
        let brief = Brief {
            history: recalled.messages.clone(),
            user: Message::user(content.clone()),
            reasoning: agent.reasoning.clone(),
            adaptive: plan.as_ref().is_some_and(|plan| plan.adaptive),
            tag: run.0.simple().to_string().into(),
        };
        let mut opening = vec![Entry::from(Event::RunStarted { session: session.clone(), agent: agent.name.clone() })];
        let system: Arc<str> = recalled.system.into();
        if let Some(plan) = plan.as_ref().filter(|_| request.beneath.is_none()) {
            let briefing = Briefing {
                client_id: client_id.clone(),
                thread: request.thread.clone(),
                agent_asked: plan.agent.clone(),
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
            };
            opening.push(Event::Briefed(Arc::new(briefing)).into());
        }
        let row = RunRow {
            run: *run,
            session: session.clone(),
            principal: request.caller.principal.clone(),
            client_id: client_id.clone(),
            surface: request.caller.surface.name().into(),
            started_at: deps.clock.now(),
            input: content.clone(),
            state: RunState::Running,
        };
        let mut strategy = strategy::build(request.strategy, brief);
        let writer = Arc::new(deps.log.open(Topic::Run(*run), Seq::FIRST));
        let verbose = plan.as_ref().is_some_and(|plan| plan.verbose);
        let driver = Driver::new(deps, request, writer, Setting { system, folder, folder_grant, told, verbose });
        let mut nodes = NodeBook::new(told);
        let mut steps = Vec::new();
        strategy.advance(Input::Begin, &mut steps);
        let mut first = None;
        for step in steps {
            match step {
                Step::Enter { node, name } => opening.extend(nodes.enter(node, name)),
                Step::Leave { node, failed } => opening.extend(nodes.leave(node, failed)),
                Step::Tell { node, finding } => opening.extend(nodes.tell(node, finding)),
                Step::AskModel { node, messages, tools, voice } => {
                    first = Some(driver.prepare_call(node, nodes.node(node), messages, tools, voice).await?);
                }
                // Answered below: without a question there is no run.
                Step::CallTool { .. } | Step::Finish(_) => {}
            }
        }
        let Some(first) = first else {
            return Err(BoardError::new(ErrorKind::Internal, "the strategy did not begin by asking the model"));
        };
        let before_call: u64 = opening.iter().map(|entry| entry.event.width()).sum();
        let first_seq = Seq(Seq::FIRST.0 + before_call);
        let writes = vec![Write::OpenRun(row), driver.open_row(&first, first_seq)];
        driver.writer.append(opening, writes, Durability::Boundary).await?;
        crate::telemetry::run_started(driver.context.caller.surface.name());
        Ok(Self { driver, strategy, nodes, start: Start::Fresh(Box::new(first)) })
    }

    /// Goes on with a run of the last process. `settled` are the entries and writes that close its open model calls.
    pub(super) async fn resume(
        deps: Arc<RunDeps>,
        request: RunRequest,
        briefing: &Briefing,
        replay: Replay,
        next: Seq,
        settled: (Vec<Entry>, Vec<Write>),
    ) -> Result<Self, BoardError> {
        let folder_grant = match &request.folder {
            RunFolder::Inherit(_, grant) => grant.clone(),
            RunFolder::Choose(_) => None,
        };
        let Replay { strategy, mut nodes, steps, unsure, announced, used, calls, .. } = replay;
        let (mut entries, writes) = settled;
        // Those that were cut short are not among the replayed ones; their tokens and numbers are taken too.
        let (cut, cut_tokens) = settled_calls(&writes);
        entries.extend(nodes.enter_again());
        let writer = Arc::new(deps.log.open(Topic::Run(request.run), next));
        let setting = Setting {
            system: briefing.system.clone(),
            folder: briefing.folder.clone(),
            folder_grant,
            told: true,
            verbose: briefing.verbose,
        };
        let driver = Driver::new(deps, request, writer, setting);
        driver.context.nesting.purse.spend(used.saturating_add(cut_tokens));
        driver.calls.store(calls.saturating_add(cut), Ordering::Relaxed);
        driver.writer.append(entries, writes, Durability::Boundary).await?;
        crate::telemetry::run_started(driver.context.caller.surface.name());
        Ok(Self { driver, strategy, nodes, start: Start::Resumed { steps, unsure, announced } })
    }
}

/// How many model calls these writes settle, and their tokens.
fn settled_calls(writes: &[Write]) -> (u32, u64) {
    let settled = writes
        .iter()
        .filter_map(|write| if let Write::SettleModelCall(usage) = write { Some(usage.tokens.total()) } else { None });
    settled.fold((0, 0), |(calls, tokens), used| (calls.saturating_add(1), tokens.saturating_add(used)))
}

/// How a run works, besides who asked for it.
struct Setting {
    system: Arc<str>,
    folder: Option<Arc<Path>>,
    folder_grant: Option<FolderGrant>,
    told: bool,
    verbose: bool,
}

impl Driver {
    fn new(deps: Arc<RunDeps>, request: RunRequest, writer: Arc<TopicWriter>, setting: Setting) -> Self {
        let RunRequest { run, caller, agent, strategy, origin, session, content, beneath, turn, stops, trace, .. } =
            request;
        let offer = deps.registry.offer_to_agent(agent.tools_for(caller.surface).as_deref(), setting.folder.as_deref());
        let owner = origin.memory_owner();
        let nesting = beneath.unwrap_or_else(|| Nesting::top(session.clone(), agent.max_run_tokens));
        Self {
            context: CallContext {
                caller,
                run,
                nesting,
                scope: ToolScope {
                    session,
                    owner,
                    folder: setting.folder,
                    folder_grant: setting.folder_grant,
                    voice: ToolVoice::default(),
                    parcel: None,
                },
                offer,
                node: None,
                record: Record::Run { writer: writer.clone(), told: setting.told },
                depth: 0,
            },
            writer,
            system: setting.system,
            told: setting.told,
            verbose: setting.verbose,
            calls: AtomicU32::new(0),
            without_tools: Mutex::default(),
            max_output: agent.reasoning.max_output(strategy, agent.max_tokens),
            started: tokio::time::Instant::now(),
            _turn: turn,
            deps,
            agent,
            origin,
            content,
            work_stop: stops.cancel.child_token(),
            stops,
            trace,
        }
    }
}

/// The folder a run works in and what it has to say.
struct WorkPlace {
    folder: Arc<Path>,
    grant: Option<FolderGrant>,
    words: FolderWords,
}

async fn work_place(deps: &RunDeps, folder: &RunFolder) -> Result<WorkPlace, BoardError> {
    let (folder, grant) = match folder {
        RunFolder::Choose(choice) => admit(&*deps.folders, choice).await?,
        RunFolder::Inherit(folder, grant) => (folder.clone(), grant.clone()),
    };
    let words = deps.folders.words(&folder).await;
    Ok(WorkPlace { folder, grant, words })
}

/// The one way by which a folder that somebody chose is opened.
pub(crate) async fn admit(
    folders: &dyn Folders,
    choice: &FolderChoice,
) -> Result<(Arc<Path>, Option<FolderGrant>), BoardError> {
    let admitted = match choice {
        FolderChoice::Configured => folders.admit(None).await.map(|path| (path, None)),
        FolderChoice::Named(named) => folders.admit(Some(named)).await.map(|path| (path, None)),
        FolderChoice::Granted(named) => folders.grant(named).await.map(|granted| (granted.path, granted.grant)),
    };
    admitted.map_err(BoardError::invalid)
}
