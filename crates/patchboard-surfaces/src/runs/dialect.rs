//! The runs protocol: one run per connection at a time; all other requests are answered concurrently.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::command::{Command, WorkspaceCommand};
use patchboard_core::event::{Envelope, RunOutcome, Topic};
use patchboard_core::id::{RunId, Seq};
use patchboard_core::log::FollowerPacing;
use patchboard_core::reply::BoardReply;
use patchboard_core::tool::ToolSpec;
use patchboard_core::{BoardError, ErrorKind};
use tokio_util::sync::CancellationToken;

use super::map::{self, MessageSelection};
use super::projection::{ClientLevel, Projection};
use super::wire::{self, ParseFailure, Request, Response, ToolFormat};
use super::{RunsDialectOptions, error};
use crate::auth::ClientIdentity;
use crate::dialect::{CloseCause, Dialect, FollowId, Step, Ticket};
use crate::pump::close;

/// Queued runs of one connection; further ones are refused.
const MAX_QUEUED_RUNS: usize = 16;
/// Pending requests and attached runs of one connection; further ones are refused.
const MAX_IN_FLIGHT: usize = 256;
/// Pages of tools read for one response: more tools than fit into any model's prompt.
const MAX_TOOL_PAGES: usize = 20;

pub(super) struct RunsDialect {
    client_level: ClientLevel,
    close_on_error: bool,
    /// Cancelled at shutdown: runs that are interrupted then continue in the next process.
    draining: CancellationToken,
    /// Owner of the conversations; `None` before the connection is opened.
    account: Option<Arc<str>>,
    next: u64,
    pending: HashMap<Ticket, PendingReply>,
    /// The run started by this connection, until it has ended.
    own_run: Option<OwnRun>,
    queued_runs: VecDeque<wire::RunParams>,
    /// For runs without a model, in threads without one.
    model: Option<Arc<str>>,
    follows: HashMap<FollowId, FollowedRun>,
}

struct OwnRun {
    /// The client's id for the run, if it set one.
    id: Option<Arc<str>>,
    detached: bool,
    phase: RunPhase,
}

#[derive(Clone, Copy)]
enum RunPhase {
    Starting(Ticket),
    Running(RunId),
}

struct FollowedRun {
    projection: Projection,
    relation: RunRelation,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunRelation {
    Own,
    Attached,
}

enum PendingReply {
    Start,
    Attach {
        id: String,
        after: u64,
    },
    FindToCancel {
        id: String,
    },
    Cancel {
        id: String,
        relation: RunRelation,
    },
    Tools {
        id: String,
        folder: Option<String>,
        wanted: WantedTools,
        pages: usize,
    },
    Messages {
        id: String,
        thread: String,
        wanted: MessageSelection,
    },
    Agents {
        id: String,
        source: Option<String>,
    },
    FindToApprove(wire::ToolApprove),
    Approve {
        id: String,
    },
    Models {
        id: String,
    },
    SetModel {
        id: String,
        scope: ModelScope,
    },
    FindToCancelRun(wire::CancelRun),
    CancelRun(wire::CancelRun),
    Workspaces {
        id: String,
    },
    WorkspaceCreated {
        id: String,
    },
    Threads {
        id: String,
        workspace: String,
    },
    ThreadAdded(wire::WorkspaceThread),
    ThreadRemoved(wire::WorkspaceThread),
    /// No response is sent for it.
    Background,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ModelScope {
    Thread,
    Connection,
}

enum WantedTools {
    All(Vec<ToolSpec>),
    One { name: String, output: Option<ToolFormat> },
}

impl RunsDialect {
    pub(super) fn new(options: RunsDialectOptions) -> Self {
        let RunsDialectOptions { strict_clients, close_on_error, draining } = options;
        Self {
            client_level: if strict_clients { ClientLevel::Strict } else { ClientLevel::Full },
            close_on_error,
            draining,
            account: None,
            next: 0,
            pending: HashMap::new(),
            own_run: None,
            queued_runs: VecDeque::new(),
            model: None,
            follows: HashMap::new(),
        }
    }

    fn request(&mut self, parsed: Result<Request, ParseFailure>, steps: &mut Vec<Step>) {
        let Some(account) = self.account.clone() else { return };
        let request = match parsed {
            Ok(request) => request,
            Err(ParseFailure { id, problem }) => return refuse(steps, id.as_deref(), &problem),
        };
        match request {
            Request::Ping(ping) => write(steps, &Response::Pong { id: &ping.id }),
            Request::Run(run) => self.run(run, steps),
            Request::Cancel(cancel) => self.cancel(cancel.id, steps),
            Request::Attach(attach) => self.attach(attach, steps),
            Request::ToolsList(mut list) => {
                list.working_folder = map::non_empty(list.working_folder);
                let command = map::list_tools(list.working_folder.clone(), None);
                let wanted = WantedTools::All(Vec::new());
                self.ask_bounded(PendingReply::tools(list.id, list.working_folder, wanted), command, steps);
            }
            Request::ToolShow(mut show) => {
                show.working_folder = map::non_empty(show.working_folder);
                let command = map::list_tools(show.working_folder.clone(), None);
                let wanted = WantedTools::One { name: show.name, output: show.output };
                self.ask_bounded(PendingReply::tools(show.id, show.working_folder, wanted), command, steps);
            }
            Request::UserMessages(request) if request.thread_id.is_empty() => {
                refuse(steps, Some(&request.id), "thread_id is required");
            }
            Request::UserMessages(request) => {
                let (command, wanted) = map::read_messages(&request, &account);
                let pending = PendingReply::Messages { id: request.id, thread: request.thread_id, wanted };
                self.ask_bounded(pending, command, steps);
            }
            Request::AgentList(list) => {
                let pending = PendingReply::Agents { id: list.id, source: list.source_filter };
                self.ask_bounded(pending, Command::ListAgents, steps);
            }
            Request::ToolApprove(request) => self.approve(request, steps),
            Request::ListModels(list) => {
                self.ask_bounded(PendingReply::Models { id: list.id }, Command::ListModels { agent: None }, steps);
            }
            Request::SetModel(request) => {
                let is_of_thread = request.session_id.as_ref().is_some_and(|thread| !thread.is_empty());
                let scope = if is_of_thread { ModelScope::Thread } else { ModelScope::Connection };
                let command = map::set_model(&request, &account);
                self.ask_bounded(PendingReply::SetModel { id: request.id, scope }, command, steps);
            }
            Request::CancelRun(request) => self.cancel_run(request, steps),
            Request::WorkspaceList(list) => {
                self.workspaces(PendingReply::Workspaces { id: list.id }, WorkspaceCommand::List, steps);
            }
            Request::WorkspaceCreate(create) => {
                let name = map::non_empty(create.name).map(Into::into);
                self.workspaces(
                    PendingReply::WorkspaceCreated { id: create.id },
                    WorkspaceCommand::Create { name },
                    steps,
                );
            }
            Request::WorkspaceThreadList(list) => {
                let command = WorkspaceCommand::ListThreads { workspace: list.workspace_id.as_str().into() };
                self.workspaces(PendingReply::Threads { id: list.id, workspace: list.workspace_id }, command, steps);
            }
            Request::WorkspaceThreadAdd(one) => {
                let (workspace, thread) = (one.workspace_id.as_str().into(), one.thread_id.as_str().into());
                self.workspaces(
                    PendingReply::ThreadAdded(one),
                    WorkspaceCommand::AddThread { workspace, thread },
                    steps,
                );
            }
            Request::WorkspaceThreadRemove(one) => {
                let (workspace, thread) = (one.workspace_id.as_str().into(), one.thread_id.as_str().into());
                self.workspaces(
                    PendingReply::ThreadRemoved(one),
                    WorkspaceCommand::RemoveThread { workspace, thread },
                    steps,
                );
            }
        }
    }

    fn run(&mut self, mut run: wire::RunParams, steps: &mut Vec<Step>) {
        run.id = map::non_empty(run.id);
        if let Some(id) = &run.id {
            if id.len() > wire::MAX_RUN_ID_BYTES {
                let problem = format!("id is longer than {} bytes", wire::MAX_RUN_ID_BYTES);
                return refuse(steps, Some(id), &problem);
            }
            let waits = self.queued_runs.iter().any(|waiting| waiting.id.as_ref() == Some(id));
            if waits || self.own_run_id().is_some_and(|own| **own == **id) {
                return refuse(steps, Some(id), &format!("a run of the id {id} is under way"));
            }
        }
        if self.own_run.is_none() {
            return self.start(run, steps);
        }
        if self.queued_runs.len() >= MAX_QUEUED_RUNS {
            let problem = format!("{MAX_QUEUED_RUNS} runs wait on this connection already");
            return refuse(steps, run.id.as_deref(), &problem);
        }
        self.queued_runs.push_back(run);
    }

    fn start(&mut self, run: wire::RunParams, steps: &mut Vec<Step>) {
        let Some(account) = self.account.clone() else { return };
        let id = run.id.as_deref().map(Into::into);
        let detached = run.detach.unwrap_or(false);
        if let Some(command) = map::add_thread_command(&run) {
            self.ask(PendingReply::Background, command, steps);
        }
        let ticket = self.ask(PendingReply::Start, map::start(run, &account, self.model.clone()), steps);
        self.own_run = Some(OwnRun { id, detached, phase: RunPhase::Starting(ticket) });
    }

    /// The client's id for its own run or, if it set none, the id reported to it.
    fn own_run_id(&self) -> Option<&Arc<str>> {
        let given = self.own_run.as_ref()?.id.as_ref();
        let told = || self.follows.values().find(|follow| follow.relation == RunRelation::Own);
        given.or_else(|| told().map(|follow| follow.projection.id()))
    }

    fn own_run_ended(&mut self, ended: OwnRunEnd, steps: &mut Vec<Step>) {
        self.own_run = None;
        if ended == OwnRunEnd::Failed && self.close_on_error {
            self.queued_runs.clear();
            return steps.push(Step::Close { code: close::NORMAL, reason: "run failed" });
        }
        if let Some(next) = self.queued_runs.pop_front() {
            self.start(next, steps);
        }
    }

    /// Sends no response: the run's end reports the cancellation.
    fn cancel(&mut self, id: String, steps: &mut Vec<Step>) {
        if let Some(place) = self.queued_runs.iter().position(|run| run.id.as_ref() == Some(&id)) {
            self.queued_runs.remove(place);
            return refuse(steps, Some(&id), error::CANCELLED);
        }
        let is_own = self.own_run_id().is_some_and(|own| **own == *id);
        match self.own_run.as_ref().filter(|_| is_own).map(|own| own.phase) {
            Some(RunPhase::Starting(ticket)) => steps.push(Step::CancelAsk(ticket)),
            Some(RunPhase::Running(run)) => {
                self.ask_bounded(
                    PendingReply::Cancel { id, relation: RunRelation::Own },
                    Command::CancelRun(run),
                    steps,
                );
            }
            None => {
                let command = map::find_run(&id);
                self.ask_bounded(PendingReply::FindToCancel { id }, command, steps);
            }
        }
    }

    /// Like `cancel`, with a response once the board has accepted the cancellation.
    fn cancel_run(&mut self, request: wire::CancelRun, steps: &mut Vec<Step>) {
        let waits = self.queued_runs.iter().any(|run| run.id.as_ref() == Some(&request.run_id));
        let is_own = self.own_run_id().is_some_and(|own| **own == *request.run_id);
        match self.own_run.as_ref().filter(|_| is_own && !waits).map(|own| own.phase) {
            Some(RunPhase::Running(run)) => {
                self.ask_bounded(PendingReply::CancelRun(request), Command::CancelRun(run), steps);
            }
            None if !waits => {
                let command = map::find_run(&request.run_id);
                self.ask_bounded(PendingReply::FindToCancelRun(request), command, steps);
            }
            Some(RunPhase::Starting(_)) | None => {
                self.cancel(request.run_id.clone(), steps);
                steps.push(Step::Write(map::run_cancelled(&request.id, &request.run_id, self.client_level)));
            }
        }
    }

    fn workspaces(&mut self, pending: PendingReply, command: WorkspaceCommand, steps: &mut Vec<Step>) {
        self.ask_bounded(pending, Command::Workspaces(command), steps);
    }

    /// Resolves the approval within the run that the request names, because other runs may have a call with the same
    /// id.
    fn approve(&mut self, request: wire::ToolApprove, steps: &mut Vec<Step>) {
        let is_own = self.own_run_id().is_some_and(|own| **own == *request.id);
        match self.own_run.as_ref().filter(|_| is_own).map(|own| own.phase) {
            Some(RunPhase::Running(run)) => {
                let command = map::approve(run, &request);
                self.ask_bounded(PendingReply::Approve { id: request.id }, command, steps);
            }
            Some(RunPhase::Starting(_)) | None => {
                let command = map::find_run(&request.id);
                self.ask_bounded(PendingReply::FindToApprove(request), command, steps);
            }
        }
    }

    fn attach(&mut self, attach: wire::AttachParams, steps: &mut Vec<Step>) {
        let wire::AttachParams { id, after } = attach;
        let followed = self.follows.values().any(|follow| **follow.projection.id() == *id);
        let is_own = self.own_run_id().is_some_and(|own| **own == *id);
        let same = |asked: &PendingReply| matches!(asked, PendingReply::Attach { id: other, .. } if *other == id);
        if followed || is_own || self.pending.values().any(same) {
            return refuse(steps, Some(&id), "this connection follows the run already");
        }
        let command = map::find_run(&id);
        self.ask_bounded(PendingReply::Attach { id, after: after.unwrap_or(0) }, command, steps);
    }

    /// Like `ask`, within the connection's limit of pending requests.
    fn ask_bounded(&mut self, pending: PendingReply, command: Command, steps: &mut Vec<Step>) {
        if self.pending.len() + self.follows.len() >= MAX_IN_FLIGHT {
            return refuse(steps, pending.id(), "too many requests are under way on this connection");
        }
        self.ask(pending, command, steps);
    }

    fn ask(&mut self, pending: PendingReply, command: Command, steps: &mut Vec<Step>) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.pending.insert(ticket, pending);
        steps.push(Step::Ask(ticket, command));
        ticket
    }

    /// Always follows from the first record, because event numbers are assigned by counting.
    fn follow(&mut self, run: RunId, projection: Projection, relation: RunRelation, steps: &mut Vec<Step>) {
        self.next += 1;
        let follow = FollowId(self.next);
        self.follows.insert(follow, FollowedRun { projection, relation });
        let pace = match relation {
            RunRelation::Own => FollowerPacing::Paced,
            RunRelation::Attached => FollowerPacing::Unpaced,
        };
        steps.push(Step::Follow { follow, topic: Topic::Run(run), from: Seq::FIRST, pace });
    }

    fn started(&mut self, answer: Result<BoardReply, BoardError>, steps: &mut Vec<Step>) {
        let id = self.own_run.as_ref().and_then(|own| own.id.clone());
        match answer {
            Ok(BoardReply::RunStarted(run)) => {
                if let Some(own) = &mut self.own_run {
                    own.phase = RunPhase::Running(run);
                }
                let id = id.unwrap_or_else(|| format!("run-{run}").into());
                let projection = Projection::new(id, 0, self.client_level);
                self.follow(run, projection, RunRelation::Own, steps);
            }
            Ok(_) => {
                refuse(steps, id.as_deref(), UNEXPECTED_REPLY);
                self.own_run_ended(OwnRunEnd::Failed, steps);
            }
            Err(problem) => {
                refuse(steps, id.as_deref(), &error::text(&problem));
                let wanted = problem.kind == ErrorKind::Cancelled;
                self.own_run_ended(if wanted { OwnRunEnd::Expected } else { OwnRunEnd::Failed }, steps);
            }
        }
    }

    fn tools(&mut self, listed: ToolPage, pending: PendingReply, steps: &mut Vec<Step>) {
        let PendingReply::Tools { id, folder, wanted, pages } = pending else { return };
        let ToolPage { tools, next } = listed;
        let next = next.filter(|_| pages + 1 < MAX_TOOL_PAGES);
        let wanted = match wanted {
            WantedTools::All(mut all) => {
                all.extend(tools);
                if next.is_none() {
                    return steps.push(Step::Write(map::tools(&id, &mut all)));
                }
                WantedTools::All(all)
            }
            WantedTools::One { name, output } => {
                if let Some(tool) = tools.iter().find(|tool| *tool.name == *name) {
                    return steps.push(Step::Write(map::shown_tool(&id, tool, output)));
                }
                if next.is_none() {
                    return refuse(steps, Some(&id), &format!("tool not found: {name}"));
                }
                WantedTools::One { name, output }
            }
        };
        let command = map::list_tools(folder.clone(), next);
        self.ask(PendingReply::Tools { id, folder, wanted, pages: pages + 1 }, command, steps);
    }
}

const UNEXPECTED_REPLY: &str = "internal error: unexpected answer";

struct ToolPage {
    tools: Vec<ToolSpec>,
    next: Option<patchboard_core::store::PageCursor>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnRunEnd {
    /// Completed, or cancelled on request.
    Expected,
    Failed,
}

impl PendingReply {
    fn tools(id: String, folder: Option<String>, wanted: WantedTools) -> Self {
        Self::Tools { id, folder, wanted, pages: 0 }
    }

    /// The id that its response carries.
    fn id(&self) -> Option<&str> {
        match self {
            Self::Start | Self::Background => None,
            Self::Attach { id, .. }
            | Self::FindToCancel { id }
            | Self::Cancel { id, .. }
            | Self::Tools { id, .. }
            | Self::Messages { id, .. }
            | Self::Agents { id, .. }
            | Self::FindToApprove(wire::ToolApprove { id, .. })
            | Self::Approve { id }
            | Self::Models { id }
            | Self::SetModel { id, .. }
            | Self::FindToCancelRun(wire::CancelRun { id, .. })
            | Self::CancelRun(wire::CancelRun { id, .. })
            | Self::Workspaces { id }
            | Self::WorkspaceCreated { id }
            | Self::Threads { id, .. }
            | Self::ThreadAdded(wire::WorkspaceThread { id, .. })
            | Self::ThreadRemoved(wire::WorkspaceThread { id, .. }) => Some(id),
        }
    }
}

impl Dialect for RunsDialect {
    fn opened(&mut self, identity: Option<ClientIdentity>, _now: Duration, steps: &mut Vec<Step>) {
        match identity {
            Some(identity) => self.account = Some(identity.principal),
            // Tokens are checked before the upgrade.
            None => steps.push(Step::Close { code: close::POLICY, reason: "not signed in" }),
        }
    }

    fn text(&mut self, text: &str, _now: Duration, steps: &mut Vec<Step>) {
        self.request(Request::parse(text), steps);
    }

    fn binary(&mut self, bytes: &[u8], _now: Duration, steps: &mut Vec<Step>) {
        self.request(Request::parse_bytes(bytes), steps);
    }

    fn authenticated(&mut self, _identity: Option<ClientIdentity>, _now: Duration, _steps: &mut Vec<Step>) {}

    fn command_answered(
        &mut self,
        ticket: Ticket,
        answer: Result<BoardReply, BoardError>,
        _now: Duration,
        steps: &mut Vec<Step>,
    ) {
        let Some(pending) = self.pending.remove(&ticket) else { return };
        match (pending, answer) {
            (PendingReply::Start, answer) => self.started(answer, steps),
            (PendingReply::Attach { id, .. } | PendingReply::FindToCancel { id }, Ok(BoardReply::Run(run)))
                if !map::is_runs_session(&run.session) =>
            {
                refuse(steps, Some(&id), "run expired or unknown");
            }
            (PendingReply::Attach { id, after }, Ok(BoardReply::Run(run))) => {
                let projection = Projection::new(id.into(), after, self.client_level);
                self.follow(run.run, projection, RunRelation::Attached, steps);
            }
            (PendingReply::FindToCancel { id }, Ok(BoardReply::Run(run))) => {
                let pending = PendingReply::Cancel { id, relation: RunRelation::Attached };
                self.ask(pending, Command::CancelRun(run.run), steps);
            }
            (PendingReply::FindToApprove(request), Ok(BoardReply::Run(run))) if map::is_runs_session(&run.session) => {
                let command = map::approve(run.run, &request);
                self.ask(PendingReply::Approve { id: request.id }, command, steps);
            }
            (PendingReply::FindToApprove(request), Ok(_)) => {
                refuse(steps, Some(&request.id), "tool_approve: run expired or unknown");
            }
            (PendingReply::Cancel { .. } | PendingReply::Approve { .. }, Ok(_)) => {}
            // The run ended by itself in the meantime, which its end event reports.
            (PendingReply::Cancel { relation: RunRelation::Own, .. }, Err(problem))
                if matches!(problem.kind, ErrorKind::NotFound | ErrorKind::Conflict) => {}
            (
                PendingReply::Approve { id } | PendingReply::FindToApprove(wire::ToolApprove { id, .. }),
                Err(problem),
            ) => {
                refuse(steps, Some(&id), &format!("tool_approve: {}", error::text(&problem)));
            }
            (pending @ PendingReply::Tools { .. }, Ok(BoardReply::Tools(page))) => {
                self.tools(ToolPage { tools: page.items, next: page.next }, pending, steps);
            }
            (PendingReply::Messages { id, thread, wanted }, Ok(BoardReply::Messages { messages, has_more })) => {
                steps.push(Step::Write(map::messages(&id, &thread, &messages, has_more, wanted)));
            }
            (PendingReply::Agents { id, source }, Ok(BoardReply::Agents(agents))) => {
                steps.push(Step::Write(map::agents(&id, &agents, source.as_deref())));
            }
            (PendingReply::Background, Ok(_)) => {}
            (PendingReply::Background, Err(problem)) => {
                tracing::warn!(error = %problem, "adding a thread to its workspace failed");
            }
            (PendingReply::Models { id }, Ok(BoardReply::Models(report))) => {
                steps.push(Step::Write(map::models(&id, &report, self.client_level)));
            }
            (PendingReply::SetModel { id, scope }, Ok(BoardReply::ModelSet(model))) => {
                if scope == ModelScope::Connection {
                    self.model = model;
                }
                steps.push(Step::Write(map::model_set(&id, None, self.client_level)));
            }
            (PendingReply::SetModel { id, .. }, Err(problem)) => {
                steps.push(Step::Write(map::model_set(&id, Some(&error::text(&problem)), self.client_level)));
            }
            (PendingReply::FindToCancelRun(request), Ok(BoardReply::Run(run)))
                if map::is_runs_session(&run.session) =>
            {
                self.ask(PendingReply::CancelRun(request), Command::CancelRun(run.run), steps);
            }
            (PendingReply::FindToCancelRun(request), Ok(_)) => {
                refuse(steps, Some(&request.id), "run expired or unknown");
            }
            (PendingReply::CancelRun(wire::CancelRun { id, run_id }), Ok(_)) => {
                steps.push(Step::Write(map::run_cancelled(&id, &run_id, self.client_level)));
            }
            (PendingReply::Workspaces { id }, Ok(BoardReply::Workspaces(found))) => {
                steps.push(Step::Write(map::workspaces(&id, &found)));
            }
            (PendingReply::WorkspaceCreated { id }, Ok(BoardReply::Workspace(made))) => {
                steps.push(Step::Write(map::workspace_created(&id, &made)));
            }
            (PendingReply::Threads { id, workspace }, Ok(BoardReply::WorkspaceThreads(found))) => {
                steps.push(Step::Write(map::threads(&id, &workspace, &found)));
            }
            (PendingReply::ThreadAdded(wire::WorkspaceThread { id, workspace_id, thread_id }), Ok(_)) => {
                let response =
                    Response::WorkspaceThreadAdd { id: &id, workspace_id: &workspace_id, thread_id: &thread_id };
                write(steps, &response);
            }
            (PendingReply::ThreadRemoved(wire::WorkspaceThread { id, workspace_id, thread_id }), Ok(_)) => {
                let response =
                    Response::WorkspaceThreadRemove { id: &id, workspace_id: &workspace_id, thread_id: &thread_id };
                write(steps, &response);
            }
            (pending, Err(problem)) => refuse(steps, pending.id(), &error::text(&problem)),
            (pending, Ok(_)) => refuse(steps, pending.id(), UNEXPECTED_REPLY),
        }
    }

    fn observed(&mut self, follow: FollowId, envelope: &Envelope, _now: Duration, steps: &mut Vec<Step>) {
        let Some(followed) = self.follows.get_mut(&follow) else { return };
        let outcome = followed.projection.project(envelope, &mut |frame| steps.push(Step::Write(frame)));
        let Some(outcome) = outcome else { return };
        let relation = followed.relation;
        self.follows.remove(&follow);
        if relation == RunRelation::Own {
            self.own_run_ended(
                match outcome {
                    RunOutcome::Completed | RunOutcome::Cancelled => OwnRunEnd::Expected,
                    RunOutcome::Failed | RunOutcome::Interrupted => OwnRunEnd::Failed,
                },
                steps,
            );
        }
    }

    /// The topic ended before the run's end was reported.
    fn follow_ended(&mut self, follow: FollowId, problem: Option<BoardError>, steps: &mut Vec<Step>) {
        let Some(FollowedRun { projection, relation }) = self.follows.remove(&follow) else { return };
        if self.draining.is_cancelled() {
            // The run continues in the next process, so no end is reported.
            return steps.push(Step::Close { code: close::GOING_AWAY, reason: "server is shutting down" });
        }
        let text = match problem {
            Some(problem) => error::text(&problem),
            None => "the run stopped without its end being recorded; see the server's log".to_owned(),
        };
        refuse(steps, Some(projection.id()), &text);
        if relation == RunRelation::Own {
            self.own_run_ended(OwnRunEnd::Failed, steps);
        }
    }

    fn timer_fired(&mut self, _now: Duration, _steps: &mut Vec<Step>) {}

    /// Queued runs never start. When the client leaves, a started run is cancelled unless it is detached; when the
    /// client was too slow, the run is detached.
    fn closed(&mut self, gone: CloseCause, steps: &mut Vec<Step>) {
        let Some(OwnRun { detached, phase: stage, .. }) = self.own_run.take() else { return };
        self.next += 1;
        let ticket = Ticket(self.next);
        match (gone, stage) {
            (CloseCause::Client, RunPhase::Starting(start)) if !detached => steps.push(Step::CancelAsk(start)),
            (CloseCause::Client | CloseCause::Stalled, RunPhase::Starting(start)) => {
                steps.push(Step::AwaitReply(start));
            }
            (CloseCause::Client, RunPhase::Running(run)) if !detached => {
                steps.push(Step::Ask(ticket, Command::CancelRun(run)));
            }
            (CloseCause::Stalled, RunPhase::Running(run)) => steps.push(Step::Ask(ticket, Command::DetachRun(run))),
            (CloseCause::Client, RunPhase::Running(_)) | (CloseCause::Server, _) => {}
        }
    }
}

fn write(steps: &mut Vec<Step>, response: &Response<'_>) {
    steps.push(Step::Write(wire::encode(response)));
}

fn refuse(steps: &mut Vec<Step>, id: Option<&str>, problem: &str) {
    write(steps, &Response::Error { id, error: problem });
}

#[cfg(test)]
mod tests;
