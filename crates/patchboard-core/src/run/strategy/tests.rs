//! A test harness for strategies: scripted inputs, steps rendered as short lines.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::model::{ContentPart, ToolInput};

mod properties;

/// A strategy under test. Steps are rendered as
/// `enter think 0`, `ask 0: 3 messages, tools, reply`, `call a in 1`, `tell 0: …`, `leave 0`, `done`, `failed: …`.
pub(super) struct StrategyHarness {
    machine: Box<dyn Strategy>,
    /// The latest question of each node.
    questions: BTreeMap<u32, Vec<ModelMessage>>,
    pub(super) model_calls: u32,
}

pub(super) fn spec(reasoning: ReasoningOptions) -> StrategySpec {
    StrategySpec {
        history: vec![ModelMessage::user("earlier"), ModelMessage::assistant("yes")],
        user: ModelMessage::user("now"),
        reasoning,
        adaptive: false,
        tag: "tot".into(),
    }
}

pub(super) fn calls(max_model_calls: u32) -> ReasoningOptions {
    ReasoningOptions { max_model_calls: Some(max_model_calls), ..ReasoningOptions::default() }
}

pub(super) fn tool_call(id: &str) -> ToolCall {
    ToolCall { id: CallId(id.into()), name: "read".into(), input: ToolInput::Json(json!({"id": id}).into()) }
}

pub(super) fn completion(text: &str, calls: &[&str]) -> Completion {
    let stop = if calls.is_empty() { StopReason::EndOfTurn } else { StopReason::ToolCalls };
    Completion { text: text.into(), calls: calls.iter().map(|id| tool_call(id)).collect(), stop }
}

impl StrategyHarness {
    pub(super) fn of(kind: StrategyKind, spec: StrategySpec) -> Self {
        Self { machine: build(kind, spec), questions: BTreeMap::new(), model_calls: 0 }
    }

    pub(super) fn begin(&mut self) -> Vec<String> {
        self.put(StrategyInput::Begin)
    }

    /// The model answers `node` in words.
    pub(super) fn says(&mut self, node: u32, text: &str) -> Vec<String> {
        self.calls(node, text, &[])
    }

    /// The model answers `node` and calls tools.
    pub(super) fn calls(&mut self, node: u32, text: &str, calls: &[&str]) -> Vec<String> {
        self.put(StrategyInput::ModelAnswered { node: NodeKey(node), completion: completion(text, calls) })
    }

    pub(super) fn fails(&mut self, node: u32, error: &str) -> Vec<String> {
        self.put(StrategyInput::ModelFailed { node: NodeKey(node), error: error.into() })
    }

    pub(super) fn tool(&mut self, id: &str, output: &str) -> Vec<String> {
        self.put(StrategyInput::ToolFinished { call: CallId(id.into()), output: ToolOutput::ok(output) })
    }

    pub(super) fn tool_fails(&mut self, id: &str, output: &str) -> Vec<String> {
        self.put(StrategyInput::ToolFinished { call: CallId(id.into()), output: ToolOutput::error(output) })
    }

    /// The last message of the node's latest question.
    pub(super) fn question(&self, node: u32) -> String {
        self.questions.get(&node).and_then(|messages| messages.last()).map(ModelMessage::text).unwrap_or_default()
    }

    pub(super) fn conversation(&self, node: u32) -> &[ModelMessage] {
        self.questions.get(&node).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn transcript(&self) -> Vec<ModelMessage> {
        self.machine.transcript()
    }

    fn put(&mut self, input: StrategyInput) -> Vec<String> {
        let mut steps = Vec::new();
        self.machine.advance(input, &mut steps);
        for step in &steps {
            if let StrategyStep::AskModel { node, messages, .. } = step {
                self.questions.insert(node.0, messages.clone());
                self.model_calls += 1;
            }
        }
        // What is followed shows in the questions; that it is reported too, the tests that redraw the tree check.
        let is_followed = |step: &&StrategyStep| {
            matches!(step, StrategyStep::Report { finding: StrategyFinding::Followed { .. }, .. })
        };
        steps.iter().filter(|step| !is_followed(step)).map(short).collect()
    }
}

fn short(step: &StrategyStep) -> String {
    match step {
        StrategyStep::Enter { node, name } => format!("enter {name} {}", node.0),
        StrategyStep::Leave { node, failed: None } => format!("leave {}", node.0),
        StrategyStep::Leave { node, failed: Some(error) } => format!("leave {}: {error}", node.0),
        StrategyStep::Report { node, finding } => format!("tell {}: {}", node.0, render_finding(finding)),
        StrategyStep::AskModel { node, messages, tools, answer_kind } => {
            let tools = match tools {
                ToolAvailability::Offered => "tools",
                ToolAvailability::Withheld => "no tools",
            };
            let answer_kind = match answer_kind {
                AnswerKind::Reply => "reply",
                AnswerKind::Draft => "draft",
            };
            format!("ask {}: {} messages, {tools}, {answer_kind}", node.0, messages.len())
        }
        StrategyStep::CallTool { node, call } => format!("call {} in {}", call.id, node.0),
        StrategyStep::Finish(StrategyOutcome::Completed) => "done".to_owned(),
        StrategyStep::Finish(StrategyOutcome::Failed(message)) => format!("failed: {message}"),
    }
}

fn render_finding(finding: &StrategyFinding) -> String {
    let edges = |edges: &[(std::sync::Arc<str>, std::sync::Arc<str>)]| {
        edges.iter().map(|(from, to)| format!("{from}>{to}")).collect::<Vec<_>>().join(" ")
    };
    match finding {
        StrategyFinding::Understood { goal, constraints, context } => {
            format!("understood {goal:?} with [{}] in {context:?}", constraints.join(" | "))
        }
        StrategyFinding::Expanded { depth, candidates, .. } => {
            format!("expanded at {depth}: {}", candidates.join(" | "))
        }
        StrategyFinding::Evaluated { chosen, scores, .. } => format!("evaluated: {chosen} of {scores:?}"),
        StrategyFinding::Followed { thought } => format!("followed {}", thought.0),
        StrategyFinding::Backtracked { reason, to_depth, .. } => format!("back to {to_depth}: {reason}"),
        StrategyFinding::Planned { tasks, edges: arrows } => {
            let ids: Vec<&str> = tasks.iter().map(|task| &*task.id).collect();
            format!("planned {} ({})", ids.join(" "), edges(arrows))
        }
        StrategyFinding::TaskStarted { task } => format!("started {task}"),
        StrategyFinding::TaskCompleted { task, result } => format!("completed {task}: {result}"),
        StrategyFinding::TaskFailed { task, error } => format!("failed {task}: {error}"),
        StrategyFinding::TaskExpanded { task, tasks, edges: arrows, dropped } => {
            let ids: Vec<&str> = tasks.iter().map(|task| &*task.id).collect();
            format!("expanded {task} into {} ({}) without ({})", ids.join(" "), edges(arrows), edges(dropped))
        }
    }
}

/// The text of each message's parts, for transcripts with tools: `user: …`, `assistant: … call a`, `user: a=…`.
pub(super) fn lines(messages: &[ModelMessage]) -> Vec<String> {
    let line = |message: &ModelMessage| {
        let parts = message.parts.iter().map(|part| match part {
            ContentPart::Text(text) => text.to_string(),
            ContentPart::ToolCall(call) => format!("call {}", call.id),
            ContentPart::ToolResult(result) => format!("{}={}", result.call, result.content),
        });
        let role = match message.role {
            crate::model::MessageRole::User => "user",
            crate::model::MessageRole::Assistant => "assistant",
        };
        format!("{role}: {}", parts.collect::<Vec<_>>().join(" "))
    };
    messages.iter().map(line).collect()
}
