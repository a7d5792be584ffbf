//! Parses a task graph from a model's answer and makes it executable.

use std::sync::Arc;

use serde_json::Value;

use crate::run::strategy::prompt_text::{find_json_object, sanitize_name, truncate_shared, value_text};
use crate::run_spec::finding::PlannedTask;

/// A description is a paragraph; longer ones are cut.
const DESCRIPTION_BYTES: usize = 4_000;
/// Edges read from an answer; a graph of at most 64 tasks needs no more.
const MAX_EDGES: usize = 1_024;

/// Tasks, and edges between their indices from a task to one that needs its result. May have cycles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskPlan {
    pub(super) tasks: Vec<PlannedTask>,
    pub(super) edges: IndexEdges,
}

type IndexEdges = Vec<(usize, usize)>;

impl TaskPlan {
    /// Returns `None` if the answer is no plan. Takes at most `max_tasks` tasks; duplicates and edges to unknown tasks
    /// are skipped.
    pub(super) fn parse(text: &str, max_tasks: usize) -> Option<Self> {
        let object = find_json_object(text, "nodes")?;
        let nodes = object.get("nodes")?.as_array()?;
        let mut tasks: Vec<PlannedTask> = Vec::new();
        for node in nodes {
            if tasks.len() == max_tasks {
                break;
            }
            let number = tasks.len() + 1;
            if let Some(task) = parse_task(node, number)
                && tasks.iter().all(|known| known.id != task.id)
            {
                tasks.push(task);
            }
        }
        let position = |value: &Value| {
            let id = parse_task_id(value)?;
            tasks.iter().position(|task| task.id == id)
        };
        let mut edges = IndexEdges::new();
        let listed = object.get("edges").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for edge in listed.iter().take(MAX_EDGES) {
            let ends = match edge {
                Value::Array(ends) => (ends.first(), ends.get(1)),
                Value::Object(ends) => (ends.get("from"), ends.get("to")),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (None, None),
            };
            if let (Some(from), Some(to)) = ends
                && let (Some(from), Some(to)) = (position(from), position(to))
                && !edges.contains(&(from, to))
            {
                edges.push((from, to));
            }
        }
        Some(Self { tasks, edges })
    }

    /// The whole request as one task.
    pub(super) fn single(message: &str) -> Self {
        let task = PlannedTask { id: "task_1".into(), description: truncate_shared(message, DESCRIPTION_BYTES) };
        Self { tasks: vec![task], edges: Vec::new() }
    }

    /// The tasks of a cycle in the order of its edges; the first is repeated at the end.
    pub(super) fn find_cycle(&self) -> Option<Vec<String>> {
        let (from, to) = *self.split_edges().1.first()?;
        let path = self.find_path(&self.edges, to, from)?;
        let cycle = std::iter::once(from).chain(path);
        Some(cycle.filter_map(|index| self.tasks.get(index)).map(|task| task.id.to_string()).collect())
    }

    /// Drops the edges that close a cycle; of those in a cycle, edges listed first are kept.
    pub(super) fn without_cycles(mut self) -> Self {
        self.edges = self.split_edges().0;
        self
    }

    /// Partitions the edges into an acyclic set and the edges that would close a cycle with it.
    fn split_edges(&self) -> (IndexEdges, IndexEdges) {
        let (mut acyclic, mut cycle_closing) = (Vec::new(), Vec::new());
        for &(from, to) in &self.edges {
            if self.find_path(&acyclic, to, from).is_some() {
                cycle_closing.push((from, to));
            } else {
                acyclic.push((from, to));
            }
        }
        (acyclic, cycle_closing)
    }

    /// A path along `edges`, both ends included.
    fn find_path(&self, edges: &[(usize, usize)], from: usize, to: usize) -> Option<Vec<usize>> {
        let mut came_from: Vec<Option<usize>> = vec![None; self.tasks.len()];
        let mut reached = vec![from];
        let mut next = 0;
        while let Some(&at) = reached.get(next) {
            next += 1;
            if at == to {
                let mut path = vec![to];
                let mut at = to;
                while at != from {
                    at = came_from.get(at).copied().flatten()?;
                    path.push(at);
                }
                path.reverse();
                return Some(path);
            }
            for &(_, after) in edges.iter().filter(|(before, _)| *before == at) {
                if !reached.contains(&after) {
                    reached.push(after);
                    if let Some(slot) = came_from.get_mut(after) {
                        *slot = Some(at);
                    }
                }
            }
        }
        None
    }
}

fn parse_task(node: &Value, number: usize) -> Option<PlannedTask> {
    let (id, description) = match node {
        Value::Object(fields) => {
            let id = fields.get("id").and_then(parse_task_id);
            let text = ["description", "task", "name"].iter().find_map(|key| fields.get(*key).and_then(value_text));
            (id, text)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            (None, value_text(node))
        }
    };
    if id.is_none() && description.is_none() {
        return None;
    }
    let id = id.unwrap_or_else(|| format!("task_{number}").into());
    let description = description.map_or_else(|| id.clone(), |text| truncate_shared(&text, DESCRIPTION_BYTES));
    Some(PlannedTask { id, description })
}

/// `_sub_` is replaced, because it is reserved for the ids of split tasks.
fn parse_task_id(value: &Value) -> Option<Arc<str>> {
    let mut id = match value {
        Value::String(text) => sanitize_name(text),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    while id.contains("_sub_") {
        id = id.replace("_sub_", "_part_");
    }
    (!id.is_empty()).then(|| id.into())
}

#[cfg(test)]
mod tests;
