//! Dup, deeply understanding the problem (Zhong et al. 2024): extract the core question and the information relevant to
//! it, then run like react with both in every request.
//!
//! Nodes: `understand` (one model call without tools), then `plan`, `act` and `observe` in rounds.

use std::sync::Arc;

use super::prompt_text::{self, find_json_object, truncate_shared, value_text};
use super::react::{NodeNames, React};
use super::{AnswerKind, Strategy, StrategyInput, StrategyOutcome, StrategySpec, StrategyStep, ToolAvailability};
use crate::model::ModelMessage;
use crate::run_spec::NodeKey;
use crate::run_spec::StrategyKind;
use crate::run_spec::finding::StrategyFinding;

mod prompts;

const NODE_NAMES: NodeNames = NodeNames { think: "plan", between: &["observe"] };

// The notes are part of every later request, so they are kept short: text past these limits is cut.
const GOAL_BYTES: usize = 2_000;
const CONSTRAINT_BYTES: usize = 500;
const MAX_CONSTRAINTS: usize = 32;
const CONTEXT_BYTES: usize = 4_000;

#[derive(Debug)]
pub(super) struct Dup {
    react: React,
    /// Messages of the `understand` request; taken when the run begins.
    understand_request: Option<Vec<ModelMessage>>,
    understanding_node: Option<NodeKey>,
}

impl Dup {
    pub(super) fn new(spec: StrategySpec) -> Self {
        let model_calls = spec.reasoning.model_calls(StrategyKind::Dup);
        // With only one call allowed, `understand` is skipped: the call has to produce the answer.
        let understand_request = (model_calls > 1).then(|| {
            prompt_text::with_instruction(
                &prompt_text::tool_parts_as_text(&spec.history),
                &spec.user,
                prompts::UNDERSTAND.to_owned(),
            )
        });
        let remaining_calls = model_calls - u32::from(understand_request.is_some());
        Self {
            react: React::with_node_names(spec, NODE_NAMES, remaining_calls),
            understand_request,
            understanding_node: None,
        }
    }

    fn understand(&mut self, messages: Vec<ModelMessage>, steps: &mut Vec<StrategyStep>) {
        let node = self.react.enter("understand", steps);
        self.understanding_node = Some(node);
        steps.push(StrategyStep::AskModel {
            node,
            messages,
            tools: ToolAvailability::Withheld,
            answer_kind: AnswerKind::Draft,
        });
    }

    fn understood(&mut self, node: NodeKey, text: &str, steps: &mut Vec<StrategyStep>) {
        self.understanding_node = None;
        let understood = Understanding::parse(text);
        if !understood.is_empty() {
            self.react.set_hint(prompts::hint(&understood));
        }
        let Understanding { goal, constraints, context } = understood;
        steps.push(StrategyStep::Report { node, finding: StrategyFinding::Understood { goal, constraints, context } });
        steps.push(StrategyStep::Leave { node, failed: None });
        self.react.think(steps);
    }
}

impl Strategy for Dup {
    fn advance(&mut self, input: StrategyInput, steps: &mut Vec<StrategyStep>) {
        match (input, self.understand_request.take()) {
            (StrategyInput::Begin, Some(messages)) => self.understand(messages, steps),
            (StrategyInput::ModelAnswered { node, completion }, _) if self.understanding_node == Some(node) => {
                self.understood(node, &completion.text, steps);
            }
            (StrategyInput::ModelFailed { node, error }, _) if self.understanding_node == Some(node) => {
                steps.push(StrategyStep::Leave { node, failed: Some(error.clone()) });
                steps.push(StrategyStep::Finish(StrategyOutcome::Failed(error)));
            }
            (input, _) => self.react.advance(input, steps),
        }
    }

    fn transcript(&self) -> Vec<ModelMessage> {
        self.react.transcript()
    }
}

/// The parsed answer of `understand`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Understanding {
    goal: Arc<str>,
    constraints: Vec<Arc<str>>,
    context: Arc<str>,
}

impl Understanding {
    fn is_empty(&self) -> bool {
        self.goal.is_empty() && self.constraints.is_empty() && self.context.is_empty()
    }

    /// Parses JSON in the requested form, else lines with headings; else the whole text becomes the context.
    fn parse(text: &str) -> Self {
        Self::from_json(text)
            .or_else(|| Self::from_lines(text))
            .unwrap_or_else(|| Self { context: truncate_shared(text, CONTEXT_BYTES), ..Self::default() })
    }

    fn from_json(text: &str) -> Option<Self> {
        let object =
            ["core_goal", "key_constraints", "relevant_context"].iter().find_map(|key| find_json_object(text, key))?;
        let field = |name: &str| object.get(name).and_then(value_text).unwrap_or_default();
        let constraints = match object.get("key_constraints") {
            Some(serde_json::Value::Array(items)) => items.iter().filter_map(value_text).collect(),
            Some(other) => value_text(other).iter().flat_map(|text| text.lines()).map(str::to_owned).collect(),
            None => Vec::new(),
        };
        Some(Self::from_parts(&field("core_goal"), constraints, &field("relevant_context")))
    }

    fn from_lines(text: &str) -> Option<Self> {
        let (mut goal, mut constraints, mut context) = (String::new(), Vec::new(), String::new());
        let mut current_heading: Option<Heading> = None;
        for line in text.lines() {
            let line = line.trim().trim_start_matches(['-', '*', '#', '•', ' ']);
            let (heading, rest) =
                Heading::parse(line).map_or((current_heading, line), |(heading, rest)| (Some(heading), rest));
            current_heading = heading;
            let rest = rest.trim().trim_matches('*').trim();
            if rest.is_empty() {
                continue;
            }
            match heading {
                None => {}
                Some(Heading::Goal) => add_line(&mut goal, rest),
                Some(Heading::Constraints) => constraints.push(rest.to_owned()),
                Some(Heading::Context) => add_line(&mut context, rest),
            }
        }
        current_heading.map(|_| Self::from_parts(&goal, constraints, &context))
    }

    fn from_parts(goal: &str, constraints: Vec<String>, context: &str) -> Self {
        let constraints =
            constraints.iter().map(|text| truncate_shared(text, CONSTRAINT_BYTES)).filter(|text| !text.is_empty());
        Self {
            goal: truncate_shared(goal, GOAL_BYTES),
            constraints: constraints.take(MAX_CONSTRAINTS).collect(),
            context: truncate_shared(context, CONTEXT_BYTES),
        }
    }
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

#[derive(Debug, Clone, Copy)]
enum Heading {
    Goal,
    Constraints,
    Context,
}

impl Heading {
    /// Parses `Core goal: …` and similar labels; returns the heading and the text after the colon.
    fn parse(line: &str) -> Option<(Self, &str)> {
        let (label, rest) = line.split_once(':')?;
        let label = label.trim_matches(['*', '_', '`', '"', ' ']).replace('_', " ").to_lowercase();
        let heading = match label.as_str() {
            "core goal" | "goal" | "core question" => Self::Goal,
            "key constraints" | "constraints" | "key information" | "information" => Self::Constraints,
            "relevant context" | "context" => Self::Context,
            _ => return None,
        };
        Some((heading, rest))
    }
}

#[cfg(test)]
mod tests;
