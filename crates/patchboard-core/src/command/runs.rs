//! Runs and the approvals they ask for.

use std::sync::Arc;

use super::{Command, PageRequest, SessionRef};
use crate::conversation::ConversationOrigin;
use crate::id::{ApprovalId, CallId, RunId};
use crate::reply::{PendingApproval, RunSummary};
use crate::store::ResultPage;

/// Longest user message in bytes; a longer one is refused.
pub const MAX_CONTENT: usize = 4 * 1024 * 1024;

/// Starts a run. Answered when the run has started: its turn in the
/// session's queue has come, its budget is reserved and it is on record. Cancelling the request cancels the run.
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
    pub kind: RunKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunKind {
    /// A turn of a chat. A configured agent answers it: this one, or the one that the bindings choose.
    Chat { agent: Option<Arc<str>> },
    /// An agent run: it records its nodes, and is resumed after a crash.
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

/// How an agent run works. Its client id, if empty, is generated, and an origin without a peer gets a conversation of its
/// own.
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

/// The id of the run; follow its topic from the first event.
impl Command for StartRun {
    type Reply = RunId;
    const SPAN: Option<&'static str> = Some("start_run");
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelRun(pub RunId);

impl Command for CancelRun {
    type Reply = ();
}

/// Lets a run continue without a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachRun(pub RunId);

impl Command for DetachRun {
    type Reply = ();
}

/// Finds the newest run that the reference names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindRun(pub RunRef);

impl Command for FindRun {
    type Reply = RunSummary;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerApproval {
    pub approval: ApprovalRef,
    pub approve: bool,
}

impl Command for AnswerApproval {
    type Reply = ();
}

/// The open approvals that the caller may answer, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListApprovals(pub PageRequest);

impl Command for ListApprovals {
    type Reply = ResultPage<PendingApproval>;
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

/// How a client names a run it wants to join again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunRef {
    /// The asking principal's newest run of that id, which must be of the session if one is named.
    ClientId { id: Arc<str>, within: Option<SessionRef> },
    /// The session's newest run.
    Session(SessionRef),
}
