//! Key-value entries have no version column, so each value names its version itself.

use serde::{Deserialize, Serialize};

use super::{RecordError, model_messages};
use crate::todo;

/// One variant per version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VersionedTodos {
    V1(Vec<StoredTodo>),
}

#[derive(Serialize, Deserialize)]
struct StoredTodo {
    id: String,
    content: String,
    status: StoredTodoStatus,
    priority: StoredTodoPriority,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredTodoStatus {
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredTodoPriority {
    High,
    Medium,
    Low,
}

pub(crate) fn encode_todos(todos: &[todo::Todo]) -> Vec<u8> {
    model_messages::encode(&VersionedTodos::V1(todos.iter().map(StoredTodo::from).collect()))
}

pub(crate) fn decode_todos(bytes: &[u8]) -> Result<Vec<todo::Todo>, RecordError> {
    let VersionedTodos::V1(stored) =
        model_messages::decode(bytes).map_err(|source| RecordError::Malformed { version: 1, source })?;
    Ok(stored.into_iter().map(todo::Todo::from).collect())
}

impl From<&todo::Todo> for StoredTodo {
    fn from(todo: &todo::Todo) -> Self {
        Self {
            id: todo.id.clone(),
            content: todo.content.clone(),
            status: match todo.status {
                todo::TodoStatus::Pending => StoredTodoStatus::Pending,
                todo::TodoStatus::InProgress => StoredTodoStatus::InProgress,
                todo::TodoStatus::Completed => StoredTodoStatus::Completed,
                todo::TodoStatus::Cancelled => StoredTodoStatus::Cancelled,
            },
            priority: match todo.priority {
                todo::TodoPriority::High => StoredTodoPriority::High,
                todo::TodoPriority::Medium => StoredTodoPriority::Medium,
                todo::TodoPriority::Low => StoredTodoPriority::Low,
            },
        }
    }
}

impl From<StoredTodo> for todo::Todo {
    fn from(stored: StoredTodo) -> Self {
        Self {
            id: stored.id,
            content: stored.content,
            status: match stored.status {
                StoredTodoStatus::Pending => todo::TodoStatus::Pending,
                StoredTodoStatus::InProgress => todo::TodoStatus::InProgress,
                StoredTodoStatus::Completed => todo::TodoStatus::Completed,
                StoredTodoStatus::Cancelled => todo::TodoStatus::Cancelled,
            },
            priority: match stored.priority {
                StoredTodoPriority::High => todo::TodoPriority::High,
                StoredTodoPriority::Medium => todo::TodoPriority::Medium,
                StoredTodoPriority::Low => todo::TodoPriority::Low,
            },
        }
    }
}
