//! How an agent reasons, as a state machine without I/O: inputs in, steps out. The driver does what the steps say
//! and feeds back what came of it, possibly several at a time.
//!
//! A strategy works in nodes. It enters one, asks and calls from inside it, and leaves it; what is on record up to the
//! last node left is never done again. After a crash a strategy of the same brief is fed the recorded inputs, so:
//!
//! * the same inputs give the same steps; where several nodes are at work at once, whatever the order their inputs
//!   come in, each node keeps its key;
//! * a node has at most one question to the model open at a time.

use std::fmt;
use std::sync::Arc;

use crate::agent::StrategyKind;
use crate::id::CallId;
use crate::model::{ModelMessage, StopReason, ToolCall};
use crate::run::finding::StrategyFinding;
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

/// Names one entry into a node inside a run. Chosen by the strategy, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeKey(pub u32);

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

/// How far strategies may go.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReasoningOptions {
    /// Model calls of one run; `None` for the strategy's own default. A run that would need more ends with what it has
    /// or with an error, never with a surprise on the bill.
    pub max_model_calls: Option<u32>,
    /// Rounds of tools in one run or task; `None` for as many as the model calls allow.
    pub max_turns: Option<u32>,
    /// What tot and got may use of a slow model where nothing else is said.
    pub search_limits: SearchLimits,
    pub tot: TotOptions,
    pub got: GotOptions,
}

impl ReasoningOptions {
    pub fn model_calls(&self, kind: StrategyKind) -> u32 {
        let calls = self.max_model_calls.unwrap_or(match kind {
            StrategyKind::React | StrategyKind::Dup => 10,
            // Searching strategies branch: ten calls would end them at depth one.
            StrategyKind::Tot | StrategyKind::Got => self.search_limits.model_calls,
        });
        // Nothing can be said without asking once.
        calls.max(1)
    }

    /// The longest answer of one call, in tokens, of an agent whose answers have at most `max_tokens`.
    pub fn max_output(&self, kind: StrategyKind, max_tokens: u32) -> u32 {
        match kind {
            StrategyKind::React | StrategyKind::Dup => max_tokens,
            StrategyKind::Tot | StrategyKind::Got => {
                self.search_limits.max_tokens.map_or(max_tokens, |most| most.min(max_tokens))
            }
        }
    }
}

/// Bounds of the strategies that make many calls for one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchLimits {
    /// Model calls of one run whose agent names no number.
    pub model_calls: u32,
    /// The longest answer of one call, where it is less than the agent's.
    pub max_tokens: Option<u32>,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { model_calls: 100, max_tokens: None }
    }
}

/// How a tree of thoughts is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TotOptions {
    /// Thoughts proposed at each step, 2 to 5.
    pub breadth: u32,
    /// Thoughts in a row before the answer is written.
    pub depth: u32,
    pub search: SearchMethod,
    /// Thoughts kept at each depth by a beam search.
    pub beam: u32,
    /// A depth-first search gives up a path whose best score is below this.
    pub threshold: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchMethod {
    Beam,
    DepthFirst,
}

impl Default for TotOptions {
    fn default() -> Self {
        Self { breadth: 3, depth: 3, search: SearchMethod::Beam, beam: 1, threshold: 0.4 }
    }
}

/// How a graph of thoughts is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GotOptions {
    /// Tasks in all, expansions included.
    pub max_tasks: u32,
    /// Tasks at work at once.
    pub parallel: u32,
    /// Plans asked for before the last one is taken as far as it can be.
    pub max_plans: u32,
    /// Split tasks even when the request does not ask for it.
    pub adaptive: bool,
}

impl Default for GotOptions {
    fn default() -> Self {
        Self { max_tasks: 24, parallel: 4, max_plans: 3, adaptive: false }
    }
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
