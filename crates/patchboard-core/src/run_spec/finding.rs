//! What a strategy finds out on the way, in no wire's words: told as it happens, and enough to redraw its search.

use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
pub enum StrategyFinding {
    /// dup: what the question really asks, what is given, and what else matters.
    Understood {
        goal: Arc<str>,
        constraints: Vec<Arc<str>>,
        context: Arc<str>,
    },
    /// tot: next thoughts proposed at this depth.
    Expanded {
        depth: u32,
        candidates: Vec<Arc<str>>,
    },
    /// tot: their scores, and which of them is followed.
    Evaluated {
        chosen: u32,
        scores: Vec<f32>,
    },
    /// tot: a path was given up.
    Backtracked {
        reason: Arc<str>,
        to_depth: u32,
    },
    /// got: the graph of tasks.
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
    /// got: a finished task was split into further ones; `edges` are all edges added, `dropped` those that gave way.
    TaskExpanded {
        task: Arc<str>,
        tasks: Vec<PlannedTask>,
        edges: Vec<(Arc<str>, Arc<str>)>,
        dropped: Vec<(Arc<str>, Arc<str>)>,
    },
}

/// One task of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTask {
    pub id: Arc<str>,
    pub description: Arc<str>,
}

impl StrategyFinding {
    /// About how many bytes it takes.
    pub fn weight(&self) -> usize {
        let texts = |texts: &[Arc<str>]| texts.iter().map(|text| 24 + text.len()).sum::<usize>();
        let tasks =
            |tasks: &[PlannedTask]| tasks.iter().map(|task| 48 + task.id.len() + task.description.len()).sum::<usize>();
        let edges = |edges: &[(Arc<str>, Arc<str>)]| edges.iter().map(|(a, b)| 32 + a.len() + b.len()).sum::<usize>();
        match self {
            Self::Understood { goal, constraints, context } => goal.len() + texts(constraints) + context.len(),
            Self::Expanded { candidates, .. } => texts(candidates),
            Self::Evaluated { scores, .. } => 4 * scores.len(),
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
