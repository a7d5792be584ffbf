//! Events of the board. Every event is numbered within its topic and stored before subscribers receive it.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::app::message::{AppResponse, MessageEvent};
use crate::id::{CallId, InputId, MessageId, NodeId, RunId, Seq, SessionKey};
use crate::model::{StopReason, TokenCount, ToolCall};
use crate::run_spec::NodeKey;
use crate::run_spec::finding::StrategyFinding;
use crate::run_spec::{ChatBriefing, RunSpec};
use crate::tool::ToolOutput;

pub mod fold;

/// A subject that can be followed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Topic {
    Run(RunId),
    Message(MessageId),
}

/// One stored record of the log. A record of `n` chunks takes the numbers `seq … seq + n - 1`.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    pub topic: Topic,
    pub seq: Seq,
    pub at: Timestamp,
    /// The node of the run in which it occurred; `None` in chat runs.
    pub node: Option<NodeId>,
    pub event: Event,
}

/// An event with its node, not numbered yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    pub node: Option<NodeId>,
    pub event: Event,
}

impl From<Event> for NewEvent {
    fn from(event: Event) -> Self {
        Self { node: None, event }
    }
}

impl Envelope {
    pub fn last_seq(&self) -> Seq {
        Seq(self.seq.0 + self.event.seq_count() - 1)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    RunStarted {
        session: SessionKey,
        agent: Arc<str>,
        /// What a chat turn needs to be continued by another process; `None` for other runs.
        chat: Option<Arc<ChatBriefing>>,
    },
    /// A chat turn goes on in another process. An agent run enters its open nodes again instead.
    RunResumed,
    /// The inputs of a resumable run; follows `RunStarted`. Such runs record their nodes too.
    RunBriefed(Arc<RunSpec>),
    /// A node was entered; the record carries its number. `is_reentry`: a crash interrupted its first entry.
    NodeEntered {
        key: NodeKey,
        name: Arc<str>,
        is_reentry: bool,
    },
    NodeLeft(NodeOutcome),
    /// Chunks of the answer as the model sent them, several to a record.
    AnswerText(TextChunks),
    /// Chunks of intermediate model output: plans, candidates, votes, results of tasks.
    DraftText(TextChunks),
    /// Chunks of the model's reasoning.
    ThoughtText(TextChunks),
    /// Chunks of a call's arguments as the model wrote them. `is_first`: the first record of that call.
    ToolArguments {
        call: CallId,
        name: Arc<str>,
        is_first: bool,
        pieces: TextChunks,
    },
    /// A model call of the node ended; the text records since the previous such event are its answer.
    ModelCallEnded(ModelCallOutcome),
    /// An intermediate result of a strategy.
    FindingRecorded(StrategyFinding),
    /// The intent to run a tool, recorded before it runs.
    ToolRequested(ToolCall),
    /// The same for a call that is already recorded, in `ModelCallEnded`.
    ToolStarted {
        call: CallId,
        name: Arc<str>,
    },
    /// Progress text of a running tool.
    ToolProgress {
        call: CallId,
        name: Arc<str>,
        pieces: TextChunks,
    },
    ToolFinished {
        call: CallId,
        output: ToolOutput,
    },
    /// The run waits for this.
    InputRequested(InputRequest),
    /// What a run waited for was provided, or nothing was.
    InputProvided {
        input: InputId,
        answer: InputAnswer,
        by: Arc<str>,
    },
    /// One per model call.
    ModelUsage(ModelCallUsage),
    /// Why the run is about to fail. `RunEnded` always follows.
    RunFailed {
        message: Arc<str>,
    },
    /// Always the last event, exactly once.
    RunEnded {
        outcome: RunOutcome,
    },
    /// A change of an utterance's delivery to apps.
    Message(MessageEvent),
}

impl Event {
    /// Number of sequence numbers the record takes. Never zero.
    pub fn seq_count(&self) -> u64 {
        match self {
            Self::AnswerText(pieces)
            | Self::DraftText(pieces)
            | Self::ThoughtText(pieces)
            | Self::ToolArguments { pieces, .. }
            | Self::ToolProgress { pieces, .. } => (pieces.len() as u64).max(1),
            // One per call, so that every call has a sequence number of its own on the wire.
            Self::ModelCallEnded(ModelCallOutcome::Completed { calls, .. }) => (calls.len() as u64).max(1),
            Self::RunStarted { .. }
            | Self::RunResumed
            | Self::RunBriefed(_)
            | Self::NodeEntered { .. }
            | Self::NodeLeft(_)
            | Self::ModelCallEnded(ModelCallOutcome::Failed(_))
            | Self::FindingRecorded(_)
            | Self::ToolStarted { .. }
            | Self::ToolRequested(_)
            | Self::ToolFinished { .. }
            | Self::InputRequested(_)
            | Self::InputProvided { .. }
            | Self::ModelUsage(_)
            | Self::RunFailed { .. }
            | Self::RunEnded { .. }
            | Self::Message(_) => 1,
        }
    }

    /// Approximate size of the record in memory.
    pub fn approximate_bytes(&self) -> usize {
        /// Ids, names and the record itself.
        const RECORD_OVERHEAD: usize = 256;
        RECORD_OVERHEAD
            + match self {
                Self::AnswerText(pieces)
                | Self::DraftText(pieces)
                | Self::ThoughtText(pieces)
                | Self::ToolArguments { pieces, .. }
                | Self::ToolProgress { pieces, .. } => pieces.text().len() + 4 * pieces.len(),
                Self::RunBriefed(briefing) => briefing.weight(),
                Self::ModelCallEnded(ModelCallOutcome::Completed { calls, .. }) => {
                    calls.iter().map(|call| RECORD_OVERHEAD + call.input.approximate_bytes()).sum()
                }
                Self::ModelCallEnded(ModelCallOutcome::Failed(message))
                | Self::NodeLeft(NodeOutcome::Failed(message)) => message.len(),
                Self::FindingRecorded(finding) => finding.weight(),
                Self::ToolFinished { output, .. } => output.content.len(),
                Self::ToolRequested(call) => call.input.approximate_bytes(),
                Self::InputRequested(request) => request.approximate_bytes(),
                Self::InputProvided { answer, .. } => answer.approximate_bytes(),
                Self::RunFailed { message } => message.len(),
                Self::Message(event) => approximate_message_bytes(event),
                Self::RunStarted { .. }
                | Self::RunResumed
                | Self::NodeEntered { .. }
                | Self::NodeLeft(NodeOutcome::Done | NodeOutcome::Interrupted)
                | Self::ToolStarted { .. }
                | Self::ModelUsage(_)
                | Self::RunEnded { .. } => 0,
            }
    }

    pub fn ends_topic(&self) -> bool {
        matches!(self, Self::RunEnded { .. })
    }
}

fn approximate_message_bytes(event: &MessageEvent) -> usize {
    match event {
        MessageEvent::Submitted(utterance) => utterance.text.len(),
        MessageEvent::Decided(decision) => decision.reason.len() + 128 * decision.candidates.len(),
        MessageEvent::Answered { response: AppResponse::Notice(notice), .. } => notice.title.len() + notice.body.len(),
        MessageEvent::Answered { response: AppResponse::Reject { reason }, .. } => {
            reason.as_ref().map_or(0, |reason| reason.len())
        }
        MessageEvent::Answered { response: AppResponse::Ack, .. }
        | MessageEvent::Sent { .. }
        | MessageEvent::Failed { .. }
        | MessageEvent::Parked { .. }
        | MessageEvent::Ended { .. }
        | MessageEvent::Reopened { .. } => 0,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunOutcome {
    Completed,
    Failed,
    Cancelled,
    /// The server process ended during the run.
    Interrupted,
}

/// The result of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeOutcome {
    Done,
    Failed(Arc<str>),
    /// The server process ended while the node was active; a resumed run enters it again.
    Interrupted,
}

/// The result of a model call.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelCallOutcome {
    Completed { stop: StopReason, calls: Vec<ToolCall> },
    Failed(Arc<str>),
}

/// Something that a run waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct InputRequest {
    pub input: InputId,
    pub kind: InputKind,
    pub expires_at: Timestamp,
    /// Who asks, if it is not the run's own agent: `plugin echo`, `agent planner`, `worker py-1`.
    pub asked_by: Option<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum InputKind {
    /// A person's consent to a call.
    Approval {
        call: ToolCall,
        /// The server process ended during the call: whether it took effect is unknown.
        may_have_run: bool,
    },
    /// The result of a tool that the client has, and runs itself.
    ClientToolCall(ToolCall),
    /// The answer to a question, which fits the schema if there is one.
    Question { call: CallId, message: Arc<str>, schema: Option<Arc<Value>> },
}

impl InputKind {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Approval { .. } => "approval",
            Self::ClientToolCall(_) => "tool_call",
            Self::Question { .. } => "question",
        }
    }
}

impl InputRequest {
    /// The call that waits, if it is one.
    pub fn call(&self) -> Option<&ToolCall> {
        match &self.kind {
            InputKind::Approval { call, .. } | InputKind::ClientToolCall(call) => Some(call),
            InputKind::Question { .. } => None,
        }
    }

    /// The id of the call that asks.
    pub fn asking_call(&self) -> &CallId {
        match &self.kind {
            InputKind::Approval { call, .. } | InputKind::ClientToolCall(call) => &call.id,
            InputKind::Question { call, .. } => call,
        }
    }

    /// Additional reason for an approval request, besides the policy; shown with every request.
    pub fn reason(&self) -> Option<String> {
        if let InputKind::Approval { call, may_have_run: true } = &self.kind {
            let name = &call.name;
            return Some(format!(
                "the server stopped while {name} was running: it may already have run. Approved, it runs once more; \
                 refused, it does not, and the agent is told that its outcome is not known"
            ));
        }
        None
    }

    fn approximate_bytes(&self) -> usize {
        match &self.kind {
            InputKind::Approval { call, .. } | InputKind::ClientToolCall(call) => call.input.approximate_bytes(),
            InputKind::Question { message, schema, .. } => {
                message.len() + schema.as_ref().map_or(0, |schema| crate::model::approximate_json_bytes(schema))
            }
        }
    }
}

/// How a run's waiting ended.
#[derive(Debug, Clone, PartialEq)]
pub enum InputAnswer {
    Approved,
    /// Approved, and so are further calls of the same kind in the session.
    ApprovedForSession,
    Refused,
    /// The result of the client's tool.
    ToolResult {
        content: Arc<str>,
        is_error: bool,
    },
    /// The answer to a question.
    Answered(Arc<Value>),
    /// No answer came in time.
    Expired,
    /// The run ended, or its caller gave up.
    Withdrawn,
}

impl InputAnswer {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::ApprovedForSession => "approved for the session",
            Self::Refused => "refused",
            Self::ToolResult { .. } => "result",
            Self::Answered(_) => "answered",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }

    pub fn is_approval(&self) -> bool {
        matches!(self, Self::Approved | Self::ApprovedForSession)
    }

    /// Whether it is an answer to such a request that somebody may give.
    pub fn fits(&self, kind: &InputKind) -> bool {
        match (self, kind) {
            (Self::Approved | Self::ApprovedForSession | Self::Refused, InputKind::Approval { .. })
            | (Self::ToolResult { .. }, InputKind::ClientToolCall(_))
            | (Self::Answered(_) | Self::Refused, InputKind::Question { .. }) => true,
            (
                Self::Approved
                | Self::ApprovedForSession
                | Self::Refused
                | Self::ToolResult { .. }
                | Self::Answered(_)
                | Self::Expired
                | Self::Withdrawn,
                _,
            ) => false,
        }
    }

    fn approximate_bytes(&self) -> usize {
        match self {
            Self::ToolResult { content, .. } => content.len(),
            Self::Answered(value) => crate::model::approximate_json_bytes(value),
            Self::Approved | Self::ApprovedForSession | Self::Refused | Self::Expired | Self::Withdrawn => 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelCallUsage {
    pub tokens: TokenCount,
    pub provider: Arc<str>,
    pub model: Arc<str>,
    /// True if the provider reported no figures and the count is an estimate.
    pub estimated: bool,
}

/// Many short strings in one allocation: streamed text must be delivered in the same chunks in which it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextChunks {
    text: String,
    ends: Vec<u32>,
}

impl TextChunks {
    /// Most text in one record; longer text takes several records.
    pub const MAX_BYTES: usize = 256 * 1024;

    pub fn of_single(piece: &str) -> Self {
        let mut pieces = Self::default();
        pieces.push(piece);
        pieces
    }

    pub fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    pub fn is_full(&self) -> bool {
        self.text.len() >= Self::MAX_BYTES
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All pieces joined.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// End offset of each chunk in `text`.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The inverse of `text` and `ends`; `None` unless the ends are ascending character boundaries up to the text's
    /// length.
    pub fn from_parts(text: String, ends: Vec<u32>) -> Option<Self> {
        let mut previous = 0;
        for &end in &ends {
            if end < previous || !text.is_char_boundary(end as usize) {
                return None;
            }
            previous = end;
        }
        (previous as usize == text.len()).then_some(Self { text, ends })
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| self.text.get(start as usize..end as usize).unwrap_or_default())
    }
}

impl<'a> FromIterator<&'a str> for TextChunks {
    fn from_iter<I: IntoIterator<Item = &'a str>>(pieces: I) -> Self {
        let mut collected = Self::default();
        for piece in pieces {
            collected.push(piece);
        }
        collected
    }
}
