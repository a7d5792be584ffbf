//! How far each strategy may go.

use super::StrategyKind;

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
