//! Reasoning strategies as state machines without I/O: inputs in, steps out. The driver executes the steps and feeds
//! the results back, possibly several at a time.
//!
//! A strategy works in nodes. It enters a node, issues model requests and tool calls from inside it, and leaves it;
//! work recorded up to the last node left is never repeated. After a crash a strategy built from the same spec is fed
//! the recorded inputs, so:
//!
//! * the same inputs must give the same steps; where several nodes run concurrently, each node keeps its key whatever
//!   the order in which their inputs arrive;
//! * a node has at most one open model request.

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

/// One reasoning strategy. Implementations hold the run's own conversation and their limits.
pub trait Strategy: Send + fmt::Debug {
    /// Takes one input and pushes the next steps. Not called again after `StrategyStep::Finish`.
    fn advance(&mut self, input: StrategyInput, steps: &mut Vec<StrategyStep>);

    /// The messages of the run that are stored in the session's history: the user's message first, then model answers
    /// and tool results.
    fn transcript(&self) -> Vec<ModelMessage>;
}

#[derive(Debug, Clone, PartialEq)]
pub enum StrategyInput {
    Begin,
    ModelAnswered {
        node: NodeKey,
        completion: Completion,
    },
    /// `error` is a human-readable sentence.
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
    /// All model requests and tool calls of the node have completed.
    Leave {
        node: NodeKey,
        failed: Option<String>,
    },
    Report {
        node: NodeKey,
        finding: StrategyFinding,
    },
    /// A model request with these messages after the agent's system text. Roles alternate and the last message is the
    /// user's.
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
    /// No step follows it; the driver leaves the nodes that are still entered.
    Finish(StrategyOutcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolAvailability {
    Offered,
    /// The request offers no tools, so the model can answer only in text.
    Withheld,
}

/// How the text of a model answer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// Text for the user: the reply, or text that accompanies tool calls on the way there. The last answer of this kind
    /// is the run's reply.
    Reply,
    /// Intermediate notes, which chat clients do not see.
    Draft,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StrategyOutcome {
    Completed,
    Failed(String),
}

/// A complete model answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub stop: StopReason,
}

/// The input a strategy is built from.
#[derive(Debug, Clone)]
pub struct StrategySpec {
    /// Messages of earlier turns.
    pub history: Vec<ModelMessage>,
    pub user: ModelMessage,
    pub reasoning: ReasoningOptions,
    /// got: the request asks for adaptive splitting of tasks.
    pub adaptive: bool,
    /// Part of the ids a strategy generates itself, such as call ids, so that no two runs share one.
    pub tag: Arc<str>,
}

pub fn build(kind: StrategyKind, spec: StrategySpec) -> Box<dyn Strategy> {
    match kind {
        StrategyKind::React => Box::new(react::React::new(spec)),
        StrategyKind::Dup => Box::new(dup::Dup::new(spec)),
        StrategyKind::Tot => Box::new(tot::Tot::new(spec)),
        StrategyKind::Got => Box::new(got::Got::new(spec)),
    }
}

#[cfg(test)]
mod tests;
