//! How far each strategy may go.

use super::StrategyKind;

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
