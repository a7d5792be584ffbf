//! Runs and their approvals.

use std::sync::Arc;

use super::{Command, PageRequest, SessionRef};
use crate::conversation::ConversationOrigin;
use crate::event::InputAnswer;
use crate::id::{CallId, InputId, RunId};
use crate::reply::{PendingInput, RunSummary};
use crate::run_spec::ClientToolSpec;
use crate::store::ResultPage;

/// Longest user message in bytes; a longer one is refused.
pub const MAX_CONTENT: usize = 4 * 1024 * 1024;

/// Starts a run. Replies when it has started: its turn in the session's queue has come, its budget is reserved and it
/// is recorded. Cancelling the request cancels the run.
#[derive(Debug, Clone, PartialEq)]
pub struct StartRun {
    pub origin: ConversationOrigin,
    /// The user's words; the model receives them unchanged.
    pub content: Arc<str>,
    /// The client's id for this run.
    pub client_id: Arc<str>,
    /// Working folder of its tools.
    pub folder: FolderChoice,
    /// A model for this run only, instead of the agent's: `provider/model`, or a model of the agent's provider.
    pub model: Option<Arc<str>>,
    /// Tools that the client has. It runs them itself and gives their results with `AnswerInput`.
    pub client_tools: Vec<ClientToolSpec>,
    pub kind: RunKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunKind {
    /// A chat turn, answered by this configured agent, or by the one that the bindings select.
    Chat { agent: Option<Arc<str>> },
    /// An agent run: records its nodes, and is resumed after a crash.
    Agent(RunPlan),
}

impl RunKind {
    pub fn plan(&self) -> Option<&RunPlan> {
        match self {
            Self::Chat { .. } => None,
            Self::Agent(plan) => Some(plan),
        }
    }
}

/// Parameters of an agent run. An empty client id is generated, and an origin without a peer gets a conversation of its
/// own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlan {
    /// A configured agent, or a strategy, which runs with the default agent.
    pub agent: Arc<str>,
    /// The model if neither the run nor its thread has one; replaces the agent's own.
    pub default_model: Option<Arc<str>>,
    pub adaptive: bool,
    pub detach: bool,
    pub verbose: bool,
}

/// Replies with the id of the run; follow its topic from the first event.
impl Command for StartRun {
    type Reply = RunId;
    const SPAN: Option<&'static str> = Some("start_run");
}

/// Working folder of the tools of a run or call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FolderChoice {
    /// The configured folder.
    #[default]
    Configured,
    /// A folder beneath the configured roots.
    Named(String),
    /// A folder that the operator grants to this one run or call; it need not lie beneath a root.
    Granted(String),
}

impl FolderChoice {
    /// From request fields: a path, and whether the caller grants it.
    pub fn new(path: Option<String>, is_granted: bool) -> Self {
        match path {
            Some(path) if is_granted => Self::Granted(path),
            Some(path) => Self::Named(path),
            None => Self::Configured,
        }
    }

    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelRun(pub RunId);

impl Command for CancelRun {
    type Reply = ();
}

/// Lets a run continue without subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachRun(pub RunId);

impl Command for DetachRun {
    type Reply = ();
}

/// Finds the newest run that the reference matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindRun(pub RunRef);

impl Command for FindRun {
    type Reply = RunSummary;
}

/// Gives what a run waits for. The first answer wins; replies when it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerInput {
    pub input: InputRef,
    pub answer: InputAnswer,
}

impl Command for AnswerInput {
    type Reply = ();
}

/// The open approvals, client tool calls and questions that the caller may answer, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListInputs(pub PageRequest);

impl Command for ListInputs {
    type Reply = ResultPage<PendingInput>;
}

/// A client's reference to an open input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputRef {
    Id(InputId),
    /// By tool call, within the run that makes it.
    Call {
        run: RunId,
        call: CallId,
    },
}

/// A client's reference to a run it wants to follow again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunRef {
    /// By its own id. The connection counts as having joined the run, and may answer for it once the connection that
    /// started the run is gone.
    Id(RunId),
    /// The calling principal's newest run with that client id, which must be in the session if one is given.
    ClientId { id: Arc<str>, within: Option<SessionRef> },
    /// The session's newest run.
    Session(SessionRef),
}
