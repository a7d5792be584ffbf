//! The task graph: tasks, their prerequisites and their remaining budgets.
//!
//! Concurrent tasks finish in any order, and a replayed run may see another order than the original one, so the graph
//! must not depend on it: model calls and room for further tasks are distributed to the tasks beforehand, the unused
//! budget of a task goes to its dependents, and keys are derived from a task's position in the graph.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::plan::TaskPlan;
use crate::run_spec::NodeKey;
use crate::run_spec::finding::PlannedTask;

/// Tasks one task may be split into.
pub(super) const MAX_CHILDREN: u32 = 6;
/// Depth of repeated splits: planned tasks have level 0, and tasks of this level are not split.
const MAX_LEVEL: u32 = 2;
/// Bits of a key for the index among the children, for each level; the numbers of planned tasks use the bits above.
const CHILD_BITS: u32 = 5;

type NamedEdge = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
pub(super) struct TaskDag {
    vertices: BTreeMap<NodeKey, TaskVertex>,
}

#[derive(Debug)]
pub(super) struct TaskVertex {
    pub(super) id: Arc<str>,
    pub(super) description: Arc<str>,
    level: u32,
    prerequisites: BTreeSet<NodeKey>,
    dependents: BTreeSet<NodeKey>,
    pub(super) budget: TaskBudget,
    pub(super) is_started: bool,
    pub(super) outcome: Option<TaskOutcome>,
}

/// What a task may still spend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TaskBudget {
    pub(super) model_calls: u32,
    /// Number of tasks it may be split into, their own splits included.
    pub(super) tasks: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TaskOutcome {
    Done(Arc<str>),
    Failed(Arc<str>),
}

/// The changes one split made to the graph.
#[derive(Debug, PartialEq)]
pub(super) struct GraphExpansion {
    pub(super) tasks: Vec<PlannedTask>,
    pub(super) edges: Vec<NamedEdge>,
    pub(super) dropped: Vec<NamedEdge>,
}

impl TaskDag {
    /// `plan` must have no cycles.
    pub(super) fn new(plan: &TaskPlan, allowance: TaskBudget) -> Self {
        let mut graph = Self::default();
        let keys: Vec<NodeKey> =
            (1u32..).map(|number| NodeKey(number << (2 * CHILD_BITS))).take(plan.tasks.len()).collect();
        graph.insert(plan, &plan.tasks, &keys, 0);
        graph.distribute(&keys, allowance);
        graph
    }

    pub(super) fn get(&self, key: NodeKey) -> Option<&TaskVertex> {
        self.vertices.get(&key)
    }

    /// In key order.
    pub(super) fn vertices(&self) -> impl Iterator<Item = &TaskVertex> {
        self.vertices.values()
    }

    pub(super) fn get_mut(&mut self, key: NodeKey) -> Option<&mut TaskVertex> {
        self.vertices.get_mut(&key)
    }

    pub(super) fn len(&self) -> usize {
        self.vertices.len()
    }

    /// The first task, in key order, that is not started and whose prerequisites have all ended.
    pub(super) fn next_ready(&self) -> Option<NodeKey> {
        let mut unstarted = self.vertices.iter().filter(|(_, vertex)| !vertex.is_started);
        unstarted
            .find(|(_, vertex)| self.prerequisites(vertex).all(|vertex| vertex.outcome.is_some()))
            .map(|(key, _)| *key)
    }

    /// The prerequisites of the task, whose outcomes are its inputs.
    pub(super) fn inputs<'a>(&'a self, vertex: &'a TaskVertex) -> Vec<&'a TaskVertex> {
        self.prerequisites(vertex).collect()
    }

    /// Does the task have prerequisites, and have they all failed?
    pub(super) fn all_inputs_failed(&self, vertex: &TaskVertex) -> bool {
        !vertex.prerequisites.is_empty() && self.prerequisites(vertex).all(TaskVertex::is_failed)
    }

    /// The input of the aggregate: results that no finished task depends on, and every failure.
    pub(super) fn final_results(&self) -> Vec<&TaskVertex> {
        let counts = |vertex: &&TaskVertex| {
            let used = || vertex.dependents.iter().filter_map(|key| self.get(*key)).any(TaskVertex::is_done);
            vertex.is_failed() || (vertex.is_done() && !used())
        };
        self.vertices().filter(counts).collect()
    }

    pub(super) fn any_done(&self) -> bool {
        self.vertices().any(TaskVertex::is_done)
    }

    pub(super) fn first_error(&self) -> Option<Arc<str>> {
        self.vertices().find_map(|vertex| match &vertex.outcome {
            Some(TaskOutcome::Failed(error)) => Some(error.clone()),
            Some(TaskOutcome::Done(_)) | None => None,
        })
    }

    /// How many tasks a finished task may be split into, if the question costs one call and each new task at least one.
    pub(super) fn max_split(&self, key: NodeKey) -> u32 {
        let Some(vertex) = self.get(key).filter(|vertex| vertex.level < MAX_LEVEL) else { return 0 };
        let TaskBudget { model_calls, tasks } = vertex.budget;
        MAX_CHILDREN.min(tasks).min(model_calls.saturating_sub(1))
    }

    /// Splits a finished task: `plan`, which must have no cycles, is inserted after it, and its former dependents then
    /// depend on the last tasks of the plan.
    pub(super) fn expand(&mut self, parent: NodeKey, plan: &TaskPlan) -> GraphExpansion {
        let Some(vertex) = self.get(parent) else {
            return GraphExpansion { tasks: vec![], edges: vec![], dropped: vec![] };
        };
        let (level, name, mut allowance) = (vertex.level + 1, vertex.id.clone(), vertex.budget);
        let shift = CHILD_BITS * (MAX_LEVEL - level);
        let keys: Vec<NodeKey> = (1u32..).map(|n| NodeKey(parent.0 | (n << shift))).take(plan.tasks.len()).collect();
        let tasks: Vec<PlannedTask> = plan
            .tasks
            .iter()
            .zip(1..)
            .map(|(task, number)| PlannedTask {
                id: format!("{name}_sub_{number}").into(),
                description: task.description.clone(),
            })
            .collect();
        self.insert(plan, &tasks, &keys, level);
        let dependents = self.get_mut(parent).map(|vertex| std::mem::take(&mut vertex.dependents)).unwrap_or_default();
        for dependent in &dependents {
            if let Some(vertex) = self.get_mut(*dependent) {
                vertex.prerequisites.remove(&parent);
            }
        }
        let roots: Vec<NodeKey> = self.keys_where(&keys, |vertex| vertex.prerequisites.is_empty());
        let leaves: Vec<NodeKey> = self.keys_where(&keys, |vertex| vertex.dependents.is_empty());
        let inner = keys.iter().flat_map(|from| {
            let after = self.get(*from).map(|vertex| vertex.dependents.clone()).unwrap_or_default();
            after.into_iter().map(move |to| (*from, to))
        });
        let mut added: Vec<(NodeKey, NodeKey)> = roots.iter().map(|root| (parent, *root)).collect();
        added.extend(inner);
        added.extend(leaves.iter().flat_map(|leaf| dependents.iter().map(move |dependent| (*leaf, *dependent))));
        for (from, to) in &added {
            self.connect(*from, *to);
        }
        allowance.tasks = allowance.tasks.saturating_sub(u32::try_from(keys.len()).unwrap_or(u32::MAX));
        self.distribute(&keys, allowance);
        if let Some(vertex) = self.get_mut(parent) {
            vertex.budget = TaskBudget::default();
        }
        let named =
            |edges: &[(NodeKey, NodeKey)]| edges.iter().filter_map(|(from, to)| self.named_edge(*from, *to)).collect();
        let dropped: Vec<_> = dependents.iter().map(|dependent| (parent, *dependent)).collect();
        GraphExpansion { tasks, edges: named(&added), dropped: named(&dropped) }
    }

    /// Ends a task. Its remaining budget goes to its dependents.
    pub(super) fn finish(&mut self, key: NodeKey, outcome: TaskOutcome) {
        let Some(vertex) = self.get_mut(key) else { return };
        vertex.outcome = Some(outcome);
        let remaining = std::mem::take(&mut vertex.budget);
        let dependents: Vec<NodeKey> = vertex.dependents.iter().copied().collect();
        self.distribute(&dependents, remaining);
    }

    fn insert(&mut self, plan: &TaskPlan, tasks: &[PlannedTask], keys: &[NodeKey], level: u32) {
        for (task, key) in tasks.iter().zip(keys) {
            let PlannedTask { id, description } = task.clone();
            let vertex = TaskVertex {
                id,
                description,
                level,
                prerequisites: BTreeSet::new(),
                dependents: BTreeSet::new(),
                budget: TaskBudget::default(),
                is_started: false,
                outcome: None,
            };
            self.vertices.insert(*key, vertex);
        }
        for (from, to) in &plan.edges {
            if let (Some(from), Some(to)) = (keys.get(*from), keys.get(*to)) {
                self.connect(*from, *to);
            }
        }
    }

    fn connect(&mut self, from: NodeKey, to: NodeKey) {
        if let Some(vertex) = self.get_mut(from) {
            vertex.dependents.insert(to);
        }
        if let Some(vertex) = self.get_mut(to) {
            vertex.prerequisites.insert(from);
        }
    }

    /// Distributes an allowance among tasks evenly; the first ones get the remainder.
    fn distribute(&mut self, keys: &[NodeKey], allowance: TaskBudget) {
        let count = u32::try_from(keys.len()).unwrap_or(u32::MAX).max(1);
        let share = |whole: u32, index: u32| whole / count + u32::from(index < whole % count);
        for (key, index) in self.topological_order(keys).into_iter().zip(0..) {
            if let Some(vertex) = self.get_mut(key) {
                vertex.budget.model_calls += share(allowance.model_calls, index);
                vertex.budget.tasks += share(allowance.tasks, index);
            }
        }
    }

    /// These tasks ordered so that each comes after its prerequisites.
    fn topological_order(&self, keys: &[NodeKey]) -> Vec<NodeKey> {
        let mut remaining: BTreeSet<NodeKey> = keys.iter().copied().collect();
        let mut ordered = Vec::with_capacity(remaining.len());
        while let Some(first) = remaining.first().copied() {
            let is_free =
                |key: &&NodeKey| self.get(**key).is_none_or(|vertex| vertex.prerequisites.is_disjoint(&remaining));
            let next = remaining.iter().find(is_free).copied().unwrap_or(first);
            remaining.remove(&next);
            ordered.push(next);
        }
        ordered
    }

    fn prerequisites<'a>(&'a self, vertex: &'a TaskVertex) -> impl Iterator<Item = &'a TaskVertex> {
        vertex.prerequisites.iter().filter_map(|key| self.get(*key))
    }

    fn keys_where(&self, keys: &[NodeKey], predicate: impl Fn(&TaskVertex) -> bool) -> Vec<NodeKey> {
        keys.iter().copied().filter(|key| self.get(*key).is_some_and(&predicate)).collect()
    }

    fn named_edge(&self, from: NodeKey, to: NodeKey) -> Option<NamedEdge> {
        Some((self.get(from)?.id.clone(), self.get(to)?.id.clone()))
    }
}

impl TaskVertex {
    fn is_done(&self) -> bool {
        matches!(self.outcome, Some(TaskOutcome::Done(_)))
    }

    fn is_failed(&self) -> bool {
        matches!(self.outcome, Some(TaskOutcome::Failed(_)))
    }
}
