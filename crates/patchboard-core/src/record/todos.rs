//! Key-value entries have no version column, so each value names its version itself.

use serde::{Deserialize, Serialize};

use super::{RecordError, chat_run_events};
use crate::tool::builtin::todos;

/// One variant per version; frozen like the versions of other records.
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

pub(crate) fn encode_todos(todos: &[todos::Todo]) -> Vec<u8> {
    chat_run_events::encode(&VersionedTodos::V1(todos.iter().map(StoredTodo::from).collect()))
}

pub(crate) fn decode_todos(bytes: &[u8]) -> Result<Vec<todos::Todo>, RecordError> {
    let VersionedTodos::V1(stored) =
        chat_run_events::decode(bytes).map_err(|source| RecordError::Malformed { version: 1, source })?;
    Ok(stored.into_iter().map(todos::Todo::from).collect())
}

impl From<&todos::Todo> for StoredTodo {
    fn from(todo: &todos::Todo) -> Self {
        Self {
            id: todo.id.clone(),
            content: todo.content.clone(),
            status: match todo.status {
                todos::TodoStatus::Pending => StoredTodoStatus::Pending,
                todos::TodoStatus::InProgress => StoredTodoStatus::InProgress,
                todos::TodoStatus::Completed => StoredTodoStatus::Completed,
                todos::TodoStatus::Cancelled => StoredTodoStatus::Cancelled,
            },
            priority: match todo.priority {
                todos::TodoPriority::High => StoredTodoPriority::High,
                todos::TodoPriority::Medium => StoredTodoPriority::Medium,
                todos::TodoPriority::Low => StoredTodoPriority::Low,
            },
        }
    }
}

impl From<StoredTodo> for todos::Todo {
    fn from(stored: StoredTodo) -> Self {
        Self {
            id: stored.id,
            content: stored.content,
            status: match stored.status {
                StoredTodoStatus::Pending => todos::TodoStatus::Pending,
                StoredTodoStatus::InProgress => todos::TodoStatus::InProgress,
                StoredTodoStatus::Completed => todos::TodoStatus::Completed,
                StoredTodoStatus::Cancelled => todos::TodoStatus::Cancelled,
            },
            priority: match stored.priority {
                StoredTodoPriority::High => todos::TodoPriority::High,
                StoredTodoPriority::Medium => todos::TodoPriority::Medium,
                StoredTodoPriority::Low => todos::TodoPriority::Low,
            },
        }
    }
}
