//! The stored form of events: an entry is an event with the node in which it occurred.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::findings::StoredFinding;
use super::hub_message_events::StoredMessageEvent;
use super::inputs::{StoredInputAnswer, StoredInputRequest};
use super::model_messages::StoredToolCall;
use super::run_briefing::{StoredBriefing, StoredChatBriefing};
use crate::error::BoxError;
use crate::event;
use crate::id::{CallId, InputId, NodeId, SessionKey};
use crate::model::{self, StopReason, TokenCount};
use crate::run_spec::NodeKey;
use crate::tool::ToolOutput;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
    event: StoredEvent,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredEvent {
    RunStarted {
        session: String,
        agent: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chat: Option<Box<StoredChatBriefing>>,
    },
    RunResumed,
    RunBriefed(Box<StoredBriefing>),
    NodeEntered {
        key: u32,
        name: Arc<str>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_reentry: bool,
    },
    NodeLeft(StoredNodeOutcome),
    AnswerText(StoredChunks),
    DraftText(StoredChunks),
    ThoughtText(StoredChunks),
    ToolArguments {
        call: Arc<str>,
        name: Arc<str>,
        is_first: bool,
        text: String,
        ends: Vec<u32>,
    },
    ModelCallEnded(StoredModelOutcome),
    FindingRecorded(StoredFinding),
    ToolRequested(StoredToolCall),
    ToolStarted {
        call: Arc<str>,
        name: Arc<str>,
    },
    ToolProgress {
        call: Arc<str>,
        name: Arc<str>,
        text: String,
        ends: Vec<u32>,
    },
    ToolFinished {
        call: Arc<str>,
        content: Arc<str>,
        is_error: bool,
    },
    InputRequested(Box<StoredInputRequest>),
    InputProvided {
        input: String,
        answer: StoredInputAnswer,
        by: Arc<str>,
    },
    ModelUsage {
        input: u64,
        output: u64,
        provider: Arc<str>,
        model: Arc<str>,
        estimated: bool,
    },
    RunFailed {
        message: Arc<str>,
    },
    RunEnded {
        outcome: StoredRunOutcome,
    },
    Message(StoredMessageEvent),
}

#[derive(Serialize, Deserialize)]
struct StoredChunks {
    text: String,
    ends: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredRunOutcome {
    Completed,
    Failed,
    Cancelled,
    Interrupted,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredNodeOutcome {
    Done,
    Failed(Arc<str>),
    Interrupted,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredModelOutcome {
    Completed { stop: StoredStopReason, calls: Vec<StoredToolCall> },
    Failed(Arc<str>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredStopReason {
    EndOfTurn,
    ToolCalls,
    MaxTokens,
    Refused,
}

impl StoredEntry {
    pub(super) fn new(node: Option<NodeId>, event: &event::Event) -> Self {
        Self { node: node.map(|node| node.0), event: event.into() }
    }
}

impl TryFrom<StoredEntry> for event::NewEvent {
    type Error = BoxError;

    fn try_from(stored: StoredEntry) -> Result<Self, BoxError> {
        Ok(Self { node: stored.node.map(NodeId), event: stored.event.try_into()? })
    }
}

impl From<&event::Event> for StoredEvent {
    fn from(event: &event::Event) -> Self {
        let text = |pieces: &event::TextChunks| pieces.text().to_owned();
        let ends = |pieces: &event::TextChunks| pieces.ends().to_vec();
        match event {
            event::Event::RunStarted { session, agent, chat } => Self::RunStarted {
                session: session.to_string(),
                agent: agent.clone(),
                chat: chat.as_ref().map(|chat| Box::new((&**chat).into())),
            },
            event::Event::RunResumed => Self::RunResumed,
            event::Event::RunBriefed(spec) => Self::RunBriefed(Box::new((&**spec).into())),
            event::Event::NodeEntered { key, name, is_reentry } => {
                Self::NodeEntered { key: key.0, name: name.clone(), is_reentry: *is_reentry }
            }
            event::Event::NodeLeft(outcome) => Self::NodeLeft(match outcome {
                event::NodeOutcome::Done => StoredNodeOutcome::Done,
                event::NodeOutcome::Failed(message) => StoredNodeOutcome::Failed(message.clone()),
                event::NodeOutcome::Interrupted => StoredNodeOutcome::Interrupted,
            }),
            event::Event::AnswerText(pieces) => Self::AnswerText(pieces.into()),
            event::Event::DraftText(pieces) => Self::DraftText(pieces.into()),
            event::Event::ThoughtText(pieces) => Self::ThoughtText(pieces.into()),
            event::Event::ToolArguments { call, name, is_first, pieces } => Self::ToolArguments {
                call: call.0.clone(),
                name: name.clone(),
                is_first: *is_first,
                text: text(pieces),
                ends: ends(pieces),
            },
            event::Event::ModelCallEnded(outcome) => Self::ModelCallEnded(match outcome {
                event::ModelCallOutcome::Completed { stop, calls } => StoredModelOutcome::Completed {
                    stop: (*stop).into(),
                    calls: calls.iter().map(StoredToolCall::from).collect(),
                },
                event::ModelCallOutcome::Failed(message) => StoredModelOutcome::Failed(message.clone()),
            }),
            event::Event::FindingRecorded(finding) => Self::FindingRecorded(finding.into()),
            event::Event::ToolRequested(call) => Self::ToolRequested(call.into()),
            event::Event::ToolStarted { call, name } => Self::ToolStarted { call: call.0.clone(), name: name.clone() },
            event::Event::ToolProgress { call, name, pieces } => {
                Self::ToolProgress { call: call.0.clone(), name: name.clone(), text: text(pieces), ends: ends(pieces) }
            }
            event::Event::ToolFinished { call, output } => {
                Self::ToolFinished { call: call.0.clone(), content: output.content.clone(), is_error: output.is_error }
            }
            event::Event::InputRequested(request) => Self::InputRequested(Box::new(request.into())),
            event::Event::InputProvided { input, answer, by } => {
                Self::InputProvided { input: input.to_string(), answer: answer.into(), by: by.clone() }
            }
            event::Event::ModelUsage(usage) => Self::ModelUsage {
                input: usage.tokens.input,
                output: usage.tokens.output,
                provider: usage.provider.clone(),
                model: usage.model.clone(),
                estimated: usage.estimated,
            },
            event::Event::RunFailed { message } => Self::RunFailed { message: message.clone() },
            event::Event::RunEnded { outcome } => Self::RunEnded { outcome: (*outcome).into() },
            event::Event::Message(message) => Self::Message(message.into()),
        }
    }
}

impl TryFrom<StoredEvent> for event::Event {
    type Error = BoxError;

    fn try_from(stored: StoredEvent) -> Result<Self, BoxError> {
        Ok(match stored {
            StoredEvent::RunStarted { session, agent, chat } => Self::RunStarted {
                session: SessionKey::parse(&session).ok_or_else(|| format!("bad session key: {session}"))?,
                agent,
                chat: chat.map(|chat| Arc::new((*chat).into())),
            },
            StoredEvent::RunResumed => Self::RunResumed,
            StoredEvent::RunBriefed(briefing) => Self::RunBriefed(Arc::new((*briefing).try_into()?)),
            StoredEvent::NodeEntered { key, name, is_reentry } => {
                Self::NodeEntered { key: NodeKey(key), name, is_reentry }
            }
            StoredEvent::NodeLeft(outcome) => Self::NodeLeft(match outcome {
                StoredNodeOutcome::Done => event::NodeOutcome::Done,
                StoredNodeOutcome::Failed(message) => event::NodeOutcome::Failed(message),
                StoredNodeOutcome::Interrupted => event::NodeOutcome::Interrupted,
            }),
            StoredEvent::AnswerText(chunks) => Self::AnswerText(chunks.try_into()?),
            StoredEvent::DraftText(chunks) => Self::DraftText(chunks.try_into()?),
            StoredEvent::ThoughtText(chunks) => Self::ThoughtText(chunks.try_into()?),
            StoredEvent::ToolArguments { call, name, is_first, text, ends } => {
                let pieces = StoredChunks { text, ends }.try_into()?;
                Self::ToolArguments { call: CallId(call), name, is_first, pieces }
            }
            StoredEvent::ModelCallEnded(outcome) => Self::ModelCallEnded(match outcome {
                StoredModelOutcome::Completed { stop, calls } => event::ModelCallOutcome::Completed {
                    stop: stop.into(),
                    calls: calls.into_iter().map(model::ToolCall::from).collect(),
                },
                StoredModelOutcome::Failed(message) => event::ModelCallOutcome::Failed(message),
            }),
            StoredEvent::FindingRecorded(finding) => Self::FindingRecorded(finding.into()),
            StoredEvent::ToolRequested(call) => Self::ToolRequested(call.into()),
            StoredEvent::ToolStarted { call, name } => Self::ToolStarted { call: CallId(call), name },
            StoredEvent::ToolProgress { call, name, text, ends } => {
                Self::ToolProgress { call: CallId(call), name, pieces: StoredChunks { text, ends }.try_into()? }
            }
            StoredEvent::ToolFinished { call, content, is_error } => {
                Self::ToolFinished { call: CallId(call), output: ToolOutput { content, is_error, data: None } }
            }
            StoredEvent::InputRequested(request) => Self::InputRequested((*request).try_into()?),
            StoredEvent::InputProvided { input, answer, by } => {
                Self::InputProvided { input: input.parse::<InputId>()?, answer: answer.into(), by }
            }
            StoredEvent::ModelUsage { input, output, provider, model, estimated } => {
                let tokens = TokenCount { input, output };
                Self::ModelUsage(event::ModelCallUsage { tokens, provider, model, estimated })
            }
            StoredEvent::RunFailed { message } => Self::RunFailed { message },
            StoredEvent::RunEnded { outcome } => Self::RunEnded { outcome: outcome.into() },
            StoredEvent::Message(message) => Self::Message(message.try_into()?),
        })
    }
}

impl From<&event::TextChunks> for StoredChunks {
    fn from(pieces: &event::TextChunks) -> Self {
        Self { text: pieces.text().to_owned(), ends: pieces.ends().to_vec() }
    }
}

impl TryFrom<StoredChunks> for event::TextChunks {
    type Error = BoxError;

    fn try_from(StoredChunks { text, ends }: StoredChunks) -> Result<Self, BoxError> {
        Self::from_parts(text, ends).ok_or_else(|| "pieces do not fit their text".into())
    }
}

impl From<event::RunOutcome> for StoredRunOutcome {
    fn from(outcome: event::RunOutcome) -> Self {
        match outcome {
            event::RunOutcome::Completed => Self::Completed,
            event::RunOutcome::Failed => Self::Failed,
            event::RunOutcome::Cancelled => Self::Cancelled,
            event::RunOutcome::Interrupted => Self::Interrupted,
        }
    }
}

impl From<StoredRunOutcome> for event::RunOutcome {
    fn from(outcome: StoredRunOutcome) -> Self {
        match outcome {
            StoredRunOutcome::Completed => Self::Completed,
            StoredRunOutcome::Failed => Self::Failed,
            StoredRunOutcome::Cancelled => Self::Cancelled,
            StoredRunOutcome::Interrupted => Self::Interrupted,
        }
    }
}

impl From<StopReason> for StoredStopReason {
    fn from(stop: StopReason) -> Self {
        match stop {
            StopReason::EndOfTurn => Self::EndOfTurn,
            StopReason::ToolCalls => Self::ToolCalls,
            StopReason::MaxTokens => Self::MaxTokens,
            StopReason::Refused => Self::Refused,
        }
    }
}

impl From<StoredStopReason> for StopReason {
    fn from(stored: StoredStopReason) -> Self {
        match stored {
            StoredStopReason::EndOfTurn => Self::EndOfTurn,
            StoredStopReason::ToolCalls => Self::ToolCalls,
            StoredStopReason::MaxTokens => Self::MaxTokens,
            StoredStopReason::Refused => Self::Refused,
        }
    }
}
