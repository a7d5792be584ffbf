//! How an agent reasons, as a state machine without I/O: inputs in, steps out. The driver does what the steps say
//! and feeds back what came of it, possibly several at a time.

use std::fmt;

use crate::agent::StrategyKind;
use crate::id::CallId;
use crate::model::{Message, ModelError, StopReason, ToolCall};
use crate::tool::ToolOutput;

mod react;

/// One way of reasoning. Implementations hold the run's own conversation and their limits.
pub trait Strategy: Send + fmt::Debug {
    /// Takes one input and pushes what to do next. After `Step::Finish` it is not asked again.
    fn advance(&mut self, input: Input, steps: &mut Vec<Step>);

    /// The run's own messages so far: the user's words first, then what was said and what tools answered.
    fn transcript(&self) -> &[Message];
}

/// Names a model call inside a run, so that several can be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AskId(pub u32);

#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    Begin,
    ModelAnswered { ask: AskId, completion: Completion },
    ModelFailed { ask: AskId, error: ModelError },
    ToolFinished { call: CallId, output: ToolOutput },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask the model, with these messages after the agent's system text.
    AskModel {
        ask: AskId,
        messages: Vec<Message>,
        tools: ToolUse,
    },
    CallTool(ToolCall),
    Finish(Finish),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolUse {
    /// The agent's tools are offered.
    Offered,
    /// The model is to answer in words only.
    Withheld,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    Completed,
    Failed(String),
}

/// A whole answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub stop: StopReason,
}

/// What a strategy starts from.
#[derive(Debug, Clone)]
pub struct Brief {
    /// Past turns.
    pub history: Vec<Message>,
    pub user: Message,
    pub max_model_calls: u32,
}

pub fn build(kind: StrategyKind, brief: Brief) -> Box<dyn Strategy> {
    match kind {
        StrategyKind::React => Box::new(react::React::new(brief)),
    }
}
