//! The state of a task graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchboard_core::run_spec::finding::PlannedTask;
use serde::Serialize;

type Edge = (Arc<str>, Arc<str>);

#[derive(Default)]
pub(super) struct TaskGraphState {
    nodes: Vec<GraphNode>,
    edges: Vec<Edge>,
    states: BTreeMap<Arc<str>, TaskState>,
}

#[derive(Serialize)]
struct GraphNode {
    description: Arc<str>,
    id: Arc<str>,
    tool_calls: [(); 0],
}

#[derive(Default, Serialize)]
struct TaskState {
    error: Option<Arc<str>>,
    result: Option<Arc<str>>,
    status: TaskStatus,
}

#[derive(Default, Serialize)]
enum TaskStatus {
    #[default]
    Pending,
    Running,
    Done,
    Failed,
}

#[derive(Serialize)]
pub(super) struct GraphView<'a> {
    node_states: &'a BTreeMap<Arc<str>, TaskState>,
    task_graph: TaskGraph<'a>,
}

#[derive(Serialize)]
struct TaskGraph<'a> {
    edges: &'a [Edge],
    nodes: &'a [GraphNode],
}

impl TaskGraphState {
    /// Replaces the previous plan.
    pub(super) fn planned(&mut self, tasks: &[PlannedTask], edges: &[Edge]) {
        *self = Self::default();
        self.add(tasks, edges);
    }

    pub(super) fn started(&mut self, task: &Arc<str>) {
        self.set(task, TaskState { status: TaskStatus::Running, ..TaskState::default() });
    }

    pub(super) fn completed(&mut self, task: &Arc<str>, result: &Arc<str>) {
        self.set(task, TaskState { status: TaskStatus::Done, result: Some(result.clone()), error: None });
    }

    pub(super) fn failed(&mut self, task: &Arc<str>, error: &Arc<str>) {
        self.set(task, TaskState { status: TaskStatus::Failed, result: None, error: Some(error.clone()) });
    }

    pub(super) fn expanded(&mut self, tasks: &[PlannedTask], edges: &[Edge], dropped: &[Edge]) {
        self.edges.retain(|edge| !dropped.contains(edge));
        self.add(tasks, edges);
    }

    pub(super) fn view(&self) -> GraphView<'_> {
        GraphView { node_states: &self.states, task_graph: TaskGraph { edges: &self.edges, nodes: &self.nodes } }
    }

    fn add(&mut self, tasks: &[PlannedTask], edges: &[Edge]) {
        for task in tasks {
            if self.nodes.iter().all(|known| known.id != task.id) {
                let PlannedTask { id, description } = task.clone();
                self.states.entry(id.clone()).or_default();
                self.nodes.push(GraphNode { description, id, tool_calls: [] });
            }
        }
        for edge in edges {
            if !self.edges.contains(edge) {
                self.edges.push(edge.clone());
            }
        }
    }

    fn set(&mut self, task: &Arc<str>, state: TaskState) {
        self.states.insert(task.clone(), state);
    }
}
