//! What is kept under a key has no column for its version, so each value names it itself.

use serde::{Deserialize, Serialize};

use super::{RecordError, v1};
use crate::tool::own::todos;

/// One variant for each version; frozen like the versions of other records.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Todos {
    V1(Vec<Todo>),
}

#[derive(Serialize, Deserialize)]
struct Todo {
    id: String,
    content: String,
    status: Status,
    priority: Priority,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Priority {
    High,
    Medium,
    Low,
}

pub(crate) fn encode_todos(todos: &[todos::Todo]) -> Vec<u8> {
    v1::encode(&Todos::V1(todos.iter().map(Todo::from).collect()))
}

pub(crate) fn decode_todos(bytes: &[u8]) -> Result<Vec<todos::Todo>, RecordError> {
    let Todos::V1(stored) = v1::decode(bytes).map_err(|source| RecordError::Malformed { version: 1, source })?;
    Ok(stored.into_iter().map(todos::Todo::from).collect())
}

impl From<&todos::Todo> for Todo {
    fn from(todo: &todos::Todo) -> Self {
        Self {
            id: todo.id.clone(),
            content: todo.content.clone(),
            status: match todo.status {
                todos::Status::Pending => Status::Pending,
                todos::Status::InProgress => Status::InProgress,
                todos::Status::Completed => Status::Completed,
                todos::Status::Cancelled => Status::Cancelled,
            },
            priority: match todo.priority {
                todos::Priority::High => Priority::High,
                todos::Priority::Medium => Priority::Medium,
                todos::Priority::Low => Priority::Low,
            },
        }
    }
}

impl From<Todo> for todos::Todo {
    fn from(stored: Todo) -> Self {
        Self {
            id: stored.id,
            content: stored.content,
            status: match stored.status {
                Status::Pending => todos::Status::Pending,
                Status::InProgress => todos::Status::InProgress,
                Status::Completed => todos::Status::Completed,
                Status::Cancelled => todos::Status::Cancelled,
            },
            priority: match stored.priority {
                Priority::High => todos::Priority::High,
                Priority::Medium => todos::Priority::Medium,
                Priority::Low => todos::Priority::Low,
            },
        }
    }
}
