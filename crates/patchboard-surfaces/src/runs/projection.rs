//! Projects a run's records onto the events its clients receive. A pure fold: the same records yield the same events
//! with the same numbers for every reader, so a client may disconnect after any event and resume later.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use patchboard_core::event::{
    Envelope, Event, InputKind, ModelCallOutcome, NodeOutcome, RunOutcome, TextChunks, Topic,
};
use patchboard_core::id::{CallId, NodeId};
use patchboard_core::model::{ToolCall, ToolInput};
use patchboard_core::run_spec::NodeKey;
use patchboard_core::run_spec::RunSpec;
use patchboard_core::run_spec::finding::StrategyFinding;
use patchboard_core::tool::ToolOutput;
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::event::{EventPayload, NodeResult, RunEnd};
use super::wire::{self, Response};
use event_writer::EventWriter;
use state::StateSnapshot;

mod checkpoint;
mod event_writer;
mod state;

/// Longest part of a task's result in its completion event; the state contains the whole result.
const SUMMARY_BYTES: usize = 200;
const ANSWER_SEPARATOR: &str = "\n\n";
/// Sent in place of an answer without text.
const EMPTY_ANSWER: &str = "The model answered with no text. Ask again, or choose another model.";

/// The event types a client understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientLevel {
    /// All event types.
    Full,
    /// Types that old clients do not know are wrapped in `custom`.
    Strict,
}

pub(super) struct Projection {
    writer: EventWriter,
    thread: Option<Arc<str>>,
    nodes: HashMap<NodeId, ActiveNode>,
    /// The most recently entered node.
    latest: Option<NodeId>,
    /// Answers of nodes that have not been left. An interrupted node is entered again under the same key and continues
    /// with its complete answers; partial ones are requested again.
    answers: HashMap<NodeKey, NodeAnswer>,
    /// Tool names by call.
    calls: HashMap<CallId, Arc<str>>,
    state: StateSnapshot,
    /// The complete answers addressed to the user, equal to the concatenated `message_chunk`s of the run.
    reply: String,
    /// Strategy `got`: the plan has a single task, whose text is the reply.
    is_single_task: bool,
    failure: Option<Arc<str>>,
}

#[derive(Clone)]
struct ActiveNode {
    key: NodeKey,
    name: Arc<str>,
    /// `run-<name>-<k>`
    id: Arc<str>,
    /// Text streamed since the last complete answer.
    partial_text: String,
    is_reply: bool,
}

#[derive(Default)]
struct NodeAnswer {
    text: String,
    is_reply: bool,
    calls: Vec<ToolCall>,
}

impl Projection {
    /// Events up to number `after` are counted but not sent. `id` is the client's id for the run, as far as it is
    /// known.
    pub(super) fn new(id: Arc<str>, after: u64, client_level: ClientLevel) -> Self {
        Self {
            writer: EventWriter::new(id, after, client_level),
            thread: None,
            nodes: HashMap::new(),
            latest: None,
            answers: HashMap::new(),
            calls: HashMap::new(),
            state: StateSnapshot::default(),
            reply: String::new(),
            is_single_task: false,
            failure: None,
        }
    }

    /// The client's id for the run; final once the run is briefed.
    pub(super) fn id(&self) -> &Arc<str> {
        self.writer.run()
    }

    /// Projects the run's next record and writes its events. Returns the outcome if the record ends the run.
    pub(super) fn project(&mut self, record: &Envelope, write: &mut dyn FnMut(String)) -> Option<RunOutcome> {
        let node = record.node.or(self.latest);
        match &record.event {
            // Messages have their own topics.
            Event::RunStarted { .. } | Event::RunResumed | Event::InputProvided { .. } | Event::Message(_) => {}
            Event::RunBriefed(spec) => self.briefed(spec, write),
            Event::NodeEntered { key, name, .. } => self.node_entered(record.node, *key, name, write),
            Event::NodeLeft(outcome) => self.node_left(node, outcome, write),
            Event::AnswerText(pieces) => self.text_added(node, pieces, ChunkKind::Reply, write),
            Event::DraftText(pieces) => self.text_added(node, pieces, ChunkKind::Draft, write),
            Event::ThoughtText(pieces) => self.thought(node, pieces, write),
            Event::ToolArguments { call, name, pieces, .. } => self.arguments(node, call, name, pieces, write),
            Event::ModelCallEnded(ModelCallOutcome::Completed { calls, .. }) => self.answered(node, calls, write),
            Event::ModelCallEnded(ModelCallOutcome::Failed(_)) => self.discard_partial_text(node),
            Event::FindingRecorded(finding) => self.found(node, finding, write),
            Event::ToolRequested(call) => {
                self.tool_called(node, call, write);
                self.tool_started(node, &call.id, &call.name, write);
            }
            Event::ToolStarted { call, name } => self.tool_started(node, call, name, write),
            Event::ToolProgress { call, name, pieces } => {
                for content in pieces.iter() {
                    let payload = EventPayload::ToolOutput { call_id: Some(&call.0), name, content };
                    self.writer.write_event(node_id(&self.nodes, node), &payload, write);
                }
            }
            Event::ToolFinished { call, output } => self.tool_finished(node, call, output, write),
            Event::InputRequested(request) => {
                // The protocol knows approvals only; other inputs are answered elsewhere.
                if let InputKind::Approval { call, .. } = &request.kind {
                    let payload = EventPayload::ToolApproval {
                        call_id: Some(&call.id.0),
                        name: &call.name,
                        arguments: arguments(call),
                        reason: request.reason(),
                    };
                    self.writer.write_event(node_id(&self.nodes, node), &payload, write);
                }
            }
            Event::ModelUsage(note) => {
                let usage = self.state.add_usage(note.tokens);
                self.writer.write_event(node_id(&self.nodes, node), &EventPayload::Usage(usage), write);
            }
            Event::RunFailed { message } => self.failure = Some(message.clone()),
            Event::RunEnded { outcome } => {
                self.ended(record, *outcome, write);
                return Some(*outcome);
            }
        }
        None
    }

    fn briefed(&mut self, spec: &Arc<RunSpec>, write: &mut dyn FnMut(String)) {
        self.writer.rename(spec.client_id.clone());
        self.thread.clone_from(&spec.thread);
        self.state = StateSnapshot::new(spec);
        let run_id = spec.client_id.clone();
        let payload = EventPayload::RunStart { run_id: &run_id, message: &spec.message, agent: &spec.requested_agent };
        self.writer.write_newer_event(node_id(&self.nodes, None), &payload, write);
    }

    fn node_entered(&mut self, node: Option<NodeId>, key: NodeKey, name: &Arc<str>, write: &mut dyn FnMut(String)) {
        let Some(number) = node else { return };
        let id = format!("run-{name}-{number}").into();
        let entry = ActiveNode { key, name: name.clone(), id, partial_text: String::new(), is_reply: false };
        self.nodes.insert(number, entry);
        self.latest = Some(number);
        self.writer.write_event(node_id(&self.nodes, node), &EventPayload::NodeEnter { id: name }, write);
    }

    fn node_left(&mut self, node: Option<NodeId>, outcome: &NodeOutcome, write: &mut dyn FnMut(String)) {
        self.discard_partial_text(node);
        let Some(exited) = node.and_then(|node| self.nodes.get(&node)).cloned() else { return };
        let result = match outcome {
            NodeOutcome::Done => NodeResult::Ok,
            NodeOutcome::Failed(error) => NodeResult::Err(error),
            NodeOutcome::Interrupted => NodeResult::Err("interrupted"),
        };
        self.writer.write_event(&exited.id, &EventPayload::NodeExit { id: &exited.name, result }, write);
        match outcome {
            NodeOutcome::Done => {
                let answer = self.answers.remove(&exited.key);
                self.node_done(&exited, answer, write);
            }
            // A failed node's partial answers are discarded.
            NodeOutcome::Failed(_) => drop(self.answers.remove(&exited.key)),
            NodeOutcome::Interrupted => {}
        }
    }

    fn node_done(&mut self, node: &ActiveNode, answer: Option<NodeAnswer>, write: &mut dyn FnMut(String)) {
        if let Some(answer) = answer {
            self.state.answered(&answer.text, answer.is_reply, &answer.calls);
        }
        self.state.node_left(&node.name);
        // Encoded once for both events, and not at all if the client has both.
        let state = self.writer.wants_next(2).then(|| self.state.encode());
        let state: &RawValue = state.as_deref().unwrap_or(RawValue::NULL);
        self.writer.write_event(&node.id, &EventPayload::Values { state }, write);
        self.writer.write_event(&node.id, &EventPayload::Updates { id: &node.name, state }, write);
    }

    /// Drafts are sent as thoughts, not as part of the reply.
    fn text_added(
        &mut self,
        node: Option<NodeId>,
        chunks: &TextChunks,
        kind: ChunkKind,
        write: &mut dyn FnMut(String),
    ) {
        let mut begins = true;
        if let Some(active) = node.and_then(|node| self.nodes.get_mut(&node)) {
            begins = active.partial_text.is_empty();
            active.partial_text.push_str(chunks.text());
            active.is_reply = kind == ChunkKind::Reply;
        }
        if kind == ChunkKind::Draft {
            return self.thought(node, chunks, write);
        }
        if begins && !chunks.text().is_empty() {
            self.separate_answers(node, write);
        }
        for content in chunks.iter() {
            self.write_message_chunk(node, content, write);
        }
    }

    fn write_message_chunk(&mut self, node: Option<NodeId>, content: &str, write: &mut dyn FnMut(String)) {
        let payload = EventPayload::MessageChunk { content, id: node_name(&self.nodes, node) };
        self.writer.write_event(node_id(&self.nodes, node), &payload, write);
    }

    /// Texts before and after a tool call become paragraphs of one reply.
    fn separate_answers(&mut self, node: Option<NodeId>, write: &mut dyn FnMut(String)) {
        if !self.reply.is_empty() {
            self.write_message_chunk(node, ANSWER_SEPARATOR, write);
        }
    }

    fn thought(&mut self, node: Option<NodeId>, chunks: &TextChunks, write: &mut dyn FnMut(String)) {
        for content in chunks.iter() {
            let payload = EventPayload::ThoughtChunk { content, id: node_name(&self.nodes, node) };
            self.writer.write_newer_event(node_id(&self.nodes, node), &payload, write);
        }
    }

    /// Every chunk names its call, because a client that resumes in between has not received the first one.
    fn arguments(
        &mut self,
        node: Option<NodeId>,
        call: &CallId,
        name: &Arc<str>,
        chunks: &TextChunks,
        write: &mut dyn FnMut(String),
    ) {
        for arguments_delta in chunks.iter() {
            let payload = EventPayload::ToolCallChunk { call_id: &call.0, name, arguments_delta };
            self.writer.write_event(node_id(&self.nodes, node), &payload, write);
        }
    }

    fn answered(&mut self, node: Option<NodeId>, calls: &[ToolCall], write: &mut dyn FnMut(String)) {
        if let Some(entry) = node.and_then(|node| self.nodes.get_mut(&node)) {
            let mut text = std::mem::take(&mut entry.partial_text);
            let name = entry.name.clone();
            let says_nothing = calls.is_empty() && text.trim().is_empty();
            let is_reply = entry.is_reply && !text.is_empty();
            let key = entry.key;
            if is_reply {
                self.add_to_reply(&text);
            }
            let is_empty = says_nothing && self.node_writes_answer(&name);
            if is_empty {
                self.separate_answers(node, write);
                self.write_message_chunk(node, EMPTY_ANSWER, write);
                self.add_to_reply(EMPTY_ANSWER);
                EMPTY_ANSWER.clone_into(&mut text);
            }
            let answer = self.answers.entry(key).or_default();
            *answer = NodeAnswer { is_reply: is_reply || is_empty, text, calls: calls.to_vec() };
        }
        for call in calls {
            self.tool_called(node, call, write);
        }
    }

    fn tool_called(&mut self, node: Option<NodeId>, call: &ToolCall, write: &mut dyn FnMut(String)) {
        self.calls.insert(call.id.clone(), call.name.clone());
        let payload =
            EventPayload::ToolCall { call_id: Some(&call.id.0), name: &call.name, arguments: arguments(call) };
        self.writer.write_event(node_id(&self.nodes, node), &payload, write);
    }

    fn add_to_reply(&mut self, text: &str) {
        if !self.reply.is_empty() {
            self.reply.push_str(ANSWER_SEPARATOR);
        }
        self.reply.push_str(text);
    }

    /// Whether the text of the named node is part of the reply.
    fn node_writes_answer(&self, name: &str) -> bool {
        match name {
            "think" | "plan" | "answer" | "aggregate" => true,
            "execute_graph" => self.is_single_task,
            _ => false,
        }
    }

    fn discard_partial_text(&mut self, node: Option<NodeId>) {
        if let Some(entry) = node.and_then(|node| self.nodes.get_mut(&node)) {
            entry.partial_text = String::new();
        }
    }

    fn tool_started(&mut self, node: Option<NodeId>, call: &CallId, name: &Arc<str>, write: &mut dyn FnMut(String)) {
        self.calls.insert(call.clone(), name.clone());
        self.state.tool_started(call, name);
        self.writer.write_event(
            node_id(&self.nodes, node),
            &EventPayload::ToolStart { call_id: Some(&call.0), name },
            write,
        );
    }

    fn tool_finished(
        &mut self,
        node: Option<NodeId>,
        call: &CallId,
        output: &ToolOutput,
        write: &mut dyn FnMut(String),
    ) {
        self.state.tool_finished(call, output);
        let name = self.calls.get(call).map_or("", |name| &**name);
        let payload =
            EventPayload::ToolEnd { call_id: Some(&call.0), name, result: &output.content, is_error: output.is_error };
        self.writer.write_event(node_id(&self.nodes, node), &payload, write);
    }

    fn found(&mut self, node: Option<NodeId>, finding: &StrategyFinding, write: &mut dyn FnMut(String)) {
        self.state.add_finding(finding);
        let id = node_id(&self.nodes, node);
        match finding {
            // Reported in the state.
            StrategyFinding::Understood { .. } => {}
            // The protocol names a choice only where it is made.
            StrategyFinding::Followed { .. } => {}
            StrategyFinding::Expanded { candidates, .. } => {
                let candidates = candidates.iter().map(|candidate| &**candidate).collect();
                self.writer.write_event(id, &EventPayload::TotExpand { candidates }, write);
            }
            StrategyFinding::Evaluated { chosen, scores, .. } => {
                let scores = scores.iter().map(|&score| state::finite(score)).collect();
                self.writer.write_event(id, &EventPayload::TotEvaluate { chosen: *chosen, scores }, write);
            }
            StrategyFinding::Backtracked { reason, to_depth, .. } => {
                self.writer.write_event(id, &EventPayload::TotBacktrack { reason, to_depth: *to_depth }, write);
            }
            StrategyFinding::Planned { tasks, edges } => {
                self.is_single_task = tasks.len() == 1;
                let node_ids = tasks.iter().map(|task| &*task.id).collect();
                let payload = EventPayload::GotPlan { node_count: tasks.len(), edge_count: edges.len(), node_ids };
                self.writer.write_event(id, &payload, write);
            }
            StrategyFinding::TaskStarted { task } => {
                self.writer.write_event(id, &EventPayload::GotNodeStart { id: task }, write);
            }
            StrategyFinding::TaskCompleted { task, result } => {
                let payload = EventPayload::GotNodeComplete { id: task, result_summary: summary(result) };
                self.writer.write_event(id, &payload, write);
            }
            StrategyFinding::TaskFailed { task, error } => {
                self.writer.write_event(id, &EventPayload::GotNodeFailed { id: task, error }, write);
            }
            StrategyFinding::TaskExpanded { task, tasks, edges, .. } => {
                self.writer.write_expansion(id, task, tasks.len(), edges.len(), write);
            }
        }
    }

    fn ended(&mut self, record: &Envelope, outcome: RunOutcome, write: &mut dyn FnMut(String)) {
        let failure = match outcome {
            RunOutcome::Completed => return self.completed(record, write),
            RunOutcome::Cancelled => "run cancelled",
            RunOutcome::Failed => self.failure.as_deref().unwrap_or("run failed"),
            RunOutcome::Interrupted => self.failure.as_deref().unwrap_or("the server died under the run"),
        };
        write(wire::encode(&Response::Error { id: Some(self.id()), error: failure }));
    }

    fn completed(&mut self, record: &Envelope, write: &mut dyn FnMut(String)) {
        let node_id = node_id(&self.nodes, self.latest);
        if let (Some(thread), &Topic::Run(run)) = (&self.thread, &record.topic) {
            let state = self.writer.wants_next(1).then(|| self.state.encode());
            let payload = EventPayload::Checkpoint {
                checkpoint_id: checkpoint::checkpoint_id(run, record.at),
                timestamp: record.at.as_millisecond().to_string(),
                step: 0,
                state: state.as_deref().unwrap_or(RawValue::NULL),
                thread_id: Some(thread),
                checkpoint_ns: None,
            };
            self.writer.write_event(node_id, &payload, write);
        }
        let id = self.writer.run();
        write(wire::encode(&RunEnd {
            kind: "run_end",
            id,
            reply: &self.reply,
            usage: self.state.usage(),
            total_usage: self.state.total_usage(),
            session_id: id,
            node_id,
            event_id: self.writer.next_number(),
        }));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChunkKind {
    Reply,
    Draft,
}

/// The id of the node; events before the first node have `run-0`.
fn node_id(nodes: &HashMap<NodeId, ActiveNode>, node: Option<NodeId>) -> &str {
    node.and_then(|node| nodes.get(&node)).map_or("run-0", |node| &*node.id)
}

fn node_name(nodes: &HashMap<NodeId, ActiveNode>, node: Option<NodeId>) -> &str {
    node.and_then(|node| nodes.get(&node)).map_or("", |node| &*node.name)
}

/// Arguments that are not JSON are shown as plain text.
fn arguments(call: &ToolCall) -> Cow<'_, Value> {
    match &call.input {
        ToolInput::Json(value) => Cow::Borrowed(value),
        ToolInput::Malformed(text) => Cow::Owned(Value::String(text.to_string())),
    }
}

fn summary(result: &str) -> Cow<'_, str> {
    if result.len() <= SUMMARY_BYTES {
        return Cow::Borrowed(result);
    }
    let cut = result.floor_char_boundary(SUMMARY_BYTES);
    Cow::Owned(format!("{}...", result.get(..cut).unwrap_or_default()))
}

#[cfg(test)]
mod tests;
