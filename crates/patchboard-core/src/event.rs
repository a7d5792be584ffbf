//! What the board tells over time. Every event is numbered in its topic and stored before anyone hears of it.

use std::sync::Arc;

use jiff::Timestamp;

use crate::app::message::{MessageEvent, Response};
use crate::id::{ApprovalId, CallId, MessageId, NodeId, RunId, Seq, SessionKey};
use crate::model::{StopReason, TokenCount, ToolCall};
use crate::run::brief::Briefing;
use crate::run::finding::Finding;
use crate::run::strategy::NodeKey;
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
pub struct Entry {
    pub node: Option<NodeId>,
    pub event: Event,
}

impl From<Event> for Entry {
    fn from(event: Event) -> Self {
        Self { node: None, event }
    }
}

impl Envelope {
    pub fn last_seq(&self) -> Seq {
        Seq(self.seq.0 + self.event.width() - 1)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    RunStarted {
        session: SessionKey,
        agent: Arc<str>,
    },
    /// What a run that can be resumed was made from; follows `RunStarted`. Such runs tell of their nodes too.
    Briefed(Arc<Briefing>),
    /// A node was entered; the record carries its number. `again`: its first entry was cut short by a crash.
    NodeEntered {
        key: NodeKey,
        name: Arc<str>,
        again: bool,
    },
    NodeLeft(NodeOutcome),
    /// Pieces of the answer as the model sent them, several to a record.
    Text(Pieces),
    /// Pieces of what the model wrote on the way to the answer: plans, candidates, votes, results of tasks.
    Draft(Pieces),
    /// Pieces of the model's reasoning.
    Thought(Pieces),
    /// Pieces of a call's arguments as the model wrote them. `begins`: the first record of that call.
    Arguments {
        call: CallId,
        name: Arc<str>,
        begins: bool,
        pieces: Pieces,
    },
    /// A model call of the node came to its end; the words before it, back to the last such event, are its answer.
    Answered(Answered),
    /// What a strategy found out.
    Found(Finding),
    /// The intent to run a tool, on record before it runs.
    ToolRequested(ToolCall),
    /// The same where the call itself is already on record, in `Answered`.
    ToolStarted {
        call: CallId,
        name: Arc<str>,
    },
    /// What a tool says while it works.
    ToolSaid {
        call: CallId,
        name: Arc<str>,
        pieces: Pieces,
    },
    ToolFinished {
        call: CallId,
        output: ToolOutput,
    },
    ApprovalWanted(ApprovalRequest),
    ApprovalSettled {
        approval: ApprovalId,
        approved: bool,
        by: Arc<str>,
    },
    /// One per model call.
    Usage(UsageNote),
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
    pub fn width(&self) -> u64 {
        match self {
            Self::Text(pieces)
            | Self::Draft(pieces)
            | Self::Thought(pieces)
            | Self::Arguments { pieces, .. }
            | Self::ToolSaid { pieces, .. } => (pieces.len() as u64).max(1),
            // One for each call, so that every call can be told under a number of its own.
            Self::Answered(Answered::Whole { calls, .. }) => (calls.len() as u64).max(1),
            Self::RunStarted { .. }
            | Self::Briefed(_)
            | Self::NodeEntered { .. }
            | Self::NodeLeft(_)
            | Self::Answered(Answered::Failed(_))
            | Self::Found(_)
            | Self::ToolStarted { .. }
            | Self::ToolRequested(_)
            | Self::ToolFinished { .. }
            | Self::ApprovalWanted(_)
            | Self::ApprovalSettled { .. }
            | Self::Usage(_)
            | Self::RunFailed { .. }
            | Self::RunEnded { .. }
            | Self::Message(_) => 1,
        }
    }

    /// About how many bytes the record takes in memory.
    pub fn weight(&self) -> usize {
        /// Ids, names and the record itself.
        const WRAPPING: usize = 256;
        WRAPPING
            + match self {
                Self::Text(pieces)
                | Self::Draft(pieces)
                | Self::Thought(pieces)
                | Self::Arguments { pieces, .. }
                | Self::ToolSaid { pieces, .. } => pieces.text().len() + 4 * pieces.len(),
                Self::Briefed(briefing) => briefing.weight(),
                Self::Answered(Answered::Whole { calls, .. }) => {
                    calls.iter().map(|call| WRAPPING + call.input.weight()).sum()
                }
                Self::Answered(Answered::Failed(message)) | Self::NodeLeft(NodeOutcome::Failed(message)) => {
                    message.len()
                }
                Self::Found(finding) => finding.weight(),
                Self::ToolFinished { output, .. } => output.content.len(),
                Self::ToolRequested(call) | Self::ApprovalWanted(ApprovalRequest { call, .. }) => call.input.weight(),
                Self::RunFailed { message } => message.len(),
                Self::Message(event) => message_weight(event),
                Self::RunStarted { .. }
                | Self::NodeEntered { .. }
                | Self::NodeLeft(NodeOutcome::Done | NodeOutcome::Interrupted)
                | Self::ToolStarted { .. }
                | Self::ApprovalSettled { .. }
                | Self::Usage(_)
                | Self::RunEnded { .. } => 0,
            }
    }

    pub fn is_last(&self) -> bool {
        matches!(self, Self::RunEnded { .. })
    }
}

fn message_weight(event: &MessageEvent) -> usize {
    match event {
        MessageEvent::Submitted(utterance) => utterance.text.len(),
        MessageEvent::Decided(decision) => decision.reason.len() + 128 * decision.candidates.len(),
        MessageEvent::Answered { response: Response::Notice(notice), .. } => notice.title.len() + notice.body.len(),
        MessageEvent::Answered { response: Response::Reject { reason }, .. } => {
            reason.as_ref().map_or(0, |reason| reason.len())
        }
        MessageEvent::Answered { response: Response::Ack, .. }
        | MessageEvent::Sent { .. }
        | MessageEvent::Failed { .. }
        | MessageEvent::Rested { .. }
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
pub enum Answered {
    Whole { stop: StopReason, calls: Vec<ToolCall> },
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
pub struct UsageNote {
    pub tokens: TokenCount,
    pub provider: Arc<str>,
    pub model: Arc<str>,
    /// True when the provider gave no figures and we had to count ourselves.
    pub estimated: bool,
}

/// Many short strings in one allocation: streamed text arrives in pieces and must leave in the same pieces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pieces {
    text: String,
    ends: Vec<u32>,
}

impl Pieces {
    /// A record never holds more text than this; longer text takes several records.
    pub const MAX_BYTES: usize = 256 * 1024;

    pub fn one(piece: &str) -> Self {
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

impl<'a> FromIterator<&'a str> for Pieces {
    fn from_iter<I: IntoIterator<Item = &'a str>>(pieces: I) -> Self {
        let mut collected = Self::default();
        for piece in pieces {
            collected.push(piece);
        }
        collected
    }
}
