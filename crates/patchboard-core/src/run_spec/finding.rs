//! Intermediate results of a strategy, independent of any wire format. They are published as they occur and suffice to
//! redraw the strategy's search.

use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
pub enum StrategyFinding {
    /// dup: the core question, the given information and the relevant context.
    Understood {
        goal: Arc<str>,
        constraints: Vec<Arc<str>>,
        context: Arc<str>,
    },
    /// tot: the thoughts proposed as children of `of`. They are numbered from `first` on, in their order.
    Expanded {
        of: ThoughtId,
        first: ThoughtId,
        depth: u32,
        candidates: Vec<Arc<str>>,
    },
    /// tot: the scores of children of `of`, numbered from `first` on, and the index of the best.
    Evaluated {
        of: ThoughtId,
        first: ThoughtId,
        chosen: u32,
        scores: Vec<f32>,
    },
    /// tot: the thought became a step of a path: its tools run and its children may be proposed.
    Followed {
        thought: ThoughtId,
    },
    /// tot: the path that ends at `from` was abandoned; another child of `to` is followed next.
    Backtracked {
        from: ThoughtId,
        to: ThoughtId,
        reason: Arc<str>,
        to_depth: u32,
    },
    /// got: the task graph. An edge leads from a task to one that needs its result, both by their ids.
    Planned {
        tasks: Vec<PlannedTask>,
        edges: Vec<(Arc<str>, Arc<str>)>,
    },
    TaskStarted {
        task: Arc<str>,
    },
    TaskCompleted {
        task: Arc<str>,
        result: Arc<str>,
    },
    TaskFailed {
        task: Arc<str>,
        error: Arc<str>,
    },
    /// got: a finished task was split into further ones; `edges` are all edges added, `dropped` those removed.
    TaskExpanded {
        task: Arc<str>,
        tasks: Vec<PlannedTask>,
        edges: Vec<(Arc<str>, Arc<str>)>,
        dropped: Vec<(Arc<str>, Arc<str>)>,
    },
}

/// A thought of a search, numbered in the order of proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThoughtId(pub u32);

impl ThoughtId {
    /// The question itself.
    pub const ROOT: Self = Self(0);
}

/// One task of a task graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTask {
    pub id: Arc<str>,
    pub description: Arc<str>,
}

impl StrategyFinding {
    /// Approximate size in bytes.
    pub fn weight(&self) -> usize {
        let texts = |texts: &[Arc<str>]| texts.iter().map(|text| 24 + text.len()).sum::<usize>();
        let tasks =
            |tasks: &[PlannedTask]| tasks.iter().map(|task| 48 + task.id.len() + task.description.len()).sum::<usize>();
        let edges = |edges: &[(Arc<str>, Arc<str>)]| edges.iter().map(|(a, b)| 32 + a.len() + b.len()).sum::<usize>();
        match self {
            Self::Understood { goal, constraints, context } => goal.len() + texts(constraints) + context.len(),
            Self::Expanded { candidates, .. } => texts(candidates),
            Self::Evaluated { scores, .. } => 4 * scores.len(),
            Self::Followed { .. } => 0,
            Self::Backtracked { reason, .. } => reason.len(),
            Self::Planned { tasks: nodes, edges: arrows } => tasks(nodes) + edges(arrows),
            Self::TaskStarted { task } => task.len(),
            Self::TaskCompleted { task, result } => task.len() + result.len(),
            Self::TaskFailed { task, error } => task.len() + error.len(),
            Self::TaskExpanded { task, tasks: nodes, edges: arrows, dropped } => {
                task.len() + tasks(nodes) + edges(arrows) + edges(dropped)
            }
        }
    }
}
