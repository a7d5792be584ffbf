//! Dup, deeply understanding the problem (Zhong et al. 2024): find the core question and the information that bears on
//! it, then work like react with both in view.
//!
//! Nodes: `understand` (one model call without tools), then `plan`, `act` and `observe` in rounds.

use std::sync::Arc;

use super::react::{Names, React};
use super::words::{self, kept, object_with, text_of};
use super::{Brief, Finish, Input, NodeKey, Step, Strategy, ToolUse, Voice};
use crate::agent::StrategyKind;
use crate::model::Message;
use crate::run::finding::Finding;

mod prompts;

const NAMES: Names = Names { think: "plan", between: &["observe"] };

// Notes are shown with every later question, so they are kept short; what goes on is cut.
const GOAL_BYTES: usize = 2_000;
const CONSTRAINT_BYTES: usize = 500;
const CONSTRAINTS: usize = 32;
const CONTEXT_BYTES: usize = 4_000;

#[derive(Debug)]
pub(super) struct Dup {
    rounds: React,
    /// What `understand` is asked; taken when it is.
    question: Option<Vec<Message>>,
    understanding: Option<NodeKey>,
}

impl Dup {
    pub(super) fn new(brief: Brief) -> Self {
        let model_calls = brief.reasoning.model_calls(StrategyKind::Dup);
        // With one call there is nothing to prepare an answer with: it is the answer.
        let question = (model_calls > 1)
            .then(|| words::ask(&words::in_words(&brief.history), &brief.user, prompts::UNDERSTAND.to_owned()));
        let left = model_calls - u32::from(question.is_some());
        Self { rounds: React::with_names(brief, NAMES, left), question, understanding: None }
    }

    fn understand(&mut self, messages: Vec<Message>, steps: &mut Vec<Step>) {
        let node = self.rounds.enter("understand", steps);
        self.understanding = Some(node);
        steps.push(Step::AskModel { node, messages, tools: ToolUse::Withheld, voice: Voice::Draft });
    }

    fn understood(&mut self, node: NodeKey, text: &str, steps: &mut Vec<Step>) {
        self.understanding = None;
        let understood = Understanding::read(text);
        if !understood.is_empty() {
            self.rounds.give_hint(prompts::hint(&understood));
        }
        let Understanding { goal, constraints, context } = understood;
        steps.push(Step::Tell { node, finding: Finding::Understood { goal, constraints, context } });
        steps.push(Step::Leave { node, failed: None });
        self.rounds.think(steps);
    }
}

impl Strategy for Dup {
    fn advance(&mut self, input: Input, steps: &mut Vec<Step>) {
        match (input, self.question.take()) {
            (Input::Begin, Some(messages)) => self.understand(messages, steps),
            (Input::ModelAnswered { node, completion }, _) if self.understanding == Some(node) => {
                self.understood(node, &completion.text, steps);
            }
            (Input::ModelFailed { node, error }, _) if self.understanding == Some(node) => {
                steps.push(Step::Leave { node, failed: Some(error.clone()) });
                steps.push(Step::Finish(Finish::Failed(error)));
            }
            (input, _) => self.rounds.advance(input, steps),
        }
    }

    fn transcript(&self) -> Vec<Message> {
        self.rounds.transcript()
    }
}

/// What the model made of the request.
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

    /// JSON as asked for; else lines with headings; else the whole text is context.
    fn read(text: &str) -> Self {
        Self::from_json(text)
            .or_else(|| Self::from_lines(text))
            .unwrap_or_else(|| Self { context: kept(text, CONTEXT_BYTES), ..Self::default() })
    }

    fn from_json(text: &str) -> Option<Self> {
        let object =
            ["core_goal", "key_constraints", "relevant_context"].iter().find_map(|key| object_with(text, key))?;
        let field = |name: &str| object.get(name).and_then(text_of).unwrap_or_default();
        let constraints = match object.get("key_constraints") {
            Some(serde_json::Value::Array(items)) => items.iter().filter_map(text_of).collect(),
            Some(other) => text_of(other).iter().flat_map(|text| text.lines()).map(str::to_owned).collect(),
            None => Vec::new(),
        };
        Some(Self::of(&field("core_goal"), constraints, &field("relevant_context")))
    }

    fn from_lines(text: &str) -> Option<Self> {
        let (mut goal, mut constraints, mut context) = (String::new(), Vec::new(), String::new());
        let mut under: Option<Heading> = None;
        for line in text.lines() {
            let line = line.trim().trim_start_matches(['-', '*', '#', '•', ' ']);
            let (heading, rest) = Heading::of(line).map_or((under, line), |(heading, rest)| (Some(heading), rest));
            under = heading;
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
        under.map(|_| Self::of(&goal, constraints, &context))
    }

    fn of(goal: &str, constraints: Vec<String>, context: &str) -> Self {
        let constraints = constraints.iter().map(|text| kept(text, CONSTRAINT_BYTES)).filter(|text| !text.is_empty());
        Self {
            goal: kept(goal, GOAL_BYTES),
            constraints: constraints.take(CONSTRAINTS).collect(),
            context: kept(context, CONTEXT_BYTES),
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
    /// `Core goal: …` and its like, with what follows the colon.
    fn of(line: &str) -> Option<(Self, &str)> {
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
