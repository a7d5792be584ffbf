//! What a runs connection means: one run at a time, everything else answered at once beside it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::command::{Command, WorkspaceCommand};
use patchboard_core::event::{Envelope, RunOutcome, Topic};
use patchboard_core::id::{RunId, Seq};
use patchboard_core::log::Pace;
use patchboard_core::reply::Reply;
use patchboard_core::tool::ToolSpec;
use patchboard_core::{BoardError, ErrorKind};
use tokio_util::sync::CancellationToken;

use super::map::{self, Wanted};
use super::projection::{Dialogue, Projection};
use super::wire::{self, Output, Request, Response, Unreadable};
use super::{DialectOptions, error};
use crate::auth::Identity;
use crate::dialect::{Dialect, FollowId, Gone, Step, Ticket};
use crate::pump::close;

/// Runs of one connection that wait for their turn; the next one is refused.
const MAX_WAITING: usize = 16;
/// Questions of one connection under way at once, and runs it is attached to; the next one is refused.
const MAX_UNDER_WAY: usize = 256;
/// Pages of tools read for one answer: more tools than any model could be told of.
const MAX_TOOL_PAGES: usize = 20;

pub(super) struct RunsDialect {
    dialogue: Dialogue,
    close_on_error: bool,
    /// Cancelled when the server goes down: runs that stop then are not over.
    draining: CancellationToken,
    /// Whose conversations these are; nobody's before the connection is opened.
    account: Option<Arc<str>>,
    next: u64,
    asked: HashMap<Ticket, Pending>,
    /// The run this connection has started and not seen the end of.
    own: Option<OwnRun>,
    waiting: VecDeque<wire::Run>,
    /// For runs that name none, in threads that have none.
    model: Option<Arc<str>>,
    follows: HashMap<FollowId, Follow>,
}

struct OwnRun {
    /// What the client calls it, if it does.
    id: Option<Arc<str>>,
    detached: bool,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    Starting(Ticket),
    Running(RunId),
}

struct Follow {
    projection: Projection,
    relation: Relation,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Own,
    Attached,
}

enum Pending {
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
        relation: Relation,
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
        wanted: Wanted,
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
    WorkspaceMade {
        id: String,
    },
    Threads {
        id: String,
        workspace: String,
    },
    ThreadAdded(wire::WorkspaceThread),
    ThreadRemoved(wire::WorkspaceThread),
    /// Nobody waits for the answer.
    Aside,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ModelScope {
    Thread,
    Connection,
}

enum WantedTools {
    All(Vec<ToolSpec>),
    One { name: String, output: Option<Output> },
}

impl RunsDialect {
    pub(super) fn new(options: DialectOptions) -> Self {
        let DialectOptions { strict_clients, close_on_error, draining } = options;
        Self {
            dialogue: if strict_clients { Dialogue::Strict } else { Dialogue::Full },
            close_on_error,
            draining,
            account: None,
            next: 0,
            asked: HashMap::new(),
            own: None,
            waiting: VecDeque::new(),
            model: None,
            follows: HashMap::new(),
        }
    }

    fn request(&mut self, parsed: Result<Request, Unreadable>, steps: &mut Vec<Step>) {
        let Some(account) = self.account.clone() else { return };
        let request = match parsed {
            Ok(request) => request,
            Err(Unreadable { id, problem }) => return refuse(steps, id.as_deref(), &problem),
        };
        match request {
            Request::Ping(ping) => write(steps, &Response::Pong { id: &ping.id }),
            Request::Run(run) => self.run(run, steps),
            Request::Cancel(cancel) => self.cancel(cancel.id, steps),
            Request::Attach(attach) => self.attach(attach, steps),
            Request::ToolsList(mut list) => {
                list.working_folder = map::given(list.working_folder);
                let command = map::list_tools(list.working_folder.clone(), None);
                let wanted = WantedTools::All(Vec::new());
                self.question(Pending::tools(list.id, list.working_folder, wanted), command, steps);
            }
            Request::ToolShow(mut show) => {
                show.working_folder = map::given(show.working_folder);
                let command = map::list_tools(show.working_folder.clone(), None);
                let wanted = WantedTools::One { name: show.name, output: show.output };
                self.question(Pending::tools(show.id, show.working_folder, wanted), command, steps);
            }
            Request::UserMessages(request) if request.thread_id.is_empty() => {
                refuse(steps, Some(&request.id), "thread_id is required");
            }
            Request::UserMessages(request) => {
                let (command, wanted) = map::read_messages(&request, &account);
                let pending = Pending::Messages { id: request.id, thread: request.thread_id, wanted };
                self.question(pending, command, steps);
            }
            Request::AgentList(list) => {
                let pending = Pending::Agents { id: list.id, source: list.source_filter };
                self.question(pending, Command::ListAgents, steps);
            }
            Request::ToolApprove(request) => self.approve(request, steps),
            Request::ListModels(list) => {
                self.question(Pending::Models { id: list.id }, Command::ListModels { agent: None }, steps);
            }
            Request::SetModel(request) => {
                let is_of_thread = request.session_id.as_ref().is_some_and(|thread| !thread.is_empty());
                let scope = if is_of_thread { ModelScope::Thread } else { ModelScope::Connection };
                let command = map::set_model(&request, &account);
                self.question(Pending::SetModel { id: request.id, scope }, command, steps);
            }
            Request::CancelRun(request) => self.cancel_run(request, steps),
            Request::WorkspaceList(list) => {
                self.workspaces(Pending::Workspaces { id: list.id }, WorkspaceCommand::List, steps);
            }
            Request::WorkspaceCreate(create) => {
                let name = map::given(create.name).map(Into::into);
                self.workspaces(Pending::WorkspaceMade { id: create.id }, WorkspaceCommand::Create { name }, steps);
            }
            Request::WorkspaceThreadList(list) => {
                let command = WorkspaceCommand::ListThreads { workspace: list.workspace_id.as_str().into() };
                self.workspaces(Pending::Threads { id: list.id, workspace: list.workspace_id }, command, steps);
            }
            Request::WorkspaceThreadAdd(one) => {
                let (workspace, thread) = (one.workspace_id.as_str().into(), one.thread_id.as_str().into());
                self.workspaces(Pending::ThreadAdded(one), WorkspaceCommand::AddThread { workspace, thread }, steps);
            }
            Request::WorkspaceThreadRemove(one) => {
                let (workspace, thread) = (one.workspace_id.as_str().into(), one.thread_id.as_str().into());
                self.workspaces(
                    Pending::ThreadRemoved(one),
                    WorkspaceCommand::RemoveThread { workspace, thread },
                    steps,
                );
            }
        }
    }

    fn run(&mut self, mut run: wire::Run, steps: &mut Vec<Step>) {
        run.id = map::given(run.id);
        if let Some(id) = &run.id {
            if id.len() > wire::MAX_RUN_ID_BYTES {
                let problem = format!("id is longer than {} bytes", wire::MAX_RUN_ID_BYTES);
                return refuse(steps, Some(id), &problem);
            }
            let waits = self.waiting.iter().any(|waiting| waiting.id.as_ref() == Some(id));
            if waits || self.own_id().is_some_and(|own| **own == **id) {
                return refuse(steps, Some(id), &format!("a run of the id {id} is under way"));
            }
        }
        if self.own.is_none() {
            return self.start(run, steps);
        }
        if self.waiting.len() >= MAX_WAITING {
            let problem = format!("{MAX_WAITING} runs wait on this connection already");
            return refuse(steps, run.id.as_deref(), &problem);
        }
        self.waiting.push_back(run);
    }

    fn start(&mut self, run: wire::Run, steps: &mut Vec<Step>) {
        let Some(account) = self.account.clone() else { return };
        let id = run.id.as_deref().map(Into::into);
        let detached = run.detach.unwrap_or(false);
        if let Some(command) = map::thread_of(&run) {
            self.ask(Pending::Aside, command, steps);
        }
        let ticket = self.ask(Pending::Start, map::start(run, &account, self.model.clone()), steps);
        self.own = Some(OwnRun { id, detached, stage: Stage::Starting(ticket) });
    }

    /// The client's name for its own run, or the one it was told.
    fn own_id(&self) -> Option<&Arc<str>> {
        let given = self.own.as_ref()?.id.as_ref();
        let told = || self.follows.values().find(|follow| follow.relation == Relation::Own);
        given.or_else(|| told().map(|follow| follow.projection.id()))
    }

    fn own_ended(&mut self, ended: Ended, steps: &mut Vec<Step>) {
        self.own = None;
        if ended == Ended::Badly && self.close_on_error {
            self.waiting.clear();
            return steps.push(Step::Close { code: close::NORMAL, reason: "run failed" });
        }
        if let Some(next) = self.waiting.pop_front() {
            self.start(next, steps);
        }
    }

    /// Nothing is answered but the end of the run itself, which says that it was cancelled.
    fn cancel(&mut self, id: String, steps: &mut Vec<Step>) {
        if let Some(place) = self.waiting.iter().position(|run| run.id.as_ref() == Some(&id)) {
            self.waiting.remove(place);
            return refuse(steps, Some(&id), error::CANCELLED);
        }
        let is_own = self.own_id().is_some_and(|own| **own == *id);
        match self.own.as_ref().filter(|_| is_own).map(|own| own.stage) {
            Some(Stage::Starting(ticket)) => steps.push(Step::Withdraw(ticket)),
            Some(Stage::Running(run)) => {
                self.question(Pending::Cancel { id, relation: Relation::Own }, Command::CancelRun(run), steps);
            }
            None => {
                let command = map::find(&id);
                self.question(Pending::FindToCancel { id }, command, steps);
            }
        }
    }

    /// As `cancel`, and answered when the run has been told to stop.
    fn cancel_run(&mut self, request: wire::CancelRun, steps: &mut Vec<Step>) {
        let waits = self.waiting.iter().any(|run| run.id.as_ref() == Some(&request.run_id));
        let is_own = self.own_id().is_some_and(|own| **own == *request.run_id);
        match self.own.as_ref().filter(|_| is_own && !waits).map(|own| own.stage) {
            Some(Stage::Running(run)) => {
                self.question(Pending::CancelRun(request), Command::CancelRun(run), steps);
            }
            None if !waits => {
                let command = map::find(&request.run_id);
                self.question(Pending::FindToCancelRun(request), command, steps);
            }
            Some(Stage::Starting(_)) | None => {
                self.cancel(request.run_id.clone(), steps);
                steps.push(Step::Write(map::run_cancelled(&request.id, &request.run_id, self.dialogue)));
            }
        }
    }

    fn workspaces(&mut self, pending: Pending, command: WorkspaceCommand, steps: &mut Vec<Step>) {
        self.question(pending, Command::Workspaces(command), steps);
    }

    /// An answer is to a question of the run it names, whichever run has such a call.
    fn approve(&mut self, request: wire::ToolApprove, steps: &mut Vec<Step>) {
        let is_own = self.own_id().is_some_and(|own| **own == *request.id);
        match self.own.as_ref().filter(|_| is_own).map(|own| own.stage) {
            Some(Stage::Running(run)) => {
                let command = map::approve(run, &request);
                self.question(Pending::Approve { id: request.id }, command, steps);
            }
            Some(Stage::Starting(_)) | None => {
                let command = map::find(&request.id);
                self.question(Pending::FindToApprove(request), command, steps);
            }
        }
    }

    fn attach(&mut self, attach: wire::Attach, steps: &mut Vec<Step>) {
        let wire::Attach { id, after } = attach;
        let followed = self.follows.values().any(|follow| **follow.projection.id() == *id);
        let is_own = self.own_id().is_some_and(|own| **own == *id);
        let same = |asked: &Pending| matches!(asked, Pending::Attach { id: other, .. } if *other == id);
        if followed || is_own || self.asked.values().any(same) {
            return refuse(steps, Some(&id), "this connection follows the run already");
        }
        let command = map::find(&id);
        self.question(Pending::Attach { id, after: after.unwrap_or(0) }, command, steps);
    }

    /// As `ask`, within the bounds of a connection.
    fn question(&mut self, pending: Pending, command: Command, steps: &mut Vec<Step>) {
        if self.asked.len() + self.follows.len() >= MAX_UNDER_WAY {
            return refuse(steps, pending.id(), "too many requests are under way on this connection");
        }
        self.ask(pending, command, steps);
    }

    fn ask(&mut self, pending: Pending, command: Command, steps: &mut Vec<Step>) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.asked.insert(ticket, pending);
        steps.push(Step::Ask(ticket, command));
        ticket
    }

    /// Always from the beginning: only so are the numbers the same for everybody.
    fn follow(&mut self, run: RunId, projection: Projection, relation: Relation, steps: &mut Vec<Step>) {
        self.next += 1;
        let follow = FollowId(self.next);
        self.follows.insert(follow, Follow { projection, relation });
        let pace = match relation {
            Relation::Own => Pace::Sets,
            Relation::Attached => Pace::Free,
        };
        steps.push(Step::Follow { follow, topic: Topic::Run(run), from: Seq::FIRST, pace });
    }

    fn started(&mut self, answer: Result<Reply, BoardError>, steps: &mut Vec<Step>) {
        let id = self.own.as_ref().and_then(|own| own.id.clone());
        match answer {
            Ok(Reply::RunStarted(run)) => {
                if let Some(own) = &mut self.own {
                    own.stage = Stage::Running(run);
                }
                let id = id.unwrap_or_else(|| format!("run-{run}").into());
                let projection = Projection::new(id, 0, self.dialogue);
                self.follow(run, projection, Relation::Own, steps);
            }
            Ok(_) => {
                refuse(steps, id.as_deref(), UNEXPECTED);
                self.own_ended(Ended::Badly, steps);
            }
            Err(problem) => {
                refuse(steps, id.as_deref(), &error::text(&problem));
                let wanted = problem.kind == ErrorKind::Cancelled;
                self.own_ended(if wanted { Ended::AsWanted } else { Ended::Badly }, steps);
            }
        }
    }

    fn tools(&mut self, listed: Listed, pending: Pending, steps: &mut Vec<Step>) {
        let Pending::Tools { id, folder, wanted, pages } = pending else { return };
        let Listed { tools, next } = listed;
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
        self.ask(Pending::Tools { id, folder, wanted, pages: pages + 1 }, command, steps);
    }
}

const UNEXPECTED: &str = "internal error: unexpected answer";

struct Listed {
    tools: Vec<ToolSpec>,
    next: Option<patchboard_core::port::Cursor>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Completed, or cancelled by whoever could.
    AsWanted,
    Badly,
}

impl Pending {
    fn tools(id: String, folder: Option<String>, wanted: WantedTools) -> Self {
        Self::Tools { id, folder, wanted, pages: 0 }
    }

    /// What an answer to it is sent under.
    fn id(&self) -> Option<&str> {
        match self {
            Self::Start | Self::Aside => None,
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
            | Self::WorkspaceMade { id }
            | Self::Threads { id, .. }
            | Self::ThreadAdded(wire::WorkspaceThread { id, .. })
            | Self::ThreadRemoved(wire::WorkspaceThread { id, .. }) => Some(id),
        }
    }
}

impl Dialect for RunsDialect {
    fn opened(&mut self, identity: Option<Identity>, _now: Duration, steps: &mut Vec<Step>) {
        match identity {
            Some(identity) => self.account = Some(identity.principal),
            // Tokens are checked before a connection becomes a WebSocket.
            None => steps.push(Step::Close { code: close::POLICY, reason: "not signed in" }),
        }
    }

    fn text(&mut self, text: &str, _now: Duration, steps: &mut Vec<Step>) {
        self.request(Request::parse(text), steps);
    }

    fn binary(&mut self, bytes: &[u8], _now: Duration, steps: &mut Vec<Step>) {
        self.request(Request::parse_bytes(bytes), steps);
    }

    fn authenticated(&mut self, _identity: Option<Identity>, _now: Duration, _steps: &mut Vec<Step>) {}

    fn answered(&mut self, ticket: Ticket, answer: Result<Reply, BoardError>, _now: Duration, steps: &mut Vec<Step>) {
        let Some(pending) = self.asked.remove(&ticket) else { return };
        match (pending, answer) {
            (Pending::Start, answer) => self.started(answer, steps),
            (Pending::Attach { id, .. } | Pending::FindToCancel { id }, Ok(Reply::Run(run)))
                if !map::is_ours(&run.session) =>
            {
                refuse(steps, Some(&id), "run expired or unknown");
            }
            (Pending::Attach { id, after }, Ok(Reply::Run(run))) => {
                let projection = Projection::new(id.into(), after, self.dialogue);
                self.follow(run.run, projection, Relation::Attached, steps);
            }
            (Pending::FindToCancel { id }, Ok(Reply::Run(run))) => {
                let pending = Pending::Cancel { id, relation: Relation::Attached };
                self.ask(pending, Command::CancelRun(run.run), steps);
            }
            (Pending::FindToApprove(request), Ok(Reply::Run(run))) if map::is_ours(&run.session) => {
                let command = map::approve(run.run, &request);
                self.ask(Pending::Approve { id: request.id }, command, steps);
            }
            (Pending::FindToApprove(request), Ok(_)) => {
                refuse(steps, Some(&request.id), "tool_approve: run expired or unknown");
            }
            (Pending::Cancel { .. } | Pending::Approve { .. }, Ok(_)) => {}
            // It came to its end by itself in the meantime, and that end is told.
            (Pending::Cancel { relation: Relation::Own, .. }, Err(problem))
                if matches!(problem.kind, ErrorKind::NotFound | ErrorKind::Conflict) => {}
            (Pending::Approve { id } | Pending::FindToApprove(wire::ToolApprove { id, .. }), Err(problem)) => {
                refuse(steps, Some(&id), &format!("tool_approve: {}", error::text(&problem)));
            }
            (pending @ Pending::Tools { .. }, Ok(Reply::Tools(page))) => {
                self.tools(Listed { tools: page.items, next: page.next }, pending, steps);
            }
            (Pending::Messages { id, thread, wanted }, Ok(Reply::Messages { messages, has_more })) => {
                steps.push(Step::Write(map::messages(&id, &thread, &messages, has_more, wanted)));
            }
            (Pending::Agents { id, source }, Ok(Reply::Agents(agents))) => {
                steps.push(Step::Write(map::agents(&id, &agents, source.as_deref())));
            }
            (Pending::Aside, Ok(_)) => {}
            (Pending::Aside, Err(problem)) => {
                tracing::warn!(error = %problem, "a thread could not be put into its workspace");
            }
            (Pending::Models { id }, Ok(Reply::Models(report))) => {
                steps.push(Step::Write(map::models(&id, &report, self.dialogue)));
            }
            (Pending::SetModel { id, scope }, Ok(Reply::ModelSet(model))) => {
                if scope == ModelScope::Connection {
                    self.model = model;
                }
                steps.push(Step::Write(map::model_set(&id, None, self.dialogue)));
            }
            (Pending::SetModel { id, .. }, Err(problem)) => {
                steps.push(Step::Write(map::model_set(&id, Some(&error::text(&problem)), self.dialogue)));
            }
            (Pending::FindToCancelRun(request), Ok(Reply::Run(run))) if map::is_ours(&run.session) => {
                self.ask(Pending::CancelRun(request), Command::CancelRun(run.run), steps);
            }
            (Pending::FindToCancelRun(request), Ok(_)) => refuse(steps, Some(&request.id), "run expired or unknown"),
            (Pending::CancelRun(wire::CancelRun { id, run_id }), Ok(_)) => {
                steps.push(Step::Write(map::run_cancelled(&id, &run_id, self.dialogue)));
            }
            (Pending::Workspaces { id }, Ok(Reply::Workspaces(found))) => {
                steps.push(Step::Write(map::workspaces(&id, &found)));
            }
            (Pending::WorkspaceMade { id }, Ok(Reply::Workspace(made))) => {
                steps.push(Step::Write(map::workspace_made(&id, &made)));
            }
            (Pending::Threads { id, workspace }, Ok(Reply::WorkspaceThreads(found))) => {
                steps.push(Step::Write(map::threads(&id, &workspace, &found)));
            }
            (Pending::ThreadAdded(wire::WorkspaceThread { id, workspace_id, thread_id }), Ok(_)) => {
                let response =
                    Response::WorkspaceThreadAdd { id: &id, workspace_id: &workspace_id, thread_id: &thread_id };
                write(steps, &response);
            }
            (Pending::ThreadRemoved(wire::WorkspaceThread { id, workspace_id, thread_id }), Ok(_)) => {
                let response =
                    Response::WorkspaceThreadRemove { id: &id, workspace_id: &workspace_id, thread_id: &thread_id };
                write(steps, &response);
            }
            (pending, Err(problem)) => refuse(steps, pending.id(), &error::text(&problem)),
            (pending, Ok(_)) => refuse(steps, pending.id(), UNEXPECTED),
        }
    }

    fn observed(&mut self, follow: FollowId, envelope: &Envelope, _now: Duration, steps: &mut Vec<Step>) {
        let Some(followed) = self.follows.get_mut(&follow) else { return };
        let outcome = followed.projection.take(envelope, &mut |frame| steps.push(Step::Write(frame)));
        let Some(outcome) = outcome else { return };
        let relation = followed.relation;
        self.follows.remove(&follow);
        if relation == Relation::Own {
            self.own_ended(
                match outcome {
                    RunOutcome::Completed | RunOutcome::Cancelled => Ended::AsWanted,
                    RunOutcome::Failed | RunOutcome::Interrupted => Ended::Badly,
                },
                steps,
            );
        }
    }

    /// The events stopped before the run's end was told.
    fn follow_ended(&mut self, follow: FollowId, problem: Option<BoardError>, steps: &mut Vec<Step>) {
        let Some(Follow { projection, relation }) = self.follows.remove(&follow) else { return };
        if self.draining.is_cancelled() {
            // The run goes on in the next process, so its end is not ours to tell.
            return steps.push(Step::Close { code: close::GOING_AWAY, reason: "server is shutting down" });
        }
        let text = match problem {
            Some(problem) => error::text(&problem),
            None => "the run stopped without its end being recorded; see the server's log".to_owned(),
        };
        refuse(steps, Some(projection.id()), &text);
        if relation == Relation::Own {
            self.own_ended(Ended::Badly, steps);
        }
    }

    fn woke(&mut self, _now: Duration, _steps: &mut Vec<Step>) {}

    /// Runs that wait here never begin. One that has begun is cancelled when its client leaves, unless it was meant to
    /// go on, and is kept when the client merely was too slow.
    fn closed(&mut self, gone: Gone, steps: &mut Vec<Step>) {
        let Some(OwnRun { detached, stage, .. }) = self.own.take() else { return };
        self.next += 1;
        let ticket = Ticket(self.next);
        match (gone, stage) {
            (Gone::ByClient, Stage::Starting(start)) if !detached => steps.push(Step::Withdraw(start)),
            (Gone::ByClient | Gone::ByStall, Stage::Starting(start)) => steps.push(Step::SeeThrough(start)),
            (Gone::ByClient, Stage::Running(run)) if !detached => {
                steps.push(Step::Ask(ticket, Command::CancelRun(run)));
            }
            (Gone::ByStall, Stage::Running(run)) => steps.push(Step::Ask(ticket, Command::KeepRun(run))),
            (Gone::ByClient, Stage::Running(_)) | (Gone::ByServer, _) => {}
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
