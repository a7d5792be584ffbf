//! The task graph of a `got` run, built from its events.

use serde_json::Value;

use crate::output::cut;
use crate::output::one_line;

/// Maximum columns of names and descriptions.
const NAME_COLUMNS: usize = 24;
const TEXT_COLUMNS: usize = 120;
/// No real graph has as many tasks; further ones from a faulty server are dropped.
const MAX_TASKS: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct TaskGraph {
    nodes: Vec<TaskNode>,
}

#[derive(Debug)]
struct TaskNode {
    id: String,
    description: String,
    depends_on: Vec<String>,
    state: TaskState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TaskState {
    Waiting,
    Running,
    Done,
    Failed(String),
}

impl TaskGraph {
    /// Replaces the previous plan.
    pub(super) fn planned(&mut self, ids: &[String]) {
        self.nodes.clear();
        for id in ids {
            self.find(id);
        }
    }

    pub(super) fn started(&mut self, id: &str) {
        self.set(id, TaskState::Running);
    }

    pub(super) fn completed(&mut self, id: &str) {
        self.set(id, TaskState::Done);
    }

    pub(super) fn failed(&mut self, id: &str, error: &str) {
        self.set(id, TaskState::Failed(error.to_owned()));
    }

    /// Takes what only a state event has: descriptions, edges, added tasks, and the status of tasks whose events were
    /// missed.
    pub(super) fn apply_state(&mut self, state: &Value) {
        let Some(graph) = state.get("task_graph") else { return };
        let list = |key: &str| graph.get(key).and_then(Value::as_array).into_iter().flatten();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        for node in list("nodes") {
            let id = text(node.get("id"));
            let status = state.get("node_states").and_then(|states| states.get(&id));
            let Some(task) = self.find(&id) else { continue };
            task.description = text(node.get("description"));
            task.depends_on.clear();
            if let (TaskState::Waiting, Some(status)) = (&task.state, status) {
                task.state = match text(status.get("status")).as_str() {
                    "Running" => TaskState::Running,
                    "Done" => TaskState::Done,
                    "Failed" => TaskState::Failed(text(status.get("error"))),
                    _ => TaskState::Waiting,
                };
            }
        }
        for edge in list("edges") {
            let (from, to) = (text(edge.get(0)), text(edge.get(1)));
            if let Some(task) = self.find(&to).filter(|task| task.depends_on.len() < MAX_TASKS) {
                task.depends_on.push(from);
            }
        }
    }

    /// A heading, then one line per task: status, name, dependencies and description.
    pub(super) fn lines(&self) -> Vec<String> {
        let done = self.nodes.iter().filter(|task| task.state == TaskState::Done).count();
        let mut lines = vec![format!("graph of tasks: {done} of {} done", self.nodes.len())];
        let name = |id: &str| cut(&one_line(id), NAME_COLUMNS);
        let wide = self.nodes.iter().map(|task| name(&task.id).chars().count()).max().unwrap_or(0);
        for task in &self.nodes {
            let mark = match task.state {
                TaskState::Waiting => '·',
                TaskState::Running => '…',
                TaskState::Done => '✓',
                TaskState::Failed(_) => '✗',
            };
            let mut line = format!("{mark} {:wide$}", name(&task.id));
            if !task.depends_on.is_empty() {
                let after: Vec<String> = task.depends_on.iter().map(|id| name(id)).collect();
                line.push_str(&format!(" ← {}", after.join(", ")));
            }
            let text = match &task.state {
                TaskState::Failed(error) => error,
                TaskState::Waiting | TaskState::Running | TaskState::Done => &task.description,
            };
            if !text.is_empty() {
                line.push_str(&format!("  {}", cut(&one_line(text), TEXT_COLUMNS)));
            }
            lines.push(line.trim_end().to_owned());
        }
        lines
    }

    fn set(&mut self, id: &str, state: TaskState) {
        if let Some(task) = self.find(id) {
            task.state = state;
        }
    }

    /// Returns the task with this id, adding it if it is new.
    fn find(&mut self, id: &str) -> Option<&mut TaskNode> {
        let known = self.nodes.iter().position(|task| task.id == id);
        if known.is_none() && self.nodes.len() < MAX_TASKS {
            self.nodes.push(TaskNode {
                id: id.to_owned(),
                description: String::new(),
                depends_on: Vec::new(),
                state: TaskState::Waiting,
            });
        }
        let last = self.nodes.len().checked_sub(1);
        known.or(last.filter(|_| known.is_none())).and_then(|at| self.nodes.get_mut(at)).filter(|task| task.id == id)
    }
}

#[cfg(test)]
mod tests;
