//! The runs protocol: one run per connection at a time; all other requests are answered concurrently.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::board::BoardCommand;
use patchboard_core::command::{
    AddWorkspaceThread, CancelRun, CreateWorkspace, DetachRun, ListAgents, ListModels, ListWorkspaceThreads,
    ListWorkspaces, RemoveWorkspaceThread,
};
use patchboard_core::event::{Envelope, RunOutcome, Topic};
use patchboard_core::id::{RunId, Seq};
use patchboard_core::log::FollowerPacing;
use patchboard_core::reply::RunSummary;
use patchboard_core::store::{PageCursor, ResultPage};
use patchboard_core::tool::ToolSpec;
use patchboard_core::{BoardError, ErrorKind};
use tokio_util::sync::CancellationToken;

use super::map;
use super::projection::{ClientLevel, Projection};
use super::wire::{self, ParseFailure, Request, Response, ToolFormat};
use super::{ConnectionOptions, error};
use crate::auth::ClientIdentity;
use crate::dialect::{BoardRequest, CloseCause, Dialect, FollowId, Ticket};
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
    pending: HashMap<Ticket, PendingAsk>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunRelation {
    Own,
    Attached,
}

/// A request that the board has not answered yet.
struct PendingAsk {
    /// The client's id for the run that the request attaches to.
    attaches: Option<String>,
}

/// A reply of the board, with what its request was for. `id` is the id that the response carries.
#[derive(Debug)]
pub(super) enum RunsReply {
    Started(Result<RunId, BoardError>),
    /// A run was looked up by the client's id.
    Found {
        purpose: FindPurpose,
        result: Result<RunSummary, BoardError>,
    },
    Cancelled {
        id: String,
        relation: RunRelation,
        result: Result<(), BoardError>,
    },
    RunCancelled {
        request: wire::CancelRun,
        result: Result<(), BoardError>,
    },
    Approved {
        id: String,
        result: Result<(), BoardError>,
    },
    Tools {
        search: ToolSearch,
        result: Result<ResultPage<ToolSpec>, BoardError>,
    },
    ModelSet {
        id: String,
        scope: ModelScope,
        result: Result<Option<Arc<str>>, BoardError>,
    },
    /// Answered with this frame.
    Response {
        id: String,
        frame: Result<String, BoardError>,
    },
    /// No response is sent for it.
    ThreadAdded(Result<(), BoardError>),
}

/// Why a run is looked up.
#[derive(Debug)]
pub(super) enum FindPurpose {
    Attach { id: String, after: u64 },
    Cancel { id: String },
    CancelRun(wire::CancelRun),
    Approve(wire::ToolApprove),
}

/// Pages of tools that are read for one response.
#[derive(Debug)]
pub(super) struct ToolSearch {
    id: String,
    folder: Option<String>,
    selection: WantedTools,
    pages: usize,
}

type Step = crate::dialect::Step<RunsReply>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelScope {
    Thread,
    Connection,
}

#[derive(Debug)]
enum WantedTools {
    All(Vec<ToolSpec>),
    One { name: String, output: Option<ToolFormat> },
}

impl RunsDialect {
    pub(super) fn new(options: ConnectionOptions) -> Self {
        let ConnectionOptions { strict_clients, close_on_error, draining } = options;
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
                let selection = WantedTools::All(Vec::new());
                let search = ToolSearch { id: list.id, folder: list.working_folder, selection, pages: 0 };
                self.search_tools(search, steps);
            }
            Request::ToolShow(mut show) => {
                show.working_folder = map::non_empty(show.working_folder);
                let selection = WantedTools::One { name: show.name, output: show.output };
                let search = ToolSearch { id: show.id, folder: show.working_folder, selection, pages: 0 };
                self.search_tools(search, steps);
            }
            Request::UserMessages(request) if request.thread_id.is_empty() => {
                refuse(steps, Some(&request.id), "thread_id is required");
            }
            Request::UserMessages(request) => {
                let (command, selection) = map::read_messages(&request, &account);
                let thread = request.thread_id;
                self.respond(request.id, command, steps, move |id, page| {
                    map::messages(id, &thread, &page.messages, page.has_more, selection)
                });
            }
            Request::AgentList(list) => {
                let source = list.source_filter;
                self.respond(list.id, ListAgents, steps, move |id, agents| map::agents(id, &agents, source.as_deref()));
            }
            Request::ToolApprove(request) => self.approve(request, steps),
            Request::ListModels(list) => {
                let level = self.client_level;
                self.respond(list.id, ListModels { agent: None }, steps, move |id, report| {
                    map::models(id, &report, level)
                });
            }
            Request::SetModel(request) => {
                let is_of_thread = request.session_id.as_ref().is_some_and(|thread| !thread.is_empty());
                let scope = if is_of_thread { ModelScope::Thread } else { ModelScope::Connection };
                let command = map::set_model(&request, &account);
                let id = request.id;
                let refusal_id = id.clone();
                let reply = move |result| RunsReply::ModelSet { id, scope, result };
                self.ask_bounded(&refusal_id, BoardRequest::new(command, reply), steps);
            }
            Request::CancelRun(request) => self.cancel_run(request, steps),
            Request::WorkspaceList(list) => {
                self.respond(list.id, ListWorkspaces, steps, |id, found| map::workspaces(id, &found));
            }
            Request::WorkspaceCreate(create) => {
                let name = map::non_empty(create.name).map(Into::into);
                self.respond(create.id, CreateWorkspace { name }, steps, |id, made| map::workspace_created(id, &made));
            }
            Request::WorkspaceThreadList(list) => {
                let command = ListWorkspaceThreads { workspace: list.workspace_id.as_str().into() };
                let workspace = list.workspace_id;
                self.respond(list.id, command, steps, move |id, found| map::threads(id, &workspace, &found));
            }
            Request::WorkspaceThreadAdd(one) => {
                let wire::WorkspaceThread { id, workspace_id, thread_id } = one;
                let command =
                    AddWorkspaceThread { workspace: workspace_id.as_str().into(), thread: thread_id.as_str().into() };
                self.respond(id, command, steps, move |id, ()| {
                    let (workspace_id, thread_id) = (&workspace_id, &thread_id);
                    wire::encode(&Response::WorkspaceThreadAdd { id, workspace_id, thread_id })
                });
            }
            Request::WorkspaceThreadRemove(one) => {
                let wire::WorkspaceThread { id, workspace_id, thread_id } = one;
                let command = RemoveWorkspaceThread {
                    workspace: workspace_id.as_str().into(),
                    thread: thread_id.as_str().into(),
                };
                self.respond(id, command, steps, move |id, ()| {
                    let (workspace_id, thread_id) = (&workspace_id, &thread_id);
                    wire::encode(&Response::WorkspaceThreadRemove { id, workspace_id, thread_id })
                });
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
            self.ask(BoardRequest::new(command, RunsReply::ThreadAdded), steps);
        }
        let start = map::start(run, &account, self.model.clone());
        let ticket = self.ask(BoardRequest::new(start, RunsReply::Started), steps);
        self.own_run = Some(OwnRun { id, detached, phase: RunPhase::Starting(ticket) });
    }

    /// The client's id for its own run or, if it set none, the id reported to it.
    fn own_run_id(&self) -> Option<&Arc<str>> {
        let client_id = self.own_run.as_ref()?.id.as_ref();
        let own_follow = || self.follows.values().find(|follow| follow.relation == RunRelation::Own);
        client_id.or_else(|| own_follow().map(|follow| follow.projection.id()))
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
        if let Some(position) = self.queued_runs.iter().position(|run| run.id.as_ref() == Some(&id)) {
            self.queued_runs.remove(position);
            return refuse(steps, Some(&id), error::CANCELLED);
        }
        let is_own = self.own_run_id().is_some_and(|own| **own == *id);
        match self.own_run.as_ref().filter(|_| is_own).map(|own| own.phase) {
            Some(RunPhase::Starting(ticket)) => steps.push(Step::CancelAsk(ticket)),
            Some(RunPhase::Running(run)) => {
                let refusal_id = id.clone();
                let reply = move |result| RunsReply::Cancelled { id, relation: RunRelation::Own, result };
                self.ask_bounded(&refusal_id, BoardRequest::new(CancelRun(run), reply), steps);
            }
            None => {
                self.find(id.clone(), FindPurpose::Cancel { id }, steps);
            }
        }
    }

    /// Like `cancel`, with a response once the board has accepted the cancellation.
    fn cancel_run(&mut self, request: wire::CancelRun, steps: &mut Vec<Step>) {
        let waits = self.queued_runs.iter().any(|run| run.id.as_ref() == Some(&request.run_id));
        let is_own = self.own_run_id().is_some_and(|own| **own == *request.run_id);
        match self.own_run.as_ref().filter(|_| is_own && !waits).map(|own| own.phase) {
            Some(RunPhase::Running(run)) => {
                let refusal_id = request.id.clone();
                let reply = move |result| RunsReply::RunCancelled { request, result };
                self.ask_bounded(&refusal_id, BoardRequest::new(CancelRun(run), reply), steps);
            }
            None if !waits => {
                self.find(request.run_id.clone(), FindPurpose::CancelRun(request), steps);
            }
            Some(RunPhase::Starting(_)) | None => {
                self.cancel(request.run_id.clone(), steps);
                steps.push(Step::Write(map::run_cancelled(&request.id, &request.run_id, self.client_level)));
            }
        }
    }

    /// Resolves the approval within the run that the request names, because other runs may have a call with the same
    /// id.
    fn approve(&mut self, request: wire::ToolApprove, steps: &mut Vec<Step>) {
        let is_own = self.own_run_id().is_some_and(|own| **own == *request.id);
        match self.own_run.as_ref().filter(|_| is_own).map(|own| own.phase) {
            Some(RunPhase::Running(run)) => {
                let command = map::approve(run, &request);
                let id = request.id;
                let refusal_id = id.clone();
                let reply = move |result| RunsReply::Approved { id, result };
                self.ask_bounded(&refusal_id, BoardRequest::new(command, reply), steps);
            }
            Some(RunPhase::Starting(_)) | None => {
                self.find(request.id.clone(), FindPurpose::Approve(request), steps);
            }
        }
    }

    fn attach(&mut self, attach: wire::AttachParams, steps: &mut Vec<Step>) {
        let wire::AttachParams { id, after } = attach;
        let followed = self.follows.values().any(|follow| **follow.projection.id() == *id);
        let is_own = self.own_run_id().is_some_and(|own| **own == *id);
        let is_attaching = self.pending.values().any(|pending| pending.attaches.as_ref() == Some(&id));
        if followed || is_own || is_attaching {
            return refuse(steps, Some(&id), "this connection follows the run already");
        }
        self.find(id.clone(), FindPurpose::Attach { id, after: after.unwrap_or(0) }, steps);
    }

    /// Looks a run up by the client's id.
    fn find(&mut self, run: String, purpose: FindPurpose, steps: &mut Vec<Step>) {
        let refusal_id = purpose.id().to_owned();
        let attaches = match &purpose {
            FindPurpose::Attach { id, .. } => Some(id.clone()),
            FindPurpose::Cancel { .. } | FindPurpose::CancelRun(_) | FindPurpose::Approve(_) => None,
        };
        let reply = move |result| RunsReply::Found { purpose, result };
        let ticket = self.ask_bounded(&refusal_id, BoardRequest::new(map::find_run(&run), reply), steps);
        if let Some(pending) = ticket.and_then(|ticket| self.pending.get_mut(&ticket)) {
            pending.attaches = attaches;
        }
    }

    /// A command that is answered with one frame, which carries this id.
    fn respond<C: BoardCommand>(
        &mut self,
        id: String,
        command: C,
        steps: &mut Vec<Step>,
        frame: impl FnOnce(&str, C::Reply) -> String + Send + 'static,
    ) {
        let refusal_id = id.clone();
        let request = BoardRequest::new(command, move |result| {
            let frame = result.map(|reply| frame(&id, reply));
            RunsReply::Response { id, frame }
        });
        self.ask_bounded(&refusal_id, request, steps);
    }

    fn search_tools(&mut self, search: ToolSearch, steps: &mut Vec<Step>) {
        let (id, request) = (search.id.clone(), search.request(None));
        self.ask_bounded(&id, request, steps);
    }

    /// Like `ask`, within the connection's limit of pending requests. A refusal carries this id.
    fn ask_bounded(&mut self, id: &str, request: BoardRequest<RunsReply>, steps: &mut Vec<Step>) -> Option<Ticket> {
        if self.pending.len() + self.follows.len() >= MAX_IN_FLIGHT {
            refuse(steps, Some(id), "too many requests are under way on this connection");
            return None;
        }
        Some(self.ask(request, steps))
    }

    fn ask(&mut self, request: BoardRequest<RunsReply>, steps: &mut Vec<Step>) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.pending.insert(ticket, PendingAsk { attaches: None });
        steps.push(Step::Ask(ticket, request));
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

    fn started(&mut self, result: Result<RunId, BoardError>, steps: &mut Vec<Step>) {
        let id = self.own_run.as_ref().and_then(|own| own.id.clone());
        match result {
            Ok(run) => {
                if let Some(own) = &mut self.own_run {
                    own.phase = RunPhase::Running(run);
                }
                let id = id.unwrap_or_else(|| format!("run-{run}").into());
                let projection = Projection::new(id, 0, self.client_level);
                self.follow(run, projection, RunRelation::Own, steps);
            }
            Err(problem) => {
                refuse(steps, id.as_deref(), &error::text(&problem));
                let is_expected = problem.kind == ErrorKind::Cancelled;
                self.own_run_ended(if is_expected { OwnRunEnd::Expected } else { OwnRunEnd::Failed }, steps);
            }
        }
    }

    fn found(&mut self, purpose: FindPurpose, run: RunSummary, steps: &mut Vec<Step>) {
        if !map::is_runs_session(&run.session) {
            return refuse(steps, Some(purpose.id()), &purpose.problem("run expired or unknown"));
        }
        let run = run.run;
        match purpose {
            FindPurpose::Attach { id, after } => {
                let projection = Projection::new(id.into(), after, self.client_level);
                self.follow(run, projection, RunRelation::Attached, steps);
            }
            FindPurpose::Cancel { id } => {
                let reply = move |result| RunsReply::Cancelled { id, relation: RunRelation::Attached, result };
                self.ask(BoardRequest::new(CancelRun(run), reply), steps);
            }
            FindPurpose::CancelRun(request) => {
                let reply = move |result| RunsReply::RunCancelled { request, result };
                self.ask(BoardRequest::new(CancelRun(run), reply), steps);
            }
            FindPurpose::Approve(request) => {
                let command = map::approve(run, &request);
                let reply = move |result| RunsReply::Approved { id: request.id, result };
                self.ask(BoardRequest::new(command, reply), steps);
            }
        }
    }

    fn tools(&mut self, page: ResultPage<ToolSpec>, search: ToolSearch, steps: &mut Vec<Step>) {
        let ToolSearch { id, folder, selection, pages } = search;
        let ResultPage { items: tools, next } = page;
        let next = next.filter(|_| pages + 1 < MAX_TOOL_PAGES);
        let selection = match selection {
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
        let search = ToolSearch { id, folder, selection, pages: pages + 1 };
        self.ask(search.request(next), steps);
    }
}

impl ToolSearch {
    /// Reads one page.
    fn request(self, cursor: Option<PageCursor>) -> BoardRequest<RunsReply> {
        let command = map::list_tools(self.folder.clone(), cursor);
        BoardRequest::new(command, move |result| RunsReply::Tools { search: self, result })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnRunEnd {
    /// Completed, or cancelled on request.
    Expected,
    Failed,
}

impl FindPurpose {
    /// The id that a refusal carries.
    fn id(&self) -> &str {
        match self {
            Self::Attach { id, .. }
            | Self::Cancel { id }
            | Self::CancelRun(wire::CancelRun { id, .. })
            | Self::Approve(wire::ToolApprove { id, .. }) => id,
        }
    }

    /// The text of a refusal.
    fn problem(&self, problem: &str) -> String {
        match self {
            Self::Approve(_) => format!("tool_approve: {problem}"),
            Self::Attach { .. } | Self::Cancel { .. } | Self::CancelRun(_) => problem.to_owned(),
        }
    }
}

impl Dialect for RunsDialect {
    type Reply = RunsReply;

    fn opened(&mut self, identity: Option<ClientIdentity>, _now: Duration, steps: &mut Vec<Step>) {
        match identity {
            Some(identity) => self.account = Some(identity.principal.text()),
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

    fn replied(&mut self, ticket: Ticket, reply: RunsReply, _now: Duration, steps: &mut Vec<Step>) {
        self.pending.remove(&ticket);
        match reply {
            RunsReply::Started(result) => self.started(result, steps),
            RunsReply::Found { purpose, result: Ok(run) } => self.found(purpose, run, steps),
            RunsReply::Found { purpose, result: Err(problem) } => {
                refuse(steps, Some(purpose.id()), &purpose.problem(&error::text(&problem)));
            }
            RunsReply::Cancelled { result: Ok(()), .. } | RunsReply::Approved { result: Ok(()), .. } => {}
            // The run ended by itself in the meantime, which its end event reports.
            RunsReply::Cancelled { relation: RunRelation::Own, result: Err(problem), .. }
                if matches!(problem.kind, ErrorKind::NotFound | ErrorKind::Conflict) => {}
            RunsReply::Cancelled { id, result: Err(problem), .. } => refuse(steps, Some(&id), &error::text(&problem)),
            RunsReply::Approved { id, result: Err(problem) } => {
                refuse(steps, Some(&id), &format!("tool_approve: {}", error::text(&problem)));
            }
            RunsReply::RunCancelled { request: wire::CancelRun { id, run_id }, result } => match result {
                Ok(()) => steps.push(Step::Write(map::run_cancelled(&id, &run_id, self.client_level))),
                Err(problem) => refuse(steps, Some(&id), &error::text(&problem)),
            },
            RunsReply::Tools { search, result: Ok(page) } => self.tools(page, search, steps),
            RunsReply::Tools { search, result: Err(problem) } => {
                refuse(steps, Some(&search.id), &error::text(&problem));
            }
            RunsReply::ModelSet { id, scope, result } => {
                let problem = result.as_ref().err().map(error::text);
                if let (ModelScope::Connection, Ok(model)) = (scope, result) {
                    self.model = model;
                }
                steps.push(Step::Write(map::model_set(&id, problem.as_deref(), self.client_level)));
            }
            RunsReply::Response { frame: Ok(frame), .. } => steps.push(Step::Write(frame)),
            RunsReply::Response { id, frame: Err(problem) } => refuse(steps, Some(&id), &error::text(&problem)),
            RunsReply::ThreadAdded(Ok(())) => {}
            RunsReply::ThreadAdded(Err(problem)) => {
                tracing::warn!(error = %problem, "adding a thread to its workspace failed");
            }
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
    fn closed(&mut self, cause: CloseCause, steps: &mut Vec<Step>) {
        let Some(OwnRun { detached, phase, .. }) = self.own_run.take() else { return };
        self.next += 1;
        let ticket = Ticket(self.next);
        let relation = RunRelation::Own;
        let reply = move |result| RunsReply::Cancelled { id: String::new(), relation, result };
        match (cause, phase) {
            (CloseCause::Client, RunPhase::Starting(start)) if !detached => steps.push(Step::CancelAsk(start)),
            (CloseCause::Client | CloseCause::Stalled, RunPhase::Starting(start)) => {
                steps.push(Step::AwaitReply(start));
            }
            (CloseCause::Client, RunPhase::Running(run)) if !detached => {
                steps.push(Step::Ask(ticket, BoardRequest::new(CancelRun(run), reply)));
            }
            (CloseCause::Stalled, RunPhase::Running(run)) => {
                steps.push(Step::Ask(ticket, BoardRequest::new(DetachRun(run), reply)));
            }
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
