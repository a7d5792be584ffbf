//! Version 2, frozen: a new shape needs a new version in a file of its own. An entry is an event with the node it
//! happened in; kinds of version 1 keep their shape, new kinds are added to them.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::chat_run_events;
use crate::app::message::MessageEvent;
use crate::conversation;
use crate::error::BoxError;
use crate::event;
use crate::id::{CallId, NodeId};
use crate::model::{self, StopReason};
use crate::run_spec;
use crate::run_spec::NodeKey;
use crate::run_spec::finding;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredRunEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
    event: StoredRunEvent,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredRunEvent {
    V1(chat_run_events::StoredChatEvent),
    V2(StoredAgentEvent),
}

/// Kinds that version 1 does not have.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredAgentEvent {
    Briefed(Box<StoredBriefing>),
    NodeEntered { key: u32, name: Arc<str>, again: bool },
    NodeLeft(StoredNodeOutcome),
    Draft { text: String, ends: Vec<u32> },
    Arguments { call: Arc<str>, name: Arc<str>, begins: bool, text: String, ends: Vec<u32> },
    Answered(StoredModelOutcome),
    Found(StoredFinding),
    ToolStarted { call: Arc<str>, name: Arc<str> },
    ToolSaid { call: Arc<str>, name: Arc<str>, text: String, ends: Vec<u32> },
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredBriefing {
    client_id: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<Arc<str>>,
    agent_asked: Arc<str>,
    strategy: StoredStrategy,
    adaptive: bool,
    detached: bool,
    verbose: bool,
    /// Bytes that are not valid UTF-8 are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    folder_granted: bool,
    origin: StoredOrigin,
    message: Arc<str>,
    system: Arc<str>,
    history: Vec<chat_run_events::StoredModelMessage>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredStrategy {
    React,
    Dup,
    Tot,
    Got,
}

#[derive(Serialize, Deserialize)]
struct StoredOrigin {
    channel: String,
    account: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    guild: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    team: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredNodeOutcome {
    Done,
    Failed(Arc<str>),
    Interrupted,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredModelOutcome {
    Whole { stop: StoredStopReason, calls: Vec<chat_run_events::StoredToolCall> },
    Failed(Arc<str>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredStopReason {
    EndOfTurn,
    ToolCalls,
    MaxTokens,
    Refused,
}

type TaskEdge = (Arc<str>, Arc<str>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredFinding {
    Understood { goal: Arc<str>, constraints: Vec<Arc<str>>, context: Arc<str> },
    Expanded { depth: u32, candidates: Vec<Arc<str>> },
    Evaluated { chosen: u32, scores: Vec<f32> },
    Backtracked { reason: Arc<str>, to_depth: u32 },
    Planned { tasks: Vec<StoredTask>, edges: Vec<TaskEdge> },
    TaskStarted { task: Arc<str> },
    TaskCompleted { task: Arc<str>, result: Arc<str> },
    TaskFailed { task: Arc<str>, error: Arc<str> },
    TaskExpanded { task: Arc<str>, tasks: Vec<StoredTask>, edges: Vec<TaskEdge>, dropped: Vec<TaskEdge> },
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredTask {
    id: Arc<str>,
    description: Arc<str>,
}

impl StoredRunEntry {
    pub(super) fn new(node: Option<NodeId>, event: StoredRunEvent) -> Self {
        Self { node: node.map(|node| node.0), event }
    }
}

impl StoredRunEvent {
    /// The one place that decides which version's shape a kind is written in. `Err` is a kind that this version does
    /// not have; the next one does.
    pub(super) fn of(event: &event::Event) -> Result<Self, &MessageEvent> {
        let text = |pieces: &event::TextChunks| pieces.text().to_owned();
        let ends = |pieces: &event::TextChunks| pieces.ends().to_vec();
        Ok(match event {
            event::Event::RunStarted { session, agent } => Self::V1(chat_run_events::StoredChatEvent::RunStarted {
                session: session.to_string(),
                agent: agent.clone(),
            }),
            event::Event::AnswerText(pieces) => {
                Self::V1(chat_run_events::StoredChatEvent::Text { text: text(pieces), ends: ends(pieces) })
            }
            event::Event::ThoughtText(pieces) => {
                Self::V1(chat_run_events::StoredChatEvent::Thought { text: text(pieces), ends: ends(pieces) })
            }
            event::Event::ToolRequested(call) => {
                Self::V1(chat_run_events::StoredChatEvent::ToolRequested { call: call.into() })
            }
            event::Event::ToolFinished { call, output } => Self::V1(chat_run_events::StoredChatEvent::ToolFinished {
                call: call.0.clone(),
                content: output.content.clone(),
                is_error: output.is_error,
            }),
            event::Event::ApprovalRequested(request) => Self::V1(chat_run_events::StoredChatEvent::ApprovalWanted {
                approval: request.approval.to_string(),
                call: (&request.call).into(),
                expires_at: request.expires_at.to_string(),
                may_have_run: request.may_have_run,
            }),
            event::Event::ApprovalResolved { approval, approved, by } => {
                Self::V1(chat_run_events::StoredChatEvent::ApprovalSettled {
                    approval: approval.to_string(),
                    approved: *approved,
                    by: by.clone(),
                })
            }
            event::Event::ModelUsage(note) => Self::V1(chat_run_events::StoredChatEvent::Usage {
                input: note.tokens.input,
                output: note.tokens.output,
                provider: note.provider.clone(),
                model: note.model.clone(),
                estimated: note.estimated,
            }),
            event::Event::RunFailed { message } => {
                Self::V1(chat_run_events::StoredChatEvent::RunFailed { message: message.clone() })
            }
            event::Event::RunEnded { outcome } => {
                Self::V1(chat_run_events::StoredChatEvent::RunEnded { outcome: (*outcome).into() })
            }
            event::Event::RunBriefed(spec) => Self::V2(StoredAgentEvent::Briefed(Box::new((&**spec).into()))),
            event::Event::NodeEntered { key, name, is_reentry } => {
                Self::V2(StoredAgentEvent::NodeEntered { key: key.0, name: name.clone(), again: *is_reentry })
            }
            event::Event::NodeLeft(outcome) => Self::V2(StoredAgentEvent::NodeLeft(match outcome {
                event::NodeOutcome::Done => StoredNodeOutcome::Done,
                event::NodeOutcome::Failed(message) => StoredNodeOutcome::Failed(message.clone()),
                event::NodeOutcome::Interrupted => StoredNodeOutcome::Interrupted,
            })),
            event::Event::DraftText(pieces) => {
                Self::V2(StoredAgentEvent::Draft { text: text(pieces), ends: ends(pieces) })
            }
            event::Event::ToolArguments { call, name, is_first, pieces } => Self::V2(StoredAgentEvent::Arguments {
                call: call.0.clone(),
                name: name.clone(),
                begins: *is_first,
                text: text(pieces),
                ends: ends(pieces),
            }),
            event::Event::ModelCallEnded(outcome) => Self::V2(StoredAgentEvent::Answered(match outcome {
                event::ModelCallOutcome::Completed { stop, calls } => StoredModelOutcome::Whole {
                    stop: (*stop).into(),
                    calls: calls.iter().map(chat_run_events::StoredToolCall::from).collect(),
                },
                event::ModelCallOutcome::Failed(message) => StoredModelOutcome::Failed(message.clone()),
            })),
            event::Event::FindingRecorded(finding) => Self::V2(StoredAgentEvent::Found(finding.into())),
            event::Event::ToolStarted { call, name } => {
                Self::V2(StoredAgentEvent::ToolStarted { call: call.0.clone(), name: name.clone() })
            }
            event::Event::ToolProgress { call, name, pieces } => Self::V2(StoredAgentEvent::ToolSaid {
                call: call.0.clone(),
                name: name.clone(),
                text: text(pieces),
                ends: ends(pieces),
            }),
            event::Event::Message(message) => return Err(message),
        })
    }
}

impl TryFrom<StoredRunEntry> for event::NewEvent {
    type Error = BoxError;

    fn try_from(stored: StoredRunEntry) -> Result<Self, BoxError> {
        let event = match stored.event {
            StoredRunEvent::V1(event) => event.try_into()?,
            StoredRunEvent::V2(event) => event.try_into()?,
        };
        Ok(Self { node: stored.node.map(NodeId), event })
    }
}

impl TryFrom<StoredAgentEvent> for event::Event {
    type Error = BoxError;

    fn try_from(stored: StoredAgentEvent) -> Result<Self, BoxError> {
        Ok(match stored {
            StoredAgentEvent::Briefed(briefing) => Self::RunBriefed(Arc::new((*briefing).try_into()?)),
            StoredAgentEvent::NodeEntered { key, name, again } => {
                Self::NodeEntered { key: NodeKey(key), name, is_reentry: again }
            }
            StoredAgentEvent::NodeLeft(outcome) => Self::NodeLeft(match outcome {
                StoredNodeOutcome::Done => event::NodeOutcome::Done,
                StoredNodeOutcome::Failed(message) => event::NodeOutcome::Failed(message),
                StoredNodeOutcome::Interrupted => event::NodeOutcome::Interrupted,
            }),
            StoredAgentEvent::Draft { text, ends } => Self::DraftText(chat_run_events::decode_chunks(text, ends)?),
            StoredAgentEvent::Arguments { call, name, begins, text, ends } => Self::ToolArguments {
                call: CallId(call),
                name,
                is_first: begins,
                pieces: chat_run_events::decode_chunks(text, ends)?,
            },
            StoredAgentEvent::Answered(answered) => Self::ModelCallEnded(match answered {
                StoredModelOutcome::Whole { stop, calls } => event::ModelCallOutcome::Completed {
                    stop: stop.into(),
                    calls: calls.into_iter().map(model::ToolCall::from).collect(),
                },
                StoredModelOutcome::Failed(message) => event::ModelCallOutcome::Failed(message),
            }),
            StoredAgentEvent::Found(finding) => Self::FindingRecorded(finding.into()),
            StoredAgentEvent::ToolStarted { call, name } => Self::ToolStarted { call: CallId(call), name },
            StoredAgentEvent::ToolSaid { call, name, text, ends } => {
                Self::ToolProgress { call: CallId(call), name, pieces: chat_run_events::decode_chunks(text, ends)? }
            }
        })
    }
}

impl From<&run_spec::RunSpec> for StoredBriefing {
    fn from(spec: &run_spec::RunSpec) -> Self {
        let conversation::ConversationOrigin { channel, account, peer, guild, team } = spec.origin.clone();
        Self {
            client_id: spec.client_id.clone(),
            thread: spec.thread.clone(),
            agent_asked: spec.requested_agent.clone(),
            strategy: match spec.strategy {
                run_spec::StrategyKind::React => StoredStrategy::React,
                run_spec::StrategyKind::Dup => StoredStrategy::Dup,
                run_spec::StrategyKind::Tot => StoredStrategy::Tot,
                run_spec::StrategyKind::Got => StoredStrategy::Got,
            },
            adaptive: spec.adaptive,
            detached: spec.detached,
            verbose: spec.verbose,
            folder: spec.folder.as_ref().map(|folder| folder.to_string_lossy().into_owned()),
            folder_granted: spec.folder_granted,
            origin: StoredOrigin { channel, account, peer, guild, team },
            message: spec.message.clone(),
            system: spec.system.clone(),
            history: spec.history.iter().map(chat_run_events::StoredModelMessage::from).collect(),
        }
    }
}

impl TryFrom<StoredBriefing> for run_spec::RunSpec {
    type Error = BoxError;

    fn try_from(stored: StoredBriefing) -> Result<Self, BoxError> {
        let StoredOrigin { channel, account, peer, guild, team } = stored.origin;
        Ok(Self {
            client_id: stored.client_id,
            thread: stored.thread,
            requested_agent: stored.agent_asked,
            strategy: match stored.strategy {
                StoredStrategy::React => run_spec::StrategyKind::React,
                StoredStrategy::Dup => run_spec::StrategyKind::Dup,
                StoredStrategy::Tot => run_spec::StrategyKind::Tot,
                StoredStrategy::Got => run_spec::StrategyKind::Got,
            },
            adaptive: stored.adaptive,
            detached: stored.detached,
            verbose: stored.verbose,
            // Stored in version 4.
            model: None,
            folder: stored.folder.map(|folder| Arc::from(Path::new(&folder))),
            folder_granted: stored.folder_granted,
            origin: conversation::ConversationOrigin { channel, account, peer, guild, team },
            message: stored.message,
            system: stored.system,
            history: stored.history.into_iter().map(model::ModelMessage::try_from).collect::<Result<_, _>>()?,
        })
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

impl From<&finding::StrategyFinding> for StoredFinding {
    fn from(finding: &finding::StrategyFinding) -> Self {
        let tasks = |tasks: &[finding::PlannedTask]| {
            let stored =
                |task: &finding::PlannedTask| StoredTask { id: task.id.clone(), description: task.description.clone() };
            tasks.iter().map(stored).collect()
        };
        match finding.clone() {
            finding::StrategyFinding::Understood { goal, constraints, context } => {
                Self::Understood { goal, constraints, context }
            }
            finding::StrategyFinding::Expanded { depth, candidates } => Self::Expanded { depth, candidates },
            finding::StrategyFinding::Evaluated { chosen, mut scores } => {
                // JSON cannot hold NaN or infinity; such a score has no meaning anyway.
                scores.iter_mut().filter(|score| !score.is_finite()).for_each(|score| *score = 0.0);
                Self::Evaluated { chosen, scores }
            }
            finding::StrategyFinding::Backtracked { reason, to_depth } => Self::Backtracked { reason, to_depth },
            finding::StrategyFinding::Planned { tasks: planned, edges } => {
                Self::Planned { tasks: tasks(&planned), edges }
            }
            finding::StrategyFinding::TaskStarted { task } => Self::TaskStarted { task },
            finding::StrategyFinding::TaskCompleted { task, result } => Self::TaskCompleted { task, result },
            finding::StrategyFinding::TaskFailed { task, error } => Self::TaskFailed { task, error },
            finding::StrategyFinding::TaskExpanded { task, tasks: added, edges, dropped } => {
                Self::TaskExpanded { task, tasks: tasks(&added), edges, dropped }
            }
        }
    }
}

impl From<StoredFinding> for finding::StrategyFinding {
    fn from(stored: StoredFinding) -> Self {
        let tasks = |tasks: Vec<StoredTask>| {
            tasks.into_iter().map(|StoredTask { id, description }| finding::PlannedTask { id, description }).collect()
        };
        match stored {
            StoredFinding::Understood { goal, constraints, context } => Self::Understood { goal, constraints, context },
            StoredFinding::Expanded { depth, candidates } => Self::Expanded { depth, candidates },
            StoredFinding::Evaluated { chosen, scores } => Self::Evaluated { chosen, scores },
            StoredFinding::Backtracked { reason, to_depth } => Self::Backtracked { reason, to_depth },
            StoredFinding::Planned { tasks: planned, edges } => Self::Planned { tasks: tasks(planned), edges },
            StoredFinding::TaskStarted { task } => Self::TaskStarted { task },
            StoredFinding::TaskCompleted { task, result } => Self::TaskCompleted { task, result },
            StoredFinding::TaskFailed { task, error } => Self::TaskFailed { task, error },
            StoredFinding::TaskExpanded { task, tasks: added, edges, dropped } => {
                Self::TaskExpanded { task, tasks: tasks(added), edges, dropped }
            }
        }
    }
}
