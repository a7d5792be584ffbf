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

/// One reasoning strategy. Implementations hold the run's own conversation and their limits.
pub trait Strategy: Send + fmt::Debug {
    /// Takes one input and pushes the next steps. Not called again after `Step::Finish`.
    fn advance(&mut self, input: StrategyInput, steps: &mut Vec<StrategyStep>);

    /// The messages of the run that are stored in the session's history: the user's message first, then model answers
    /// and tool results.
    fn transcript(&self) -> Vec<ModelMessage>;
}

/// Identifies one entry into a node within a run. Chosen by the strategy, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeKey(pub u32);

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

/// Limits and options of the strategies.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReasoningOptions {
    /// Model calls of one run; `None` for the strategy's default. A run that would need more ends with the result so
    /// far or with an error, so that the cost is bounded.
    pub max_model_calls: Option<u32>,
    /// Rounds of tools in one run or task; `None` leaves `max_model_calls` as the only limit.
    pub max_turns: Option<u32>,
    /// Limits of tot and got, chosen for slow models; they apply where the agent sets none.
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
        // Zero is raised to one: no run can answer without a model call.
        calls.max(1)
    }

    /// The output limit of one call in tokens; `max_tokens` is the agent's own limit.
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
    /// Model calls of one run if the agent sets no number.
    pub model_calls: u32,
    /// Output limit of one call; applies where it is lower than the agent's.
    pub max_tokens: Option<u32>,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { model_calls: 100, max_tokens: None }
    }
}

/// Options of the tree search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TotOptions {
    /// Thoughts proposed at each step, 2 to 5.
    pub breadth: u32,
    /// Longest path of thoughts before the answer is written.
    pub depth: u32,
    pub search: SearchMethod,
    /// Thoughts kept at each depth by a beam search.
    pub beam: u32,
    /// A depth-first search abandons a path whose best score is below this.
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

/// Options of the task graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GotOptions {
    /// Total number of tasks, expansions included.
    pub max_tasks: u32,
    /// Tasks executed concurrently.
    pub parallel: u32,
    /// Plans requested; if the last one still has a cycle, the edges that close the cycle are dropped.
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
