//! Version 2, frozen: add a `v3.rs` instead of editing a shape here. An entry is an event with the node it happened
//! in; kinds of version 1 keep their shape, new kinds stand beside them.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::v1;
use crate::agent;
use crate::app::message::MessageEvent;
use crate::error::BoxError;
use crate::event;
use crate::id::{CallId, NodeId};
use crate::model::{self, StopReason};
use crate::run::brief;
use crate::run::finding;
use crate::run::strategy::NodeKey;

#[derive(Serialize, Deserialize)]
pub(super) struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
    event: Stored,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stored {
    V1(v1::Event),
    V2(Event),
}

/// Kinds that version 1 does not have.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    Briefed(Box<Briefing>),
    NodeEntered { key: u32, name: Arc<str>, again: bool },
    NodeLeft(NodeOutcome),
    Draft { text: String, ends: Vec<u32> },
    Arguments { call: Arc<str>, name: Arc<str>, begins: bool, text: String, ends: Vec<u32> },
    Answered(Answered),
    Found(Finding),
    ToolStarted { call: Arc<str>, name: Arc<str> },
    ToolSaid { call: Arc<str>, name: Arc<str>, text: String, ends: Vec<u32> },
}

#[derive(Serialize, Deserialize)]
pub(super) struct Briefing {
    client_id: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<Arc<str>>,
    agent_asked: Arc<str>,
    strategy: Strategy,
    adaptive: bool,
    detached: bool,
    verbose: bool,
    /// A path that is no UTF-8 loses the bytes that are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    folder_granted: bool,
    origin: Origin,
    message: Arc<str>,
    system: Arc<str>,
    history: Vec<v1::Message>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Strategy {
    React,
    Dup,
    Tot,
    Got,
}

#[derive(Serialize, Deserialize)]
struct Origin {
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
pub(super) enum NodeOutcome {
    Done,
    Failed(Arc<str>),
    Interrupted,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answered {
    Whole { stop: Stop, calls: Vec<v1::ToolCall> },
    Failed(Arc<str>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stop {
    EndOfTurn,
    ToolCalls,
    MaxTokens,
    Refused,
}

type Edge = (Arc<str>, Arc<str>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Finding {
    Understood { goal: Arc<str>, constraints: Vec<Arc<str>>, context: Arc<str> },
    Expanded { depth: u32, candidates: Vec<Arc<str>> },
    Evaluated { chosen: u32, scores: Vec<f32> },
    Backtracked { reason: Arc<str>, to_depth: u32 },
    Planned { tasks: Vec<Task>, edges: Vec<Edge> },
    TaskStarted { task: Arc<str> },
    TaskCompleted { task: Arc<str>, result: Arc<str> },
    TaskFailed { task: Arc<str>, error: Arc<str> },
    TaskExpanded { task: Arc<str>, tasks: Vec<Task>, edges: Vec<Edge>, dropped: Vec<Edge> },
}

#[derive(Serialize, Deserialize)]
pub(super) struct Task {
    id: Arc<str>,
    description: Arc<str>,
}

impl Entry {
    pub(super) fn new(node: Option<NodeId>, event: Stored) -> Self {
        Self { node: node.map(|node| node.0), event }
    }
}

impl Stored {
    /// The one place that decides in which version's shape a kind is written. `Err` is a kind that this version does
    /// not have; the next one does.
    pub(super) fn of(event: &event::Event) -> Result<Self, &MessageEvent> {
        let text = |pieces: &event::Pieces| pieces.text().to_owned();
        let ends = |pieces: &event::Pieces| pieces.ends().to_vec();
        Ok(match event {
            event::Event::RunStarted { session, agent } => {
                Self::V1(v1::Event::RunStarted { session: session.to_string(), agent: agent.clone() })
            }
            event::Event::Text(pieces) => Self::V1(v1::Event::Text { text: text(pieces), ends: ends(pieces) }),
            event::Event::Thought(pieces) => Self::V1(v1::Event::Thought { text: text(pieces), ends: ends(pieces) }),
            event::Event::ToolRequested(call) => Self::V1(v1::Event::ToolRequested { call: call.into() }),
            event::Event::ToolFinished { call, output } => Self::V1(v1::Event::ToolFinished {
                call: call.0.clone(),
                content: output.content.clone(),
                is_error: output.is_error,
            }),
            event::Event::ApprovalWanted(request) => Self::V1(v1::Event::ApprovalWanted {
                approval: request.approval.to_string(),
                call: (&request.call).into(),
                expires_at: request.expires_at.to_string(),
                may_have_run: request.may_have_run,
            }),
            event::Event::ApprovalSettled { approval, approved, by } => Self::V1(v1::Event::ApprovalSettled {
                approval: approval.to_string(),
                approved: *approved,
                by: by.clone(),
            }),
            event::Event::Usage(note) => Self::V1(v1::Event::Usage {
                input: note.tokens.input,
                output: note.tokens.output,
                provider: note.provider.clone(),
                model: note.model.clone(),
                estimated: note.estimated,
            }),
            event::Event::RunFailed { message } => Self::V1(v1::Event::RunFailed { message: message.clone() }),
            event::Event::RunEnded { outcome } => Self::V1(v1::Event::RunEnded { outcome: (*outcome).into() }),
            event::Event::Briefed(briefing) => Self::V2(Event::Briefed(Box::new((&**briefing).into()))),
            event::Event::NodeEntered { key, name, again } => {
                Self::V2(Event::NodeEntered { key: key.0, name: name.clone(), again: *again })
            }
            event::Event::NodeLeft(outcome) => Self::V2(Event::NodeLeft(match outcome {
                event::NodeOutcome::Done => NodeOutcome::Done,
                event::NodeOutcome::Failed(message) => NodeOutcome::Failed(message.clone()),
                event::NodeOutcome::Interrupted => NodeOutcome::Interrupted,
            })),
            event::Event::Draft(pieces) => Self::V2(Event::Draft { text: text(pieces), ends: ends(pieces) }),
            event::Event::Arguments { call, name, begins, pieces } => Self::V2(Event::Arguments {
                call: call.0.clone(),
                name: name.clone(),
                begins: *begins,
                text: text(pieces),
                ends: ends(pieces),
            }),
            event::Event::Answered(answered) => Self::V2(Event::Answered(match answered {
                event::Answered::Whole { stop, calls } => {
                    Answered::Whole { stop: (*stop).into(), calls: calls.iter().map(v1::ToolCall::from).collect() }
                }
                event::Answered::Failed(message) => Answered::Failed(message.clone()),
            })),
            event::Event::Found(finding) => Self::V2(Event::Found(finding.into())),
            event::Event::ToolStarted { call, name } => {
                Self::V2(Event::ToolStarted { call: call.0.clone(), name: name.clone() })
            }
            event::Event::ToolSaid { call, name, pieces } => Self::V2(Event::ToolSaid {
                call: call.0.clone(),
                name: name.clone(),
                text: text(pieces),
                ends: ends(pieces),
            }),
            event::Event::Message(message) => return Err(message),
        })
    }
}

impl TryFrom<Entry> for event::Entry {
    type Error = BoxError;

    fn try_from(stored: Entry) -> Result<Self, BoxError> {
        let event = match stored.event {
            Stored::V1(event) => event.try_into()?,
            Stored::V2(event) => event.try_into()?,
        };
        Ok(Self { node: stored.node.map(NodeId), event })
    }
}

impl TryFrom<Event> for event::Event {
    type Error = BoxError;

    fn try_from(stored: Event) -> Result<Self, BoxError> {
        Ok(match stored {
            Event::Briefed(briefing) => Self::Briefed(Arc::new((*briefing).try_into()?)),
            Event::NodeEntered { key, name, again } => Self::NodeEntered { key: NodeKey(key), name, again },
            Event::NodeLeft(outcome) => Self::NodeLeft(match outcome {
                NodeOutcome::Done => event::NodeOutcome::Done,
                NodeOutcome::Failed(message) => event::NodeOutcome::Failed(message),
                NodeOutcome::Interrupted => event::NodeOutcome::Interrupted,
            }),
            Event::Draft { text, ends } => Self::Draft(v1::pieces(text, ends)?),
            Event::Arguments { call, name, begins, text, ends } => {
                Self::Arguments { call: CallId(call), name, begins, pieces: v1::pieces(text, ends)? }
            }
            Event::Answered(answered) => Self::Answered(match answered {
                Answered::Whole { stop, calls } => event::Answered::Whole {
                    stop: stop.into(),
                    calls: calls.into_iter().map(model::ToolCall::from).collect(),
                },
                Answered::Failed(message) => event::Answered::Failed(message),
            }),
            Event::Found(finding) => Self::Found(finding.into()),
            Event::ToolStarted { call, name } => Self::ToolStarted { call: CallId(call), name },
            Event::ToolSaid { call, name, text, ends } => {
                Self::ToolSaid { call: CallId(call), name, pieces: v1::pieces(text, ends)? }
            }
        })
    }
}

impl From<&brief::Briefing> for Briefing {
    fn from(briefing: &brief::Briefing) -> Self {
        let agent::Origin { channel, account, peer, guild, team } = briefing.origin.clone();
        Self {
            client_id: briefing.client_id.clone(),
            thread: briefing.thread.clone(),
            agent_asked: briefing.agent_asked.clone(),
            strategy: match briefing.strategy {
                agent::StrategyKind::React => Strategy::React,
                agent::StrategyKind::Dup => Strategy::Dup,
                agent::StrategyKind::Tot => Strategy::Tot,
                agent::StrategyKind::Got => Strategy::Got,
            },
            adaptive: briefing.adaptive,
            detached: briefing.detached,
            verbose: briefing.verbose,
            folder: briefing.folder.as_ref().map(|folder| folder.to_string_lossy().into_owned()),
            folder_granted: briefing.folder_granted,
            origin: Origin { channel, account, peer, guild, team },
            message: briefing.message.clone(),
            system: briefing.system.clone(),
            history: briefing.history.iter().map(v1::Message::from).collect(),
        }
    }
}

impl TryFrom<Briefing> for brief::Briefing {
    type Error = BoxError;

    fn try_from(stored: Briefing) -> Result<Self, BoxError> {
        let Origin { channel, account, peer, guild, team } = stored.origin;
        Ok(Self {
            client_id: stored.client_id,
            thread: stored.thread,
            agent_asked: stored.agent_asked,
            strategy: match stored.strategy {
                Strategy::React => agent::StrategyKind::React,
                Strategy::Dup => agent::StrategyKind::Dup,
                Strategy::Tot => agent::StrategyKind::Tot,
                Strategy::Got => agent::StrategyKind::Got,
            },
            adaptive: stored.adaptive,
            detached: stored.detached,
            verbose: stored.verbose,
            // Version 4 has it beside this.
            model: None,
            folder: stored.folder.map(|folder| Arc::from(Path::new(&folder))),
            folder_granted: stored.folder_granted,
            origin: agent::Origin { channel, account, peer, guild, team },
            message: stored.message,
            system: stored.system,
            history: stored.history.into_iter().map(model::Message::try_from).collect::<Result<_, _>>()?,
        })
    }
}

impl From<StopReason> for Stop {
    fn from(stop: StopReason) -> Self {
        match stop {
            StopReason::EndOfTurn => Self::EndOfTurn,
            StopReason::ToolCalls => Self::ToolCalls,
            StopReason::MaxTokens => Self::MaxTokens,
            StopReason::Refused => Self::Refused,
        }
    }
}

impl From<Stop> for StopReason {
    fn from(stored: Stop) -> Self {
        match stored {
            Stop::EndOfTurn => Self::EndOfTurn,
            Stop::ToolCalls => Self::ToolCalls,
            Stop::MaxTokens => Self::MaxTokens,
            Stop::Refused => Self::Refused,
        }
    }
}

impl From<&finding::Finding> for Finding {
    fn from(finding: &finding::Finding) -> Self {
        let tasks = |tasks: &[finding::Task]| {
            let stored = |task: &finding::Task| Task { id: task.id.clone(), description: task.description.clone() };
            tasks.iter().map(stored).collect()
        };
        match finding.clone() {
            finding::Finding::Understood { goal, constraints, context } => {
                Self::Understood { goal, constraints, context }
            }
            finding::Finding::Expanded { depth, candidates } => Self::Expanded { depth, candidates },
            finding::Finding::Evaluated { chosen, mut scores } => {
                // JSON has no other numbers; such a score says nothing anyway.
                scores.iter_mut().filter(|score| !score.is_finite()).for_each(|score| *score = 0.0);
                Self::Evaluated { chosen, scores }
            }
            finding::Finding::Backtracked { reason, to_depth } => Self::Backtracked { reason, to_depth },
            finding::Finding::Planned { tasks: planned, edges } => Self::Planned { tasks: tasks(&planned), edges },
            finding::Finding::TaskStarted { task } => Self::TaskStarted { task },
            finding::Finding::TaskCompleted { task, result } => Self::TaskCompleted { task, result },
            finding::Finding::TaskFailed { task, error } => Self::TaskFailed { task, error },
            finding::Finding::TaskExpanded { task, tasks: added, edges, dropped } => {
                Self::TaskExpanded { task, tasks: tasks(&added), edges, dropped }
            }
        }
    }
}

impl From<Finding> for finding::Finding {
    fn from(stored: Finding) -> Self {
        let tasks = |tasks: Vec<Task>| {
            tasks.into_iter().map(|Task { id, description }| finding::Task { id, description }).collect()
        };
        match stored {
            Finding::Understood { goal, constraints, context } => Self::Understood { goal, constraints, context },
            Finding::Expanded { depth, candidates } => Self::Expanded { depth, candidates },
            Finding::Evaluated { chosen, scores } => Self::Evaluated { chosen, scores },
            Finding::Backtracked { reason, to_depth } => Self::Backtracked { reason, to_depth },
            Finding::Planned { tasks: planned, edges } => Self::Planned { tasks: tasks(planned), edges },
            Finding::TaskStarted { task } => Self::TaskStarted { task },
            Finding::TaskCompleted { task, result } => Self::TaskCompleted { task, result },
            Finding::TaskFailed { task, error } => Self::TaskFailed { task, error },
            Finding::TaskExpanded { task, tasks: added, edges, dropped } => {
                Self::TaskExpanded { task, tasks: tasks(added), edges, dropped }
            }
        }
    }
}
