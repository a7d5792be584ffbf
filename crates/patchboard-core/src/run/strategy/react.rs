//! React: ask the model; run the tools it calls, side by side; feed the results back; until it only talks.
//!
//! Nodes: `think` (one model call), `act` (its tools), `observe` (their results join the conversation), `compress`
//! (what no longer fits the model's window gives way), `think` again.

use super::rounds::{Heard, RoundLimits, Rounds};
use super::{Brief, Completion, Finish, Input, NodeKey, Step, Strategy, ToolUse, Voice};
use crate::agent::StrategyKind;
use crate::id::CallId;
use crate::model::{Message, Part};
use crate::tool::ToolOutput;

#[derive(Debug)]
pub(super) struct React {
    history: Vec<Message>,
    /// Said after the user's words for this run only.
    hint: Option<Part>,
    rounds: Rounds,
    names: Names,
    /// The node at work.
    at: NodeKey,
    next: NodeKey,
}

/// What the nodes are called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    pub(super) think: &'static str,
    /// Passed through between `act` and the next thought.
    pub(super) between: &'static [&'static str],
}

/// Clients of the gateway know this sentence.
const TOO_LONG: &str = "tool-use loop exceeded max iterations";

const NAMES: Names = Names { think: "think", between: &["observe", "compress"] };

impl React {
    pub(super) fn new(brief: Brief) -> Self {
        let model_calls = brief.reasoning.model_calls(StrategyKind::React);
        Self::with_names(brief, NAMES, model_calls)
    }

    pub(super) fn with_names(brief: Brief, names: Names, model_calls: u32) -> Self {
        let limits = RoundLimits { model_calls, turns: brief.reasoning.max_turns.unwrap_or(u32::MAX) };
        Self {
            history: brief.history,
            hint: None,
            rounds: Rounds::new(brief.user, limits),
            names,
            at: NodeKey(0),
            next: NodeKey(0),
        }
    }

    pub(super) fn give_hint(&mut self, hint: String) {
        self.hint = Some(Part::Text(format!("\n\n{hint}").into()));
    }

    pub(super) fn enter(&mut self, name: &'static str, steps: &mut Vec<Step>) -> NodeKey {
        self.at = self.next;
        self.next = NodeKey(self.at.0.saturating_add(1));
        steps.push(Step::Enter { node: self.at, name });
        self.at
    }

    pub(super) fn think(&mut self, steps: &mut Vec<Step>) {
        let Some(said) = self.rounds.ask() else {
            steps.push(Step::Finish(Finish::Failed(TOO_LONG.to_owned())));
            return;
        };
        let mut messages = self.history.clone();
        messages.extend_from_slice(said);
        if let Some(user) = messages.get_mut(self.history.len()) {
            user.parts.extend(self.hint.clone());
        }
        let node = self.enter(self.names.think, steps);
        steps.push(Step::AskModel { node, messages, tools: ToolUse::Offered, voice: Voice::Reply });
    }

    fn answered(&mut self, node: NodeKey, completion: Completion, steps: &mut Vec<Step>) {
        steps.push(Step::Leave { node, failed: None });
        match self.rounds.answered(completion) {
            Heard::Words(_) => steps.push(Step::Finish(Finish::Completed)),
            Heard::TooMany => steps.push(Step::Finish(Finish::Failed(TOO_LONG.to_owned()))),
            Heard::Calls(calls) => {
                let node = self.enter("act", steps);
                steps.extend(calls.into_iter().map(|call| Step::CallTool { node, call }));
            }
        }
    }

    fn tool_finished(&mut self, call: &CallId, output: ToolOutput, steps: &mut Vec<Step>) {
        if !self.rounds.tool_finished(call, output) {
            return;
        }
        steps.push(Step::Leave { node: self.at, failed: None });
        for name in self.names.between {
            let node = self.enter(name, steps);
            steps.push(Step::Leave { node, failed: None });
        }
        self.think(steps);
    }
}

impl Strategy for React {
    fn advance(&mut self, input: Input, steps: &mut Vec<Step>) {
        match input {
            Input::Begin => self.think(steps),
            Input::ModelAnswered { node, completion } => self.answered(node, completion, steps),
            Input::ModelFailed { node, error } => {
                steps.push(Step::Leave { node, failed: Some(error.clone()) });
                steps.push(Step::Finish(Finish::Failed(error)));
            }
            Input::ToolFinished { call, output } => self.tool_finished(&call, output, steps),
        }
    }

    fn transcript(&self) -> Vec<Message> {
        self.rounds.said().to_vec()
    }
}

#[cfg(test)]
mod tests;
