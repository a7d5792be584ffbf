//! The graph of tasks of a `got` run, as far as its events tell.

use serde_json::Value;

use crate::cli::output::one_line;
use crate::cli::screen::cut;

/// Names and descriptions are shown up to this many columns each.
const NAME_COLUMNS: usize = 24;
const TEXT_COLUMNS: usize = 120;
/// No graph has so many; a server that says so is not believed.
const MAX_TASKS: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Tasks {
    all: Vec<Task>,
}

#[derive(Debug)]
struct Task {
    id: String,
    description: String,
    after: Vec<String>,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
    Failed(String),
}

impl Tasks {
    /// Another plan takes the place of the one before.
    pub(super) fn planned(&mut self, ids: &[String]) {
        self.all.clear();
        for id in ids {
            self.find(id);
        }
    }

    pub(super) fn started(&mut self, id: &str) {
        self.set(id, State::Running);
    }

    pub(super) fn completed(&mut self, id: &str) {
        self.set(id, State::Done);
    }

    pub(super) fn failed(&mut self, id: &str, error: &str) {
        self.set(id, State::Failed(error.to_owned()));
    }

    /// What only a state tells: descriptions, edges, tasks that were added, and how far those are that were never seen.
    pub(super) fn read(&mut self, state: &Value) {
        let Some(graph) = state.get("task_graph") else { return };
        let list = |key: &str| graph.get(key).and_then(Value::as_array).into_iter().flatten();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        for node in list("nodes") {
            let id = text(node.get("id"));
            let status = state.get("node_states").and_then(|states| states.get(&id));
            let Some(task) = self.find(&id) else { continue };
            task.description = text(node.get("description"));
            task.after.clear();
            if let (State::Waiting, Some(status)) = (&task.state, status) {
                task.state = match text(status.get("status")).as_str() {
                    "Running" => State::Running,
                    "Done" => State::Done,
                    "Failed" => State::Failed(text(status.get("error"))),
                    _ => State::Waiting,
                };
            }
        }
        for edge in list("edges") {
            let (from, to) = (text(edge.get(0)), text(edge.get(1)));
            if let Some(task) = self.find(&to).filter(|task| task.after.len() < MAX_TASKS) {
                task.after.push(from);
            }
        }
    }

    /// A head, then a line a task: how far it is, its name, what it is, and what it waits for.
    pub(super) fn lines(&self) -> Vec<String> {
        let done = self.all.iter().filter(|task| task.state == State::Done).count();
        let mut lines = vec![format!("graph of tasks: {done} of {} done", self.all.len())];
        let name = |id: &str| cut(&one_line(id), NAME_COLUMNS);
        let wide = self.all.iter().map(|task| name(&task.id).chars().count()).max().unwrap_or(0);
        for task in &self.all {
            let mark = match task.state {
                State::Waiting => '·',
                State::Running => '…',
                State::Done => '✓',
                State::Failed(_) => '✗',
            };
            let mut line = format!("{mark} {:wide$}", name(&task.id));
            if !task.after.is_empty() {
                let after: Vec<String> = task.after.iter().map(|id| name(id)).collect();
                line.push_str(&format!(" ← {}", after.join(", ")));
            }
            let text = match &task.state {
                State::Failed(error) => error,
                State::Waiting | State::Running | State::Done => &task.description,
            };
            if !text.is_empty() {
                line.push_str(&format!("  {}", cut(&one_line(text), TEXT_COLUMNS)));
            }
            lines.push(line.trim_end().to_owned());
        }
        lines
    }

    fn set(&mut self, id: &str, state: State) {
        if let Some(task) = self.find(id) {
            task.state = state;
        }
    }

    /// The task of that name, made if it is new.
    fn find(&mut self, id: &str) -> Option<&mut Task> {
        let known = self.all.iter().position(|task| task.id == id);
        if known.is_none() && self.all.len() < MAX_TASKS {
            self.all.push(Task {
                id: id.to_owned(),
                description: String::new(),
                after: Vec::new(),
                state: State::Waiting,
            });
        }
        let last = self.all.len().checked_sub(1);
        known.or(last.filter(|_| known.is_none())).and_then(|at| self.all.get_mut(at)).filter(|task| task.id == id)
    }
}

#[cfg(test)]
mod tests;
