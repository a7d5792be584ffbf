//! Tools that work on the board's own store and memory, or on other tools.
//!
//! Todos and messages are those of the session a call is made in, memories those of the account behind it; nothing in
//! the arguments can name another.

use std::path::Path;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Effect, ToolOutput, ToolScope, ToolSpec, UnknownOutcome};
use crate::memory::Memory;
use crate::model::ToolCall;
use crate::port::{Batch, Durability, StoreError, ToolHost, Write};

pub mod batch;
mod memories;
mod messages;
pub(crate) mod todos;

const KIND: &str = "builtin";
/// No answer is longer, so that the desk has nothing to cut and what is JSON stays JSON.
const MAX_ANSWER_BYTES: usize = 48 * 1024;

/// Offers the todo list, the past messages and, where facts are kept at all, the memories; and `batch`, which the desk
/// carries out itself.
#[derive(Debug)]
pub struct OwnTools {
    memory: Memory,
    specs: Arc<[ToolSpec]>,
}

impl OwnTools {
    pub fn new(memory: Memory) -> Self {
        let mut specs = vec![batch::spec(), messages::spec(), todos::read_spec(), todos::write_spec()];
        if memory.options.semantic {
            specs.extend(memories::specs());
        }
        Self { memory, specs: specs.into() }
    }

    async fn answer(
        &self,
        scope: &ToolScope,
        name: &str,
        arguments: &Value,
        stop: &CancellationToken,
    ) -> Result<String, Refusal> {
        let store = &*self.memory.store;
        match name {
            messages::NAME => messages::recent(store, scope, arguments).await,
            todos::READ => todos::read(store, scope).await,
            todos::WRITE => todos::write(&self.memory, scope, arguments).await,
            memories::REMEMBER => memories::remember(&self.memory, scope, arguments, stop).await,
            memories::RECALL => memories::recall(store, scope, arguments).await,
            memories::SEARCH => memories::search(&self.memory, scope, arguments, stop).await,
            memories::LIST => memories::list(store, scope, arguments).await,
            unknown => Err(Refusal::Said(format!("unknown tool: {unknown}"))),
        }
    }
}

impl ToolHost for OwnTools {
    fn kind(&self) -> &'static str {
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
            match self.answer(scope, &call.name, arguments, &stop).await {
                Ok(text) => ToolOutput::ok(text),
                Err(Refusal::Said(reason)) => ToolOutput::error(reason),
                Err(Refusal::Store(error)) => {
                    tracing::error!(tool.name = %call.name, %error, "a tool could not use the store");
                    ToolOutput::error(format!("{} failed: storage: {error}", call.name))
                }
            }
        })
    }
}

/// Why a call has no answer.
#[derive(Debug)]
enum Refusal {
    /// A sentence for the model.
    Said(String),
    Store(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

async fn commit(memory: &Memory, write: Write) -> Result<(), StoreError> {
    // Agents act on what they were told is kept.
    memory.store.commit(Batch { durability: Durability::Boundary, writes: vec![write] }).await
}

fn spec(name: &str, description: &str, effect: Effect, input_schema: Value) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema: Arc::new(input_schema),
        effect,
        // Done twice is the same as done once, for all of them.
        unknown_outcome: UnknownOutcome::Retry,
        timeout: None,
        kind: KIND,
        traits: None,
    }
}

/// How many things one call shows: unless told otherwise, and at most.
#[derive(Clone, Copy)]
struct Limit {
    default: usize,
    cap: usize,
}

impl Limit {
    fn schema(self, things: &str) -> Value {
        let Self { default, cap } = self;
        json!({
            "type": "integer",
            "minimum": 1,
            "description": format!("How many {things} at most; {default} by default, never more than {cap}.")
        })
    }

    /// More than the cap is cut to it, not refused.
    fn read(self, arguments: &Value) -> Result<usize, Refusal> {
        match arguments.get("limit") {
            None | Some(Value::Null) => Ok(self.default),
            Some(limit) => match limit.as_u64() {
                Some(0) | None => Err(Refusal::Said("`limit` must be a whole number, 1 or more".to_owned())),
                Some(limit) => Ok(usize::try_from(limit).unwrap_or(usize::MAX).min(self.cap)),
            },
        }
    }
}

/// A list of flat objects as JSON, no longer than an answer may be.
#[derive(Debug, Default)]
struct Listing {
    items: Vec<Value>,
    bytes: usize,
}

impl Listing {
    /// A line's indentation inside the list, times more lines than any item has.
    const INDENTATION: usize = 32;

    /// Says whether there was room for it.
    fn push(&mut self, item: Value) -> bool {
        self.bytes += format!("{item:#}").len() + Self::INDENTATION;
        let fits = self.bytes <= MAX_ANSWER_BYTES;
        if fits {
            self.items.push(item);
        }
        fits
    }
}

/// A text argument that has to be there, with at most so many characters.
fn text<'a>(arguments: &'a Value, name: &str, max_characters: usize) -> Result<&'a str, Refusal> {
    let said = |reason: String| Err(Refusal::Said(reason));
    match arguments.get(name) {
        Some(Value::String(text)) if text.trim().is_empty() => said(format!("`{name}` must not be empty")),
        Some(Value::String(text)) if text.chars().count() > max_characters => {
            said(format!("`{name}` is longer than {max_characters} characters"))
        }
        Some(Value::String(text)) => Ok(text),
        Some(_) | None => said(format!("`{name}` must be a text")),
    }
}

#[cfg(test)]
mod tests;
