//! The state objects of `values`, `updates` and `checkpoint`, rebuilt from the run's records. Keys are in alphabetical
//! order, which clients rely on.

use std::sync::Arc;

use patchboard_core::id::CallId;
use patchboard_core::model::{ContentPart, MessageRole, ModelMessage, TokenCount, ToolCall, ToolInput};
use patchboard_core::run_spec::RunSpec;
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::run_spec::finding::StrategyFinding;
use patchboard_core::tool::ToolOutput;
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::wire::event::RunUsage;
use graph::TaskGraphState;
use tree::SearchTree;

mod graph;
mod tree;

pub(super) struct StateSnapshot {
    strategy: StrategyKind,
    input_message: Arc<str>,
    core: CoreState,
    understood: Option<TaskUnderstanding>,
    tree: SearchTree,
    graph: TaskGraphState,
}

/// The whole state of `react`, and a part of the other strategies' states.
#[derive(Default, Serialize)]
struct CoreState {
    /// Always null: approvals are resolved during a call, not between nodes.
    approval_result: Option<String>,
    message_count_after_last_think: Option<usize>,
    messages: Vec<StateMessage>,
    tool_calls: Vec<StateCall>,
    tool_results: Vec<CallResult>,
    total_usage: Option<SortedUsage>,
    turn_count: u32,
    usage: Option<SortedUsage>,
}

/// Serialised as `{"User": "text"}`.
#[derive(Serialize)]
enum StateMessage {
    System(Arc<str>),
    User(Arc<str>),
    Assistant(Arc<str>),
}

#[derive(Serialize)]
struct StateCall {
    /// JSON as text.
    arguments: String,
    id: Arc<str>,
    name: Arc<str>,
}

#[derive(Serialize)]
struct CallResult {
    call_id: Arc<str>,
    content: Arc<str>,
    is_error: bool,
    name: Arc<str>,
}

#[derive(Serialize)]
struct TaskUnderstanding {
    core_goal: Arc<str>,
    key_constraints: Vec<Arc<str>>,
    relevant_context: Arc<str>,
}

#[derive(Clone, Copy, Serialize)]
struct SortedUsage {
    completion_tokens: u32,
    prompt_tokens: u32,
    total_tokens: u32,
}

impl Default for StateSnapshot {
    fn default() -> Self {
        Self {
            strategy: StrategyKind::React,
            input_message: "".into(),
            core: CoreState::default(),
            understood: None,
            tree: SearchTree::default(),
            graph: TaskGraphState::default(),
        }
    }
}

impl StateSnapshot {
    pub(super) fn new(briefing: &RunSpec) -> Self {
        let mut core = CoreState::default();
        if !briefing.system.is_empty() {
            core.messages.push(StateMessage::System(briefing.system.clone()));
        }
        for message in &briefing.history {
            core.add_history(message);
        }
        core.messages.push(StateMessage::User(briefing.message.clone()));
        Self { strategy: briefing.strategy, input_message: briefing.message.clone(), core, ..Self::default() }
    }

    /// Adds a node's answer once the node is done.
    pub(super) fn answered(&mut self, text: &str, is_reply: bool, calls: &[ToolCall]) {
        match self.strategy {
            StrategyKind::React | StrategyKind::Dup => self.core.answered(text, calls),
            // Drafts contain candidates and scores, which the search reports as findings.
            StrategyKind::Tot if is_reply => self.core.answered(text, calls),
            // Messages within tasks are not part of the state.
            StrategyKind::Tot | StrategyKind::Got => {}
        }
    }

    pub(super) fn tool_started(&mut self, call: &CallId, name: &Arc<str>) {
        // During a search the model writes calls into its candidates; their arguments are not recorded.
        if self.strategy == StrategyKind::Tot && self.core.tool_calls.iter().all(|known| known.id != call.0) {
            self.core.tool_calls.push(StateCall { arguments: String::new(), id: call.0.clone(), name: name.clone() });
        }
    }

    pub(super) fn tool_finished(&mut self, call: &CallId, output: &ToolOutput) {
        self.core.tool_finished(call, output);
    }

    pub(super) fn add_usage(&mut self, tokens: TokenCount) -> RunUsage {
        let clamp = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let used = SortedUsage {
            completion_tokens: clamp(tokens.output),
            prompt_tokens: clamp(tokens.input),
            total_tokens: clamp(tokens.total()),
        };
        let before = self.core.total_usage.unwrap_or(SortedUsage::NONE);
        self.core.usage = Some(used);
        self.core.total_usage = Some(before.plus(used));
        used.into()
    }

    /// Usage of the latest model call.
    pub(super) fn usage(&self) -> Option<RunUsage> {
        self.core.usage.map(Into::into)
    }

    pub(super) fn total_usage(&self) -> Option<RunUsage> {
        self.core.total_usage.map(Into::into)
    }

    /// Idempotent, because an interrupted node may report its findings again.
    pub(super) fn add_finding(&mut self, finding: &StrategyFinding) {
        match finding {
            StrategyFinding::Understood { goal, constraints, context } => {
                self.understood = Some(TaskUnderstanding {
                    core_goal: goal.clone(),
                    key_constraints: constraints.clone(),
                    relevant_context: context.clone(),
                });
            }
            StrategyFinding::Followed { .. } => {}
            StrategyFinding::Expanded { depth, candidates, .. } => {
                let message_count = self.tree.expanded(*depth, candidates, self.core.messages.len());
                self.core.messages.truncate(message_count);
            }
            StrategyFinding::Evaluated { chosen, scores, .. } => {
                let message_count = self.tree.evaluated(*chosen, scores, self.core.messages.len());
                self.core.messages.truncate(message_count);
                if let Some(thought) = self.tree.chosen_thought() {
                    self.core.messages.push(StateMessage::Assistant(thought));
                    self.core.message_count_after_last_think = Some(self.core.messages.len());
                }
            }
            StrategyFinding::Backtracked { reason, to_depth, .. } => {
                let message_count = self.tree.backtracked(reason, *to_depth, self.core.messages.len());
                self.core.messages.truncate(message_count);
            }
            StrategyFinding::Planned { tasks, edges } => self.graph.planned(tasks, edges),
            StrategyFinding::TaskStarted { task } => self.graph.started(task),
            StrategyFinding::TaskCompleted { task, result } => self.graph.completed(task, result),
            StrategyFinding::TaskFailed { task, error } => self.graph.failed(task, error),
            StrategyFinding::TaskExpanded { tasks, edges, dropped, .. } => self.graph.expanded(tasks, edges, dropped),
        }
    }

    /// Applies the effects of a completed node.
    pub(super) fn node_left(&mut self, node: &str) {
        if node == "observe" {
            self.core.observed();
        }
    }

    pub(super) fn encode(&self) -> Box<RawValue> {
        #[derive(Serialize)]
        struct DupState<'a> {
            core: &'a CoreState,
            understood: &'a Option<TaskUnderstanding>,
        }
        #[derive(Serialize)]
        struct TotState<'a> {
            core: &'a CoreState,
            tot: tree::TreeView<'a>,
        }
        #[derive(Serialize)]
        struct GotState<'a> {
            input_message: &'a str,
            #[serde(flatten)]
            graph: graph::GraphView<'a>,
        }
        let encoded = match self.strategy {
            StrategyKind::React => serde_json::value::to_raw_value(&self.core),
            StrategyKind::Dup => {
                serde_json::value::to_raw_value(&DupState { core: &self.core, understood: &self.understood })
            }
            StrategyKind::Tot => serde_json::value::to_raw_value(&TotState { core: &self.core, tot: self.tree.view() }),
            StrategyKind::Got => {
                let graph = self.graph.view();
                serde_json::value::to_raw_value(&GotState { input_message: &self.input_message, graph })
            }
        };
        // Strings, numbers and lists of them always encode.
        encoded.unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

impl CoreState {
    fn add_history(&mut self, message: &ModelMessage) {
        let mut has_results = false;
        for part in &message.parts {
            if let ContentPart::ToolResult(result) = part {
                has_results = true;
                self.messages.push(StateMessage::User(tool_result_text(
                    &result.name,
                    &result.content,
                    result.is_error,
                )));
            }
        }
        let text = message.text();
        match message.role {
            MessageRole::Assistant => self.messages.push(StateMessage::Assistant(text.into())),
            MessageRole::User if has_results && text.is_empty() => {}
            MessageRole::User => self.messages.push(StateMessage::User(text.into())),
        }
    }

    fn answered(&mut self, text: &str, calls: &[ToolCall]) {
        self.messages.push(StateMessage::Assistant(text.into()));
        self.message_count_after_last_think = Some(self.messages.len());
        self.tool_results.clear();
        self.tool_calls = calls
            .iter()
            .map(|call| {
                let arguments = match &call.input {
                    ToolInput::Json(value) => value.to_string(),
                    ToolInput::Malformed(text) => text.to_string(),
                };
                StateCall { arguments, id: call.id.0.clone(), name: call.name.clone() }
            })
            .collect();
    }

    /// Results are kept in the order of the calls, not of their arrival.
    fn tool_finished(&mut self, call: &CallId, output: &ToolOutput) {
        let call_position = |id: &Arc<str>| self.tool_calls.iter().position(|known| known.id == *id);
        let Some(index) = call_position(&call.0) else { return };
        let Some(name) = self.tool_calls.get(index).map(|known| known.name.clone()) else { return };
        let result =
            CallResult { call_id: call.0.clone(), content: output.content.clone(), is_error: output.is_error, name };
        let before = self.tool_results.iter().take_while(|known| call_position(&known.call_id) < Some(index)).count();
        match self.tool_results.get_mut(before) {
            Some(known) if known.call_id == call.0 => *known = result,
            Some(_) | None => self.tool_results.insert(before, result),
        }
    }

    fn observed(&mut self) {
        for result in self.tool_results.drain(..) {
            self.messages.push(StateMessage::User(tool_result_text(&result.name, &result.content, result.is_error)));
        }
        self.tool_calls.clear();
        self.turn_count += 1;
    }
}

/// The text of a tool result as a message, because messages have only three roles.
fn tool_result_text(name: &str, content: &str, is_error: bool) -> Arc<str> {
    let what = if is_error { "error" } else { "result" };
    format!("Tool {name} {what}:\n{content}").into()
}

impl SortedUsage {
    const NONE: Self = Self { completion_tokens: 0, prompt_tokens: 0, total_tokens: 0 };

    fn plus(self, other: Self) -> Self {
        Self {
            completion_tokens: self.completion_tokens.saturating_add(other.completion_tokens),
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            total_tokens: self.total_tokens.saturating_add(other.total_tokens),
        }
    }
}

impl From<SortedUsage> for RunUsage {
    fn from(used: SortedUsage) -> Self {
        let SortedUsage { completion_tokens, prompt_tokens, total_tokens } = used;
        Self { prompt_tokens, completion_tokens, total_tokens }
    }
}

/// JSON cannot represent NaN or infinity; such scores count as the worst.
pub(super) fn finite(score: f32) -> f32 {
    if score.is_finite() { score } else { 0.0 }
}
