//! `remember`, `recall`, `search_memories`, `list_memories`: facts an agent keeps about the account it works for. They
//! are facts like those stated in chats, so a chat is told of them too, and these tools find what was said in chats.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Limit, Listing, Refusal, commit, spec, text};
use crate::memory::Memory;
use crate::port::{Cursor, Fact, FactQuery, NewFact, Page, Store, StoreError, Write};
use crate::tool::{Effect, ToolScope, ToolSpec};

pub(super) const REMEMBER: &str = "remember";
pub(super) const RECALL: &str = "recall";
pub(super) const SEARCH: &str = "search_memories";
pub(super) const LIST: &str = "list_memories";

/// Subject of the facts kept here. Those a person states have another, so neither replaces the other by accident.
const SUBJECT: &str = "memory";
/// Subject of facts people state about themselves.
const STATED: &str = "user";

const MAX_KEY_CHARACTERS: usize = 100;
/// Facts go into prompts: a long one would push out all others.
const MAX_VALUE_CHARACTERS: usize = 2000;
const MAX_QUERY_CHARACTERS: usize = 2000;
const SEARCH_LIMIT: Limit = Limit { default: 10, cap: 100 };
const LIST_LIMIT: Limit = Limit { default: 50, cap: 500 };
/// Facts looked through for one key, those with the key's words first. Only an account with more facts of the very same
/// words could miss one.
const LOOKUP_PAGE: usize = 500;
const LOOKUP_PAGES: usize = 10;

pub(super) fn specs() -> [ToolSpec; 4] {
    let key = || json!({"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARACTERS});
    let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    [
        spec(
            LIST,
            "List what is remembered about this user, newest first, as JSON.",
            Effect::ReadOnly,
            object(json!({"limit": LIST_LIMIT.schema("memories")}), &[]),
        ),
        spec(
            RECALL,
            "Read what was remembered under a key.",
            Effect::ReadOnly,
            object(json!({"key": key()}), &["key"]),
        ),
        spec(
            REMEMBER,
            "Remember something about this user or their work, also for later conversations. What was remembered \
             under the same key before is replaced.",
            Effect::Writes,
            object(
                json!({
                    "key": key(),
                    "value": {"type": "string", "minLength": 1, "maxLength": MAX_VALUE_CHARACTERS}
                }),
                &["key", "value"],
            ),
        ),
        spec(
            SEARCH,
            "Find what is remembered about this user, best match first, as JSON. Without a query the newest memories.",
            Effect::ReadOnly,
            object(
                json!({
                    "query": {
                        "type": "string",
                        "maxLength": MAX_QUERY_CHARACTERS,
                        "description": "Words or a question."
                    },
                    "limit": SEARCH_LIMIT.schema("memories")
                }),
                &[],
            ),
        ),
    ]
}

pub(super) async fn remember(
    memory: &Memory,
    scope: &ToolScope,
    arguments: &Value,
    stop: &CancellationToken,
) -> Result<String, Refusal> {
    let key = key(arguments)?;
    let value = text(arguments, "value", MAX_VALUE_CHARACTERS)?;
    let fact = NewFact {
        owner: scope.owner.clone(),
        subject: SUBJECT.to_owned(),
        predicate: key.clone(),
        object: value.to_owned(),
        // Said on purpose, not guessed from a sentence.
        confidence: 1.0,
        session: scope.session.clone(),
        learned_at: memory.clock.now(),
        embedding: memory.embed_one(&format!("{key}: {value}"), stop).await,
    };
    commit(memory, Write::Fact(fact)).await?;
    Ok(format!("remembered `{key}`"))
}

/// What was remembered under that very key, or else what the person stated under it.
pub(super) async fn recall(store: &dyn Store, scope: &ToolScope, arguments: &Value) -> Result<String, Refusal> {
    let key = key(arguments)?;
    let stated_as = key.to_lowercase().replace(' ', "_");
    let mut stated = None;
    let mut cursor = None;
    for _ in 0..LOOKUP_PAGES {
        // Facts without any of the key's words come last; a key may have no words at all.
        let query = FactQuery { fill_with_recent: true, cursor, ..asked(scope, &key, LOOKUP_PAGE) };
        let Page { items, next } = store.facts(query).await?;
        for fact in items {
            match &*fact.subject {
                SUBJECT if fact.predicate == key => return Ok(fact.object),
                STATED if fact.predicate == stated_as => stated = Some(fact.object),
                _ => {}
            }
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    stated.ok_or_else(|| Refusal::Said(format!("nothing is remembered under `{key}`; try `{SEARCH}`")))
}

pub(super) async fn search(
    memory: &Memory,
    scope: &ToolScope,
    arguments: &Value,
    stop: &CancellationToken,
) -> Result<String, Refusal> {
    let limit = SEARCH_LIMIT.read(arguments)?;
    let query = match arguments.get("query") {
        None | Some(Value::Null) => "",
        Some(Value::String(query)) if query.trim().is_empty() => "",
        Some(_) => text(arguments, "query", MAX_QUERY_CHARACTERS)?,
    };
    let query = if query.is_empty() {
        newest(scope, limit)
    } else {
        FactQuery { embedding: memory.embed_one(query, stop).await, ..asked(scope, query, limit) }
    };
    show(&*memory.store, query).await.map_err(Refusal::from)
}

pub(super) async fn list(store: &dyn Store, scope: &ToolScope, arguments: &Value) -> Result<String, Refusal> {
    show(store, newest(scope, LIST_LIMIT.read(arguments)?)).await.map_err(Refusal::from)
}

/// Runs of white space are one blank: models are not exact about them.
fn key(arguments: &Value) -> Result<String, Refusal> {
    let key = text(arguments, "key", MAX_KEY_CHARACTERS)?;
    Ok(key.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn asked(scope: &ToolScope, words: &str, limit: usize) -> FactQuery {
    FactQuery {
        owner: scope.owner.clone(),
        text: words.to_owned(),
        embedding: None,
        limit,
        fill_with_recent: false,
        cursor: None::<Cursor>,
    }
}

fn newest(scope: &ToolScope, limit: usize) -> FactQuery {
    FactQuery { fill_with_recent: true, ..asked(scope, "", limit) }
}

async fn show(store: &dyn Store, query: FactQuery) -> Result<String, StoreError> {
    let Page { items, next } = store.facts(query).await?;
    let found = items.len();
    let mut listing = Listing::default();
    for Fact { predicate, object, learned_at, .. } in items {
        if !listing.push(json!({"key": predicate, "value": object, "learned_at": learned_at.to_string()})) {
            break;
        }
    }
    let shown = listing.items.len();
    let rest = if next.is_some() || shown < found { "; there are more" } else { "" };
    Ok(format!("{shown} memories{rest}\n{:#}", Value::Array(listing.items)))
}

#[cfg(test)]
mod tests;
