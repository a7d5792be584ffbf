//! `todo_write` and `todo_read`: an agent's todo list, one for each session.

use crate::todo::{Todo, TodoPriority, TodoStatus};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CoreToolError, MAX_ANSWER_BYTES, commit, spec};
use crate::memory::Memory;
use crate::port::ToolScope;
use crate::record;
use crate::store::{KvNamespace, Store, StoreError, StoreWrite};
use crate::tool::{ToolEffect, ToolSpec};

pub(super) const WRITE: &str = "todo_write";
pub(super) const READ: &str = "todo_read";
/// Key of the list in the session's namespace.
const STORAGE_KEY: &str = "todos";

/// A longer list is refused.
const MAX_TODOS: usize = 200;
const MAX_ID_CHARACTERS: usize = 100;
const MAX_CONTENT_CHARACTERS: usize = 2000;

pub(super) fn write_spec() -> ToolSpec {
    let schema = json!({
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "maxItems": MAX_TODOS,
                "description": "The whole list; it replaces the one before. An empty list deletes it.",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {
                            "type": ["string", "integer"],
                            "minLength": 1,
                            "maxLength": MAX_ID_CHARACTERS,
                            "description": "Names the todo; no two of a list have the same."
                        },
                        "content": {"type": "string", "minLength": 1, "maxLength": MAX_CONTENT_CHARACTERS},
                        "status": {
                            "enum": TodoStatus::ALL.map(TodoStatus::name),
                            "description": "`pending` by default."
                        },
                        "priority": {
                            "enum": TodoPriority::ALL.map(TodoPriority::name),
                            "description": "`medium` by default."
                        }
                    },
                    "required": ["id", "content"],
                    "additionalProperties": false
                }
            }
        },
        "required": ["todos"],
        "additionalProperties": false
    });
    let description = "Keep a todo list for this conversation: write the whole list each time something is added, \
                       begun or done. Answers with the list as it is kept now.";
    spec(WRITE, description, ToolEffect::Writes, schema)
}

pub(super) fn read_spec() -> ToolSpec {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let description = "Read this conversation's todo list: how many todos are open, then all of them as JSON.";
    spec(READ, description, ToolEffect::ReadOnly, schema)
}

pub(super) async fn write(memory: &Memory, scope: &ToolScope, arguments: &Value) -> Result<String, CoreToolError> {
    let todos = parse(arguments).map_err(CoreToolError::Rejected)?;
    let answer = render(&todos);
    if answer.len() > MAX_ANSWER_BYTES {
        return Err(CoreToolError::Rejected(format!(
            "the list is longer than {MAX_ANSWER_BYTES} bytes; keep todos short"
        )));
    }
    commit(memory, put_write(scope, &todos, memory.clock.now())).await?;
    Ok(answer)
}

pub(super) async fn read(store: &dyn Store, scope: &ToolScope) -> Result<String, CoreToolError> {
    let stored = store.kv_get(&KvNamespace::Session(scope.session.clone()), STORAGE_KEY).await?;
    let todos = match stored {
        None => Vec::new(),
        Some(bytes) => {
            record::decode_todos(&bytes).map_err(|error| StoreError::Corrupt { what: "todos", source: error.into() })?
        }
    };
    Ok(render(&todos))
}

fn put_write(scope: &ToolScope, todos: &[Todo], at: Timestamp) -> StoreWrite {
    let value = (!todos.is_empty()).then(|| record::encode_todos(todos));
    StoreWrite::put(KvNamespace::Session(scope.session.clone()), STORAGE_KEY.into(), value, at)
}

fn parse(arguments: &Value) -> Result<Vec<Todo>, String> {
    let listed = arguments.get("todos").and_then(Value::as_array).ok_or("`todos` must be a list")?;
    if listed.len() > MAX_TODOS {
        return Err(format!("a list holds at most {MAX_TODOS} todos, not {}", listed.len()));
    }
    let mut todos: Vec<Todo> = Vec::with_capacity(listed.len());
    for (index, item) in listed.iter().enumerate() {
        let todo = parse_todo(item).map_err(|reason| format!("todos[{index}]: {reason}"))?;
        if todos.iter().any(|other| other.id == todo.id) {
            return Err(format!("todos[{index}]: the id `{}` is used twice", todo.id));
        }
        todos.push(todo);
    }
    Ok(todos)
}

fn parse_todo(item: &Value) -> Result<Todo, String> {
    let id = match item.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        Some(_) | None => return Err("`id` must be a text".to_owned()),
    };
    let content = item.get("content").and_then(Value::as_str).ok_or("`content` must be a text")?;
    for (name, text, max) in [("id", &*id, MAX_ID_CHARACTERS), ("content", content, MAX_CONTENT_CHARACTERS)] {
        match text.chars().count() {
            0 => return Err(format!("`{name}` must not be empty")),
            count if count > max => return Err(format!("`{name}` is longer than {max} characters")),
            _ => {}
        }
    }
    let status = parse_choice(item, "status", TodoStatus::ALL, TodoStatus::name)?.unwrap_or(TodoStatus::Pending);
    let priority =
        parse_choice(item, "priority", TodoPriority::ALL, TodoPriority::name)?.unwrap_or(TodoPriority::Medium);
    Ok(Todo { content: content.to_owned(), id, status, priority })
}

fn parse_choice<T: Copy, const N: usize>(
    item: &Value,
    field: &str,
    all: [T; N],
    name: fn(T) -> &'static str,
) -> Result<Option<T>, String> {
    match item.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let found = all.into_iter().find(|one| value.as_str() == Some(name(*one)));
            found.map(Some).ok_or_else(|| format!("`{field}` must be one of {}", all.map(name).join(", ")))
        }
    }
}

fn render(todos: &[Todo]) -> String {
    let open = todos.iter().filter(|todo| todo.status.is_open()).count();
    let listed = todos.iter().map(|Todo { id, content, status, priority }| {
        json!({"id": id, "content": content, "status": status.name(), "priority": priority.name()})
    });
    format!("{open} todos\n{:#}", Value::Array(listed.collect()))
}

#[cfg(test)]
mod tests;
