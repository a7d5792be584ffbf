//! `[agents.NAME.tot]` and `[agents.NAME.got]`: limits of the searching strategies.

use patchboard_core::run_spec::reasoning::{GotOptions, SearchMethod, TotOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of the tree search of the strategy `tot`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TotConfig {
    /// Thoughts proposed at each step.
    #[schemars(range(min = 2, max = 5))]
    pub breadth: u32,
    /// Length of a path of thoughts before the answer is written.
    #[schemars(range(min = 1, max = 10))]
    pub depth: u32,
    /// Order in which thoughts are followed.
    pub search: TotSearch,
    /// Thoughts kept at each depth by a beam search.
    #[schemars(range(min = 1, max = 5))]
    pub beam: u32,
    /// Score from 0 to 1 below which a depth-first search abandons a path.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TotSearch {
    /// keep the best thoughts of each depth
    Beam,
    /// follow the best thought to the end, and backtrack if it fails
    DepthFirst,
}

impl Default for TotConfig {
    fn default() -> Self {
        Self { breadth: 3, depth: 3, search: TotSearch::Beam, beam: 1, threshold: 0.4 }
    }
}

impl TotConfig {
    pub(crate) fn options(&self) -> TotOptions {
        TotOptions {
            breadth: self.breadth,
            depth: self.depth,
            search: match self.search {
                TotSearch::Beam => SearchMethod::Beam,
                TotSearch::DepthFirst => SearchMethod::DepthFirst,
            },
            beam: self.beam,
            #[expect(clippy::cast_possible_truncation, reason = "a score between 0 and 1 fits")]
            threshold: self.threshold as f32,
        }
    }
}

/// Options of the task graph of the strategy `got`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GotConfig {
    /// Total number of tasks, including those that tasks are split into.
    #[schemars(range(min = 1, max = 64))]
    pub max_tasks: u32,
    /// Tasks executed at once.
    #[schemars(range(min = 1, max = 16))]
    pub parallel: u32,
    /// Split finished tasks that turn out to be large, even if a run does not request it.
    pub adaptive: bool,
}

impl Default for GotConfig {
    fn default() -> Self {
        let GotOptions { max_tasks, parallel, adaptive, .. } = GotOptions::default();
        Self { max_tasks, parallel, adaptive }
    }
}

impl GotConfig {
    pub(crate) fn options(&self) -> GotOptions {
        let Self { max_tasks, parallel, adaptive } = *self;
        GotOptions { max_tasks, parallel, adaptive, ..GotOptions::default() }
    }
}
