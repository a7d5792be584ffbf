//! Everything the board can be asked. Closed on purpose: one place to authorise, meter, forward and replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::app::message::{AppResponse, MessageState};
use crate::app::{AppProfile, InputMethod, TokenHash};
use crate::conversation::ConversationOrigin;
use crate::id::{ApprovalId, CallId, MessageId, RunId, Seq, SessionKey};
use crate::store::{PageCursor, SessionFilter, UsageGrouping};
use crate::tool::CallMetadata;
use crate::webhook::Webhook;
use crate::worker::{SessionConfig, WorkerId, WorkerTool};

#[derive(Debug, Clone)]
pub enum Command {
    /// Begins one agent run. Answered when the run has begun: after its turn in the session's queue came,
    /// its budget is reserved and it is on record. Cancelling the ask cancels the run.
    StartRun(StartRun),
    CancelRun(RunId),
    /// Lets a run go on although nobody listens.
    DetachRun(RunId),
    FindRun(RunRef),
    AnswerApproval {
        approval: ApprovalRef,
        approve: bool,
    },
    ListApprovals(PageRequest),
    ListSessions {
        filter: SessionFilter,
        page: PageRequest,
    },
    ReadHistory {
        session: SessionRef,
        page: PageRequest,
    },
    ClearSession {
        session: SessionRef,
        purge: bool,
    },
    SearchMemory {
        channel: String,
        account: String,
        query: String,
        page: PageRequest,
    },
    BudgetStatus {
        session: Option<SessionRef>,
    },
    UsageReport {
        since: Option<Timestamp>,
        group_by: UsageGrouping,
        page: PageRequest,
    },
    /// The messages of a runs thread, newest first cut, oldest first told.
    ReadMessages {
        session: SessionRef,
        before: Option<u64>,
        limit: usize,
    },
    /// All tools there are for work in that folder (or the configured one).
    ListTools {
        folder: Option<String>,
        page: PageRequest,
    },
    /// Calls one tool for the caller itself, on the path of every call. Cancelling the ask stops the tool.
    CallTool(CallTool),
    /// Offers from now on what an MCP server has, although it has changed since it was last approved.
    ApproveTools {
        server: String,
    },
    ListAgents,
    /// The models a run can be given; the default is that of the agent, or of the default one.
    ListModels {
        agent: Option<Arc<str>>,
    },
    /// Checks that a run can have that model and keeps it with the thread, if one is named, for its later runs. An
    /// empty name stands for the agent's own.
    SetModel {
        thread: Option<ConversationOrigin>,
        model: Arc<str>,
    },
    /// Each principal has its own.
    Workspaces(WorkspaceCommand),
    ListPlugins,
    /// Reads a plugin's file anew: a plugin's name, or the path of its file.
    LoadPlugin {
        named: String,
    },
    /// Takes over a version that wants more than was approved before.
    ApprovePlugin {
        name: String,
    },
    UnloadPlugin {
        name: String,
    },
    /// Takes what another service posted to a channel, its signature checked. Answered when what it says is on record
    /// or, where somebody waits for it, when the agent has answered.
    ReceiveWebhook {
        channel: Arc<str>,
        webhook: Webhook,
    },
    DescribeNode,
    /// What the operator wants to know of the server as a whole.
    DescribeServer,
    /// Reads the configuration anew and takes over what can change while the server works.
    ReloadSettings,
    /// Opens a program's session, or goes on with it: what is not given stays as it was.
    OpenSession(OpenSession),
    /// Ends a program's session with all that is kept in it.
    CloseSession {
        id: Arc<str>,
    },
    DescribeSession {
        id: Arc<str>,
    },
    /// Is there such a session? Asked by a client, that is a use of it.
    TouchSession {
        id: Arc<str>,
    },
    /// Tools of a program, under a session or, said by a worker of a pool, of that worker.
    RegisterTools(RegisterTools),
    /// The tool a program would reach by that name in its session.
    FindTool {
        session: Arc<str>,
        name: Arc<str>,
        reach: ToolFilter,
    },
    /// The server's own tools that programs may call.
    ListHostTools {
        session: Arc<str>,
    },
    /// Calls a tool for a program, on the path of every call. Cancelling the ask stops the tool.
    CallInSession(CallInSession),
    /// Pools, their workers and what they do.
    ListWorkers,
    /// Takes what a user said. Answered when it is on record and, where that needs nobody else, on its way.
    SubmitMessage(SubmitMessage),
    ReadMessage {
        message: MessageId,
        /// Answer only when there is something newer than this record, or when the ask is cancelled.
        newer_than: Option<Seq>,
    },
    /// Newest first.
    ListMessages {
        state: Option<MessageState>,
        page: PageRequest,
    },
    /// Sends it once more: to that app, or to whoever fits. Naming an app corrects the routing, which learns from it.
    ResendMessage {
        message: MessageId,
        app: Option<Arc<str>>,
    },
    CancelMessage(MessageId),
    /// How a text would be routed now, without sending it anywhere.
    ExplainRouting {
        text: Arc<str>,
    },
    /// Makes the asking connection the app of that name. A name whose connection gives no sign of life is taken over.
    RegisterApp(RegisterApp),
    /// Waits for the next thing meant for the asking connection's app.
    NextInboxEvent,
    /// The asking connection's app is alive, as it was asked to prove.
    ConfirmAppAlive,
    /// The asking connection's app goes. What it has not answered is brought to others at once.
    DeregisterApp,
    /// What the asking connection's app has to say to a message.
    AnswerMessage {
        message: MessageId,
        response: AppResponse,
    },
    /// Those connected, then those known from before.
    ListApps,
    /// Lets an app register that was refused because nobody knew it.
    ApproveApp {
        app: Arc<str>,
    },
    /// From now on that app registers with the token of this hash; an earlier one stops working.
    PairApp {
        app: Arc<str>,
        token: TokenHash,
    },
    /// Forgets what was learned about the app and, with `unpair`, that it was ever known.
    ForgetApp {
        app: Arc<str>,
        unpair: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct SubmitMessage {
    /// The user's words; they reach the app unchanged, but for the name it was addressed by.
    pub text: Arc<str>,
    pub input: InputMethod,
    pub confidence: Option<f32>,
    /// Deliver to this app and to no other.
    pub only_app: Option<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RegisterApp {
    pub profile: AppProfile,
    /// Of the token it showed.
    pub token: Option<TokenHash>,
    /// The web origin it connected from.
    pub origin: Option<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRun {
    pub origin: ConversationOrigin,
    /// The user's words; they reach the model unchanged.
    pub content: Arc<str>,
    /// What the client calls this run.
    pub client_id: Arc<str>,
    /// Where its tools work.
    pub folder: FolderChoice,
    /// Another model than the agent's, for this run only: `provider/model`, or a model of the agent's provider.
    pub model: Option<Arc<str>>,
    /// Who answers a turn of a chat, where it is not left to the bindings: a configured agent. A run's plan names its own.
    pub agent: Option<Arc<str>>,
    /// Set for an agent run, left out for a turn of a chat.
    /// Boxed, because every command takes the room of the largest one.
    pub plan: Option<Box<RunPlan>>,
}

/// The folder in which the tools of a run or call work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FolderChoice {
    /// The folder of the configuration.
    #[default]
    Configured,
    /// A folder beneath the configured roots.
    Named(String),
    /// A folder that the operator grants to this one run or call; it need not lie beneath a root.
    Granted(String),
}

impl FolderChoice {
    /// As requests say it: a path, and whether the caller grants it.
    pub fn new(named: Option<String>, is_granted: bool) -> Self {
        match named {
            Some(named) if is_granted => Self::Granted(named),
            Some(named) => Self::Named(named),
            None => Self::Configured,
        }
    }

    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }
}

/// What an agent run is besides a turn of a chat: it names its agent or strategy, tells of its nodes,
/// and is resumed when the server dies under it. An empty `client_id` is filled in, and an origin without a peer gets a
/// conversation of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlan {
    /// A strategy (then the default agent's) or a configured agent.
    pub agent: Arc<str>,
    /// Instead of the agent's own, where neither the run nor its thread has a model.
    pub default_model: Option<Arc<str>>,
    pub adaptive: bool,
    pub detach: bool,
    pub verbose: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceCommand {
    List,
    Create {
        /// A new name is made up if there is none.
        name: Option<Arc<str>>,
    },
    ListThreads {
        workspace: Arc<str>,
    },
    /// Adding twice, or taking out what is not in it, changes nothing.
    AddThread {
        workspace: Arc<str>,
        thread: Arc<str>,
    },
    RemoveThread {
        workspace: Arc<str>,
        thread: Arc<str>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct CallTool {
    pub name: Arc<str>,
    pub arguments: Arc<Value>,
    pub folder: FolderChoice,
    /// Whose todos and facts the tool sees.
    pub origin: ConversationOrigin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    pub id: Arc<str>,
    /// Empty: as it was.
    pub metadata: BTreeMap<String, String>,
    pub config: Option<SessionConfig>,
    /// The worker that asks, on its own line.
    pub worker: Option<WorkerId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RegisterTools {
    pub session: Arc<str>,
    pub tools: Vec<WorkerTool>,
    /// What the program calls itself.
    pub client_name: Arc<str>,
    /// The worker that asks, on its own line.
    pub worker: Option<WorkerId>,
}

/// Which tools a program means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFilter {
    /// Those of workers and those of the server.
    All,
    /// Those of the server.
    ServerTools,
    /// Those that hand over their result piece by piece.
    Streaming,
}

#[derive(Debug, Clone)]
pub struct CallInSession {
    pub name: Arc<str>,
    pub arguments: Arc<Value>,
    pub filter: ToolFilter,
    /// Names the session.
    pub metadata: CallMetadata,
}

/// How a client names an open question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalRef {
    Id(ApprovalId),
    /// By the call it is about, in the run that makes it.
    Call {
        run: RunId,
        call: CallId,
    },
}

/// A session named by its key, or by where it comes from (then routing finds its agent).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRef {
    Key(SessionKey),
    Origin(ConversationOrigin),
}

/// How a client names a run it wants to join again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunRef {
    /// The asking principal's newest run of that id, which must be of the session if one is named.
    ClientId { id: Arc<str>, within: Option<SessionRef> },
    /// The session's newest run.
    Session(SessionRef),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    pub limit: usize,
    pub cursor: Option<PageCursor>,
}

impl PageRequest {
    pub const DEFAULT_LIMIT: usize = 50;
    /// A larger limit is cut to this, not refused.
    pub const MAX_LIMIT: usize = 500;

    pub fn new(limit: Option<usize>, cursor: Option<PageCursor>) -> Self {
        Self { limit: limit.unwrap_or(Self::DEFAULT_LIMIT).clamp(1, Self::MAX_LIMIT), cursor }
    }
}

/// Longest user message in bytes; a longer one is refused.
pub const MAX_CONTENT: usize = 4 * 1024 * 1024;
