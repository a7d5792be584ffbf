//! React: request an answer; run the tools it calls concurrently; feed the results back; repeat until an answer has no
//! calls.
//!
//! Nodes: `think` (one model call), `act` (its tools), `observe` (the results join the conversation), `compress`
//! (messages that no longer fit the model's context window are dropped), then `think` again.

use super::tool_loop::{RoundOutcome, ToolLoop, ToolLoopLimits};
use super::{
    AnswerKind, Completion, Strategy, StrategyInput, StrategyOutcome, StrategySpec, StrategyStep, ToolAvailability,
};
use crate::id::CallId;
use crate::model::{ContentPart, ModelMessage};
use crate::run_spec::NodeKey;
use crate::run_spec::StrategyKind;
use crate::tool::ToolOutput;

#[derive(Debug)]
pub(super) struct React {
    history: Vec<ModelMessage>,
    /// Appended to the user's message in every request of this run; not part of the transcript.
    hint: Option<ContentPart>,
    tool_loop: ToolLoop,
    node_names: NodeNames,
    /// The node entered last.
    current_node: NodeKey,
    next_node: NodeKey,
}

/// Names of the nodes; dup uses its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeNames {
    pub(super) think: &'static str,
    /// Nodes entered and left between `act` and the next model call.
    pub(super) between: &'static [&'static str],
}

/// Gateway clients match on this sentence, so it must not change.
const LOOP_LIMIT_TEXT: &str = "tool-use loop exceeded max iterations";

const NODE_NAMES: NodeNames = NodeNames { think: "think", between: &["observe", "compress"] };

impl React {
    pub(super) fn new(spec: StrategySpec) -> Self {
        let model_calls = spec.reasoning.model_calls(StrategyKind::React);
        Self::with_node_names(spec, NODE_NAMES, model_calls)
    }

    pub(super) fn with_node_names(spec: StrategySpec, names: NodeNames, model_calls: u32) -> Self {
        let limits = ToolLoopLimits { model_calls, turns: spec.reasoning.max_turns.unwrap_or(u32::MAX) };
        Self {
            history: spec.history,
            hint: None,
            tool_loop: ToolLoop::new(spec.user, limits),
            node_names: names,
            current_node: NodeKey(0),
            next_node: NodeKey(0),
        }
    }

    pub(super) fn set_hint(&mut self, hint: String) {
        self.hint = Some(ContentPart::Text(format!("\n\n{hint}").into()));
    }

    pub(super) fn enter(&mut self, name: &'static str, steps: &mut Vec<StrategyStep>) -> NodeKey {
        self.current_node = self.next_node;
        self.next_node = NodeKey(self.current_node.0.saturating_add(1));
        steps.push(StrategyStep::Enter { node: self.current_node, name });
        self.current_node
    }

    pub(super) fn think(&mut self, steps: &mut Vec<StrategyStep>) {
        let Some(request) = self.tool_loop.next_request() else {
            steps.push(StrategyStep::Finish(StrategyOutcome::Failed(LOOP_LIMIT_TEXT.to_owned())));
            return;
        };
        let mut messages = self.history.clone();
        messages.extend_from_slice(request);
        if let Some(user) = messages.get_mut(self.history.len()) {
            user.parts.extend(self.hint.clone());
        }
        let node = self.enter(self.node_names.think, steps);
        steps.push(StrategyStep::AskModel {
            node,
            messages,
            tools: ToolAvailability::Offered,
            answer_kind: AnswerKind::Reply,
        });
    }

    fn answered(&mut self, node: NodeKey, completion: Completion, steps: &mut Vec<StrategyStep>) {
        steps.push(StrategyStep::Leave { node, failed: None });
        match self.tool_loop.push_answer(completion) {
            RoundOutcome::Text(_) => steps.push(StrategyStep::Finish(StrategyOutcome::Completed)),
            RoundOutcome::LimitReached => {
                steps.push(StrategyStep::Finish(StrategyOutcome::Failed(LOOP_LIMIT_TEXT.to_owned())));
            }
            RoundOutcome::Calls(calls) => {
                let node = self.enter("act", steps);
                steps.extend(calls.into_iter().map(|call| StrategyStep::CallTool { node, call }));
            }
        }
    }

    fn tool_finished(&mut self, call: &CallId, output: ToolOutput, steps: &mut Vec<StrategyStep>) {
        if !self.tool_loop.push_result(call, output) {
            return;
        }
        steps.push(StrategyStep::Leave { node: self.current_node, failed: None });
        for name in self.node_names.between {
            let node = self.enter(name, steps);
            steps.push(StrategyStep::Leave { node, failed: None });
        }
        self.think(steps);
    }
}

impl Strategy for React {
    fn advance(&mut self, input: StrategyInput, steps: &mut Vec<StrategyStep>) {
        match input {
            StrategyInput::Begin => self.think(steps),
            StrategyInput::ModelAnswered { node, completion } => self.answered(node, completion, steps),
            StrategyInput::ModelFailed { node, error } => {
                steps.push(StrategyStep::Leave { node, failed: Some(error.clone()) });
                steps.push(StrategyStep::Finish(StrategyOutcome::Failed(error)));
            }
            StrategyInput::ToolFinished { call, output } => self.tool_finished(&call, output, steps),
        }
    }

    fn transcript(&self) -> Vec<ModelMessage> {
        self.tool_loop.messages().to_vec()
    }
}

#[cfg(test)]
mod tests;
