//! The tasks, what they wait for and what they may still spend.
//!
//! Tasks at work at the same time finish in any order, and a run that is replayed may see another order than the first
//! time. So nothing here depends on it: model calls and room for further tasks are dealt out to the tasks beforehand,
//! what a task leaves over goes on along its edges, and keys tell where in the graph a task sits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::plan::Plan;
use crate::run::finding::Task;
use crate::run::strategy::NodeKey;

/// Tasks one task may be split into.
pub(super) const MAX_CHILDREN: u32 = 6;
/// Splits of splits: a task of the plan has level 0, and none of this level is split.
const MAX_LEVEL: u32 = 2;
/// Bits of a key for the place among the children of each level; planned tasks are numbered above them.
const CHILD_BITS: u32 = 5;

type Edge = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
pub(super) struct Graph {
    vertices: BTreeMap<NodeKey, Vertex>,
}

#[derive(Debug)]
pub(super) struct Vertex {
    pub(super) id: Arc<str>,
    pub(super) description: Arc<str>,
    level: u32,
    before: BTreeSet<NodeKey>,
    after: BTreeSet<NodeKey>,
    pub(super) allowance: Allowance,
    pub(super) is_started: bool,
    pub(super) outcome: Option<Outcome>,
}

/// What a task may spend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Allowance {
    pub(super) model_calls: u32,
    /// Tasks it may be split into, and those further.
    pub(super) tasks: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Done(Arc<str>),
    Failed(Arc<str>),
}

/// How a graph grew.
#[derive(Debug, PartialEq)]
pub(super) struct Growth {
    pub(super) tasks: Vec<Task>,
    pub(super) edges: Vec<Edge>,
    pub(super) dropped: Vec<Edge>,
}

impl Graph {
    /// `plan` has no cycles.
    pub(super) fn new(plan: &Plan, allowance: Allowance) -> Self {
        let mut graph = Self::default();
        let keys: Vec<NodeKey> =
            (1u32..).map(|number| NodeKey(number << (2 * CHILD_BITS))).take(plan.tasks.len()).collect();
        graph.insert(plan, &plan.tasks, &keys, 0);
        graph.deal(&keys, allowance);
        graph
    }

    pub(super) fn get(&self, key: NodeKey) -> Option<&Vertex> {
        self.vertices.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: NodeKey) -> Option<&mut Vertex> {
        self.vertices.get_mut(&key)
    }

    pub(super) fn len(&self) -> usize {
        self.vertices.len()
    }

    /// The first task, in the order of the graph, that waits for nothing more.
    pub(super) fn ready(&self) -> Option<NodeKey> {
        let mut waiting = self.vertices.iter().filter(|(_, vertex)| !vertex.is_started);
        waiting.find(|(_, vertex)| self.before(vertex).all(|vertex| vertex.outcome.is_some())).map(|(key, _)| *key)
    }

    /// What the tasks before it came to.
    pub(super) fn inputs<'a>(&'a self, vertex: &'a Vertex) -> Vec<&'a Vertex> {
        self.before(vertex).collect()
    }

    /// Does it build on others, and have they all failed?
    pub(super) fn is_without_ground(&self, vertex: &Vertex) -> bool {
        !vertex.before.is_empty() && self.before(vertex).all(Vertex::is_failed)
    }

    /// What the reply is made from: results no other result was made from, and every failure.
    pub(super) fn results(&self) -> Vec<&Vertex> {
        let counts = |vertex: &&Vertex| {
            let used = || vertex.after.iter().filter_map(|key| self.get(*key)).any(Vertex::is_done);
            vertex.is_failed() || (vertex.is_done() && !used())
        };
        self.vertices.values().filter(counts).collect()
    }

    pub(super) fn any_done(&self) -> bool {
        self.vertices.values().any(Vertex::is_done)
    }

    pub(super) fn first_error(&self) -> Option<Arc<str>> {
        self.vertices.values().find_map(|vertex| match &vertex.outcome {
            Some(Outcome::Failed(error)) => Some(error.clone()),
            Some(Outcome::Done(_)) | None => None,
        })
    }

    /// How many tasks a finished task may be split into, if asking costs one call and each of them takes at least one.
    pub(super) fn room_to_grow(&self, key: NodeKey) -> u32 {
        let Some(vertex) = self.get(key).filter(|vertex| vertex.level < MAX_LEVEL) else { return 0 };
        let Allowance { model_calls, tasks } = vertex.allowance;
        MAX_CHILDREN.min(tasks).min(model_calls.saturating_sub(1))
    }

    /// Splits a finished task: `plan`, which has no cycles, follows it, and what followed it waits for the plan's ends.
    pub(super) fn grow(&mut self, parent: NodeKey, plan: &Plan) -> Growth {
        let Some(vertex) = self.get(parent) else { return Growth { tasks: vec![], edges: vec![], dropped: vec![] } };
        let (level, name, mut allowance) = (vertex.level + 1, vertex.id.clone(), vertex.allowance);
        let place = CHILD_BITS * (MAX_LEVEL - level);
        let keys: Vec<NodeKey> = (1u32..).map(|n| NodeKey(parent.0 | (n << place))).take(plan.tasks.len()).collect();
        let tasks: Vec<Task> = plan
            .tasks
            .iter()
            .zip(1..)
            .map(|(task, number)| Task {
                id: format!("{name}_sub_{number}").into(),
                description: task.description.clone(),
            })
            .collect();
        self.insert(plan, &tasks, &keys, level);
        let followers = self.get_mut(parent).map(|vertex| std::mem::take(&mut vertex.after)).unwrap_or_default();
        for follower in &followers {
            if let Some(vertex) = self.get_mut(*follower) {
                vertex.before.remove(&parent);
            }
        }
        let begins: Vec<NodeKey> = self.among(&keys, |vertex| vertex.before.is_empty());
        let ends: Vec<NodeKey> = self.among(&keys, |vertex| vertex.after.is_empty());
        let inner = keys.iter().flat_map(|from| {
            let after = self.get(*from).map(|vertex| vertex.after.clone()).unwrap_or_default();
            after.into_iter().map(move |to| (*from, to))
        });
        let mut added: Vec<(NodeKey, NodeKey)> = begins.iter().map(|begin| (parent, *begin)).collect();
        added.extend(inner);
        added.extend(ends.iter().flat_map(|end| followers.iter().map(move |follower| (*end, *follower))));
        for (from, to) in &added {
            self.connect(*from, *to);
        }
        allowance.tasks = allowance.tasks.saturating_sub(u32::try_from(keys.len()).unwrap_or(u32::MAX));
        self.deal(&keys, allowance);
        if let Some(vertex) = self.get_mut(parent) {
            vertex.allowance = Allowance::default();
        }
        let named =
            |edges: &[(NodeKey, NodeKey)]| edges.iter().filter_map(|(from, to)| self.named(*from, *to)).collect();
        let dropped: Vec<_> = followers.iter().map(|follower| (parent, *follower)).collect();
        Growth { tasks, edges: named(&added), dropped: named(&dropped) }
    }

    /// Ends a task. What it may still spend goes to those that follow it.
    pub(super) fn finish(&mut self, key: NodeKey, outcome: Outcome) {
        let Some(vertex) = self.get_mut(key) else { return };
        vertex.outcome = Some(outcome);
        let left = std::mem::take(&mut vertex.allowance);
        let followers: Vec<NodeKey> = vertex.after.iter().copied().collect();
        self.deal(&followers, left);
    }

    fn insert(&mut self, plan: &Plan, tasks: &[Task], keys: &[NodeKey], level: u32) {
        for (task, key) in tasks.iter().zip(keys) {
            let Task { id, description } = task.clone();
            let vertex = Vertex {
                id,
                description,
                level,
                before: BTreeSet::new(),
                after: BTreeSet::new(),
                allowance: Allowance::default(),
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
            vertex.after.insert(to);
        }
        if let Some(vertex) = self.get_mut(to) {
            vertex.before.insert(from);
        }
    }

    /// Shares an allowance among tasks as evenly as it goes; those that come first get what is odd.
    fn deal(&mut self, keys: &[NodeKey], allowance: Allowance) {
        let count = u32::try_from(keys.len()).unwrap_or(u32::MAX).max(1);
        let share = |whole: u32, index: u32| whole / count + u32::from(index < whole % count);
        for (key, index) in self.in_order(keys).into_iter().zip(0..) {
            if let Some(vertex) = self.get_mut(key) {
                vertex.allowance.model_calls += share(allowance.model_calls, index);
                vertex.allowance.tasks += share(allowance.tasks, index);
            }
        }
    }

    /// These tasks so that none comes before one it waits for.
    fn in_order(&self, keys: &[NodeKey]) -> Vec<NodeKey> {
        let mut left: BTreeSet<NodeKey> = keys.iter().copied().collect();
        let mut ordered = Vec::with_capacity(left.len());
        while let Some(first) = left.first().copied() {
            let free = |key: &&NodeKey| self.get(**key).is_none_or(|vertex| vertex.before.is_disjoint(&left));
            let next = left.iter().find(free).copied().unwrap_or(first);
            left.remove(&next);
            ordered.push(next);
        }
        ordered
    }

    fn before<'a>(&'a self, vertex: &'a Vertex) -> impl Iterator<Item = &'a Vertex> {
        vertex.before.iter().filter_map(|key| self.get(*key))
    }

    fn among(&self, keys: &[NodeKey], is_wanted: impl Fn(&Vertex) -> bool) -> Vec<NodeKey> {
        keys.iter().copied().filter(|key| self.get(*key).is_some_and(&is_wanted)).collect()
    }

    fn named(&self, from: NodeKey, to: NodeKey) -> Option<Edge> {
        Some((self.get(from)?.id.clone(), self.get(to)?.id.clone()))
    }
}

impl Vertex {
    fn is_done(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Done(_)))
    }

    fn is_failed(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Failed(_)))
    }
}
