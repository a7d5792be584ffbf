//! What the board tells over time. Every event is numbered in its topic and stored before anyone hears of it.

use std::sync::Arc;

use jiff::Timestamp;

use crate::app::message::{AppResponse, MessageEvent};
use crate::id::{ApprovalId, CallId, MessageId, NodeId, RunId, Seq, SessionKey};
use crate::model::{StopReason, TokenCount, ToolCall};
use crate::run_spec::NodeKey;
use crate::run_spec::RunSpec;
use crate::run_spec::finding::StrategyFinding;
use crate::tool::ToolOutput;

/// What can be followed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Topic {
    Run(RunId),
    Message(MessageId),
}

/// One stored record of the log. A record of `n` pieces takes the numbers `seq … seq + n - 1`.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    pub topic: Topic,
    pub seq: Seq,
    pub at: Timestamp,
    /// The node of the run it happened in; runs that only chat have none.
    pub node: Option<NodeId>,
    pub event: Event,
}

/// An event with its node, before it is numbered.
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
    },
    /// What a run that can be resumed was made from; follows `RunStarted`. Such runs tell of their nodes too.
    RunBriefed(Arc<RunSpec>),
    /// A node was entered; the record carries its number. `is_reentry`: a crash interrupted an earlier entry.
    NodeEntered {
        key: NodeKey,
        name: Arc<str>,
        is_reentry: bool,
    },
    NodeLeft(NodeOutcome),
    /// Pieces of the answer as the model sent them, several to a record.
    AnswerText(TextChunks),
    /// Pieces of what the model wrote on the way to the answer: plans, candidates, votes, results of tasks.
    DraftText(TextChunks),
    /// Pieces of the model's reasoning.
    ThoughtText(TextChunks),
    /// Pieces of a call's arguments as the model wrote them. `is_first`: the first record of that call.
    ToolArguments {
        call: CallId,
        name: Arc<str>,
        is_first: bool,
        pieces: TextChunks,
    },
    /// A model call of the node came to its end; the words before it, back to the last such event, are its answer.
    ModelCallEnded(ModelCallOutcome),
    /// What a strategy found out.
    FindingRecorded(StrategyFinding),
    /// The intent to run a tool, on record before it runs.
    ToolRequested(ToolCall),
    /// The same where the call itself is already on record, in `ModelCallEnded`.
    ToolStarted {
        call: CallId,
        name: Arc<str>,
    },
    /// What a tool says while it works.
    ToolProgress {
        call: CallId,
        name: Arc<str>,
        pieces: TextChunks,
    },
    ToolFinished {
        call: CallId,
        output: ToolOutput,
    },
    ApprovalRequested(ApprovalRequest),
    ApprovalResolved {
        approval: ApprovalId,
        approved: bool,
        by: Arc<str>,
    },
    /// One per model call.
    ModelUsage(ModelCallUsage),
    /// Why the run is about to end badly. `RunEnded` always follows.
    RunFailed {
        message: Arc<str>,
    },
    /// Always last, exactly once.
    RunEnded {
        outcome: RunOutcome,
    },
    /// What happened to an utterance on its way to apps.
    Message(MessageEvent),
}

impl Event {
    /// How many sequence numbers the record takes. Never zero.
    pub fn seq_count(&self) -> u64 {
        match self {
            Self::AnswerText(pieces)
            | Self::DraftText(pieces)
            | Self::ThoughtText(pieces)
            | Self::ToolArguments { pieces, .. }
            | Self::ToolProgress { pieces, .. } => (pieces.len() as u64).max(1),
            // One for each call, so that every call can be told under a number of its own.
            Self::ModelCallEnded(ModelCallOutcome::Completed { calls, .. }) => (calls.len() as u64).max(1),
            Self::RunStarted { .. }
            | Self::RunBriefed(_)
            | Self::NodeEntered { .. }
            | Self::NodeLeft(_)
            | Self::ModelCallEnded(ModelCallOutcome::Failed(_))
            | Self::FindingRecorded(_)
            | Self::ToolStarted { .. }
            | Self::ToolRequested(_)
            | Self::ToolFinished { .. }
            | Self::ApprovalRequested(_)
            | Self::ApprovalResolved { .. }
            | Self::ModelUsage(_)
            | Self::RunFailed { .. }
            | Self::RunEnded { .. }
            | Self::Message(_) => 1,
        }
    }

    /// About how many bytes the record takes in memory.
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
                Self::ToolRequested(call) | Self::ApprovalRequested(ApprovalRequest { call, .. }) => {
                    call.input.approximate_bytes()
                }
                Self::RunFailed { message } => message.len(),
                Self::Message(event) => approximate_message_bytes(event),
                Self::RunStarted { .. }
                | Self::NodeEntered { .. }
                | Self::NodeLeft(NodeOutcome::Done | NodeOutcome::Interrupted)
                | Self::ToolStarted { .. }
                | Self::ApprovalResolved { .. }
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
    /// The server died under it.
    Interrupted,
}

/// How a node came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeOutcome {
    Done,
    Failed(Arc<str>),
    /// The server died while it was at work; it is entered again if the run goes on.
    Interrupted,
}

/// How a model call came to its end.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelCallOutcome {
    Completed { stop: StopReason, calls: Vec<ToolCall> },
    Failed(Arc<str>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    pub approval: ApprovalId,
    pub call: ToolCall,
    pub expires_at: Timestamp,
    /// The server died while the call was at work: nobody knows whether it took effect.
    pub may_have_run: bool,
}

impl ApprovalRequest {
    /// Why a person is asked, where that is more than the policy. Said wherever the question is.
    pub fn reason(&self) -> Option<String> {
        let name = &self.call.name;
        self.may_have_run.then(|| {
            format!(
                "the server stopped while {name} was running: it may already have run. Approved, it runs once more; \
                 refused, it does not, and the agent is told that its outcome is not known"
            )
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelCallUsage {
    pub tokens: TokenCount,
    pub provider: Arc<str>,
    pub model: Arc<str>,
    /// True when the provider gave no figures and we had to count ourselves.
    pub estimated: bool,
}

/// Many short strings in one allocation: streamed text arrives in pieces and must leave in the same pieces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextChunks {
    text: String,
    ends: Vec<u32>,
}

impl TextChunks {
    /// A record never holds more text than this; longer text takes several records.
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

    /// Where each piece ends in `text`.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The inverse of `text` and `ends`; `None` when the ends do not cut the text at characters, in order.
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
