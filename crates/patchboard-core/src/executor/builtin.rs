//! Tools on the board's own store and memory, and `batch`, which calls other tools.
//!
//! Todos and messages belong to the session of the call, memories to the account behind it; no argument can select
//! another session or account.

use std::path::Path;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::memory::Memory;
use crate::model::ToolCall;
use crate::port::ToolHost;
use crate::port::ToolScope;
use crate::store::{StoreError, StoreWrite, WriteBatch};
use crate::tool::{ToolEffect, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};

pub mod batch;
mod memories;
mod messages;
pub(crate) mod todos;

const KIND: ToolKind = ToolKind::BuiltIn;
/// Upper bound of every output, below the executor's limit, so that JSON is never cut.
const MAX_ANSWER_BYTES: usize = 48 * 1024;

/// Provides the todo list, past messages and, if facts are enabled, memories; also the spec of `batch`, which the
/// executor runs itself.
#[derive(Debug)]
pub struct CoreToolHost {
    memory: Memory,
    specs: Arc<[ToolSpec]>,
}

impl CoreToolHost {
    pub fn new(memory: Memory) -> Self {
        let mut specs = vec![batch::spec(), messages::spec(), todos::read_spec(), todos::write_spec()];
        if memory.options.semantic {
            specs.extend(memories::specs());
        }
        Self { memory, specs: specs.into() }
    }

    async fn execute(
        &self,
        scope: &ToolScope,
        name: &str,
        arguments: &Value,
        stop: &CancellationToken,
    ) -> Result<String, CoreToolError> {
        let store = &*self.memory.store;
        match name {
            messages::NAME => messages::recent(store, scope, arguments).await,
            todos::READ => todos::read(store, scope).await,
            todos::WRITE => todos::write(&self.memory, scope, arguments).await,
            memories::REMEMBER => memories::remember(&self.memory, scope, arguments, stop).await,
            memories::RECALL => memories::recall(store, scope, arguments).await,
            memories::SEARCH => memories::search(&self.memory, scope, arguments, stop).await,
            memories::LIST => memories::list(store, scope, arguments).await,
            unknown => Err(CoreToolError::Rejected(format!("unknown tool: {unknown}"))),
        }
    }
}

impl ToolHost for CoreToolHost {
    fn kind(&self) -> ToolKind {
        KIND
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        self.specs.clone()
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match self.execute(scope, &call.name, arguments, &stop).await {
                Ok(text) => ToolOutput::ok(text),
                Err(CoreToolError::Rejected(reason)) => ToolOutput::error(reason),
                Err(CoreToolError::Store(error)) => {
                    tracing::error!(tool.name = %call.name, %error, "a tool could not use the store");
                    ToolOutput::error(format!("{} failed: storage: {error}", call.name))
                }
            }
        })
    }
}

/// Why a call failed.
#[derive(Debug)]
enum CoreToolError {
    /// A message for the model.
    Rejected(String),
    Store(StoreError),
}

impl From<StoreError> for CoreToolError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

async fn commit(memory: &Memory, write: StoreWrite) -> Result<(), StoreError> {
    // `Boundary`, because agents rely on an acknowledged write.
    memory.store.commit(WriteBatch::boundary(vec![write])).await
}

fn spec(name: &str, description: &str, effect: ToolEffect, input_schema: Value) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema: Arc::new(input_schema),
        effect,
        // All of these tools are idempotent.
        unknown_outcome: UnknownOutcomePolicy::Retry,
        timeout: None,
        kind: KIND,
        traits: None,
    }
}

/// The number of items one call returns: by default, and at most.
#[derive(Clone, Copy)]
struct ListLimit {
    default: usize,
    cap: usize,
}

impl ListLimit {
    fn schema(self, things: &str) -> Value {
        let Self { default, cap } = self;
        json!({
            "type": "integer",
            "minimum": 1,
            "description": format!("How many {things} at most; {default} by default, never more than {cap}.")
        })
    }

    /// A limit above the cap is lowered to it, not refused.
    fn parse(self, arguments: &Value) -> Result<usize, CoreToolError> {
        match arguments.get("limit") {
            None | Some(Value::Null) => Ok(self.default),
            Some(limit) => match limit.as_u64() {
                Some(0) | None => Err(CoreToolError::Rejected("`limit` must be a whole number, 1 or more".to_owned())),
                Some(limit) => Ok(usize::try_from(limit).unwrap_or(usize::MAX).min(self.cap)),
            },
        }
    }
}

/// A list of flat objects as JSON, bounded by `MAX_ANSWER_BYTES`.
#[derive(Debug, Default)]
struct BoundedList {
    items: Vec<Value>,
    bytes: usize,
}

impl BoundedList {
    /// Indentation of one line inside the list, times more lines than any item has.
    const INDENTATION: usize = 32;

    /// Adds the item unless it does not fit; returns whether it did.
    fn push(&mut self, item: Value) -> bool {
        self.bytes += format!("{item:#}").len() + Self::INDENTATION;
        let fits = self.bytes <= MAX_ANSWER_BYTES;
        if fits {
            self.items.push(item);
        }
        fits
    }
}

/// A required text argument of at most `max_characters`.
fn required_text<'a>(arguments: &'a Value, name: &str, max_characters: usize) -> Result<&'a str, CoreToolError> {
    let rejected = |reason: String| Err(CoreToolError::Rejected(reason));
    match arguments.get(name) {
        Some(Value::String(text)) if text.trim().is_empty() => rejected(format!("`{name}` must not be empty")),
        Some(Value::String(text)) if text.chars().count() > max_characters => {
            rejected(format!("`{name}` is longer than {max_characters} characters"))
        }
        Some(Value::String(text)) => Ok(text),
        Some(_) | None => rejected(format!("`{name}` must be a text")),
    }
}

#[cfg(test)]
mod tests;
