//! How an agent reasons, as a state machine without I/O: inputs in, steps out. The driver does what the steps say
//! and feeds back what came of it, possibly several at a time.
//!
//! A strategy works in nodes. It enters one, asks and calls from inside it, and leaves it; what is on record up to the
//! last node left is never done again. After a crash a strategy of the same brief is fed the recorded inputs, so:
//!
//! * the same inputs give the same steps; where several nodes are at work at once, whatever the order their inputs
//!   come in, each node keeps its key;
//! * a node has at most one question to the model open at a time.

use crate::run_spec::NodeKey;
use crate::run_spec::reasoning::ReasoningOptions;
use std::fmt;
use std::sync::Arc;

use crate::id::CallId;
use crate::model::{ModelMessage, StopReason, ToolCall};
use crate::run_spec::StrategyKind;
use crate::run_spec::finding::StrategyFinding;
use crate::tool::ToolOutput;

mod dup;
mod got;
mod prompt_text;
mod react;
mod tool_loop;
mod tot;

/// One way of reasoning. Implementations hold the run's own conversation and their limits.
pub trait Strategy: Send + fmt::Debug {
    /// Takes one input and pushes what to do next. After `Step::Finish` it is not asked again.
    fn advance(&mut self, input: StrategyInput, steps: &mut Vec<StrategyStep>);

    /// What is remembered of the run: the user's words first, then what was said and what tools answered.
    fn transcript(&self) -> Vec<ModelMessage>;
}

#[derive(Debug, Clone, PartialEq)]
pub enum StrategyInput {
    Begin,
    ModelAnswered {
        node: NodeKey,
        completion: Completion,
    },
    /// `error` is a sentence for people.
    ModelFailed {
        node: NodeKey,
        error: String,
    },
    ToolFinished {
        call: CallId,
        output: ToolOutput,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum StrategyStep {
    Enter {
        node: NodeKey,
        name: &'static str,
    },
    /// Everything the node asked and called has come back.
    Leave {
        node: NodeKey,
        failed: Option<String>,
    },
    Report {
        node: NodeKey,
        finding: StrategyFinding,
    },
    /// Ask the model, with these messages after the agent's system text. They alternate roles and end with the user.
    AskModel {
        node: NodeKey,
        messages: Vec<ModelMessage>,
        tools: ToolAvailability,
        answer_kind: AnswerKind,
    },
    CallTool {
        node: NodeKey,
        call: ToolCall,
    },
    /// No step follows it; nodes still entered are left by the driver.
    Finish(StrategyOutcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolAvailability {
    /// The agent's tools are offered.
    Offered,
    /// The model is to answer in words only.
    Withheld,
}

/// What the words of an answer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// The reply to the user, or on the way there in the same breath. The last one spoken is the run's reply.
    Reply,
    /// Notes to itself: clients of a chat do not see them.
    Draft,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StrategyOutcome {
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
pub struct StrategySpec {
    /// Past turns.
    pub history: Vec<ModelMessage>,
    pub user: ModelMessage,
    pub reasoning: ReasoningOptions,
    /// got: asked for by the request.
    pub adaptive: bool,
    /// Part of the names a strategy makes up itself, such as those of calls, so that no two runs share one.
    pub tag: Arc<str>,
}

pub fn build(kind: StrategyKind, brief: StrategySpec) -> Box<dyn Strategy> {
    match kind {
        StrategyKind::React => Box::new(react::React::new(brief)),
        StrategyKind::Dup => Box::new(dup::Dup::new(brief)),
        StrategyKind::Tot => Box::new(tot::Tot::new(brief)),
        StrategyKind::Got => Box::new(got::Got::new(brief)),
    }
}

#[cfg(test)]
mod tests;
