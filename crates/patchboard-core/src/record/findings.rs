//! The stored form of the intermediate results of strategies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::run_spec::finding::{self, ThoughtId};

type TaskEdge = (Arc<str>, Arc<str>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredFinding {
    Understood { goal: Arc<str>, constraints: Vec<Arc<str>>, context: Arc<str> },
    Expanded { of: u32, first: u32, depth: u32, candidates: Vec<Arc<str>> },
    Evaluated { of: u32, first: u32, chosen: u32, scores: Vec<f32> },
    Followed { thought: u32 },
    Backtracked { from: u32, to: u32, reason: Arc<str>, to_depth: u32 },
    Planned { tasks: Vec<StoredTask>, edges: Vec<TaskEdge> },
    TaskStarted { task: Arc<str> },
    TaskCompleted { task: Arc<str>, result: Arc<str> },
    TaskFailed { task: Arc<str>, error: Arc<str> },
    TaskExpanded { task: Arc<str>, tasks: Vec<StoredTask>, edges: Vec<TaskEdge>, dropped: Vec<TaskEdge> },
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredTask {
    id: Arc<str>,
    description: Arc<str>,
}

impl From<&finding::StrategyFinding> for StoredFinding {
    fn from(finding: &finding::StrategyFinding) -> Self {
        let tasks = |tasks: &[finding::PlannedTask]| {
            let stored =
                |task: &finding::PlannedTask| StoredTask { id: task.id.clone(), description: task.description.clone() };
            tasks.iter().map(stored).collect()
        };
        match finding.clone() {
            finding::StrategyFinding::Understood { goal, constraints, context } => {
                Self::Understood { goal, constraints, context }
            }
            finding::StrategyFinding::Expanded { of, first, depth, candidates } => {
                Self::Expanded { of: of.0, first: first.0, depth, candidates }
            }
            finding::StrategyFinding::Evaluated { of, first, chosen, mut scores } => {
                // JSON cannot hold NaN or infinity; such a score has no meaning anyway.
                scores.iter_mut().filter(|score| !score.is_finite()).for_each(|score| *score = 0.0);
                Self::Evaluated { of: of.0, first: first.0, chosen, scores }
            }
            finding::StrategyFinding::Followed { thought } => Self::Followed { thought: thought.0 },
            finding::StrategyFinding::Backtracked { from, to, reason, to_depth } => {
                Self::Backtracked { from: from.0, to: to.0, reason, to_depth }
            }
            finding::StrategyFinding::Planned { tasks: planned, edges } => {
                Self::Planned { tasks: tasks(&planned), edges }
            }
            finding::StrategyFinding::TaskStarted { task } => Self::TaskStarted { task },
            finding::StrategyFinding::TaskCompleted { task, result } => Self::TaskCompleted { task, result },
            finding::StrategyFinding::TaskFailed { task, error } => Self::TaskFailed { task, error },
            finding::StrategyFinding::TaskExpanded { task, tasks: added, edges, dropped } => {
                Self::TaskExpanded { task, tasks: tasks(&added), edges, dropped }
            }
        }
    }
}

impl From<StoredFinding> for finding::StrategyFinding {
    fn from(stored: StoredFinding) -> Self {
        let tasks = |tasks: Vec<StoredTask>| {
            tasks.into_iter().map(|StoredTask { id, description }| finding::PlannedTask { id, description }).collect()
        };
        match stored {
            StoredFinding::Understood { goal, constraints, context } => Self::Understood { goal, constraints, context },
            StoredFinding::Expanded { of, first, depth, candidates } => {
                Self::Expanded { of: ThoughtId(of), first: ThoughtId(first), depth, candidates }
            }
            StoredFinding::Evaluated { of, first, chosen, scores } => {
                Self::Evaluated { of: ThoughtId(of), first: ThoughtId(first), chosen, scores }
            }
            StoredFinding::Followed { thought } => Self::Followed { thought: ThoughtId(thought) },
            StoredFinding::Backtracked { from, to, reason, to_depth } => {
                Self::Backtracked { from: ThoughtId(from), to: ThoughtId(to), reason, to_depth }
            }
            StoredFinding::Planned { tasks: planned, edges } => Self::Planned { tasks: tasks(planned), edges },
            StoredFinding::TaskStarted { task } => Self::TaskStarted { task },
            StoredFinding::TaskCompleted { task, result } => Self::TaskCompleted { task, result },
            StoredFinding::TaskFailed { task, error } => Self::TaskFailed { task, error },
            StoredFinding::TaskExpanded { task, tasks: added, edges, dropped } => {
                Self::TaskExpanded { task, tasks: tasks(added), edges, dropped }
            }
        }
    }
}
