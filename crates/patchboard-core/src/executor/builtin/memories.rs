//! `remember`, `recall`, `search_memories`, `list_memories`: facts an agent stores about the account it works for. They
//! are stored like facts stated in chats, so chats receive them too, and these tools also find facts from chats.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{BoundedList, CoreToolError, ListLimit, commit, required_text, spec};
use crate::memory::Memory;
use crate::port::ToolScope;
use crate::store::{FactQuery, FactRow, NewFact, PageCursor, ResultPage, Store, StoreError, StoreWrite};
use crate::tool::{ToolEffect, ToolSpec};

pub(super) const REMEMBER: &str = "remember";
pub(super) const RECALL: &str = "recall";
pub(super) const SEARCH: &str = "search_memories";
pub(super) const LIST: &str = "list_memories";

/// Subject of facts stored by `remember`. It differs from that of facts users state, so that neither replaces the other
/// by accident.
const REMEMBERED_SUBJECT: &str = "memory";
/// Subject of facts people state about themselves.
const STATED_SUBJECT: &str = "user";

const MAX_KEY_CHARACTERS: usize = 100;
/// Facts are part of prompts: a long one would displace all others.
const MAX_VALUE_CHARACTERS: usize = 2000;
const MAX_QUERY_CHARACTERS: usize = 2000;
const SEARCH_LIMIT: ListLimit = ListLimit { default: 10, cap: 100 };
const LIST_LIMIT: ListLimit = ListLimit { default: 50, cap: 500 };
/// Facts examined for one key, those with the key's words first. A fact is missed only if more facts than these have
/// exactly the same words.
const LOOKUP_PAGE: usize = 500;
const LOOKUP_PAGES: usize = 10;

pub(super) fn specs() -> [ToolSpec; 4] {
    let key = || json!({"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARACTERS});
    let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    [
        spec(
            LIST,
            "List what is remembered about this user, newest first, as JSON.",
            ToolEffect::ReadOnly,
            object(json!({"limit": LIST_LIMIT.schema("memories")}), &[]),
        ),
        spec(
            RECALL,
            "Read what was remembered under a key.",
            ToolEffect::ReadOnly,
            object(json!({"key": key()}), &["key"]),
        ),
        spec(
            REMEMBER,
            "Remember something about this user or their work, also for later conversations. What was remembered \
             under the same key before is replaced.",
            ToolEffect::Writes,
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
            ToolEffect::ReadOnly,
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
) -> Result<String, CoreToolError> {
    let key = parse_key(arguments)?;
    let value = required_text(arguments, "value", MAX_VALUE_CHARACTERS)?;
    let fact = NewFact {
        owner: scope.owner.clone(),
        subject: REMEMBERED_SUBJECT.to_owned(),
        predicate: key.clone(),
        object: value.to_owned(),
        // Stored on purpose, not extracted from a sentence.
        confidence: 1.0,
        session: scope.session.clone(),
        run: None,
        learned_at: memory.clock.now(),
        embedding: memory.embed_one(&format!("{key}: {value}"), stop).await,
    };
    commit(memory, StoreWrite::LearnFact(fact)).await?;
    Ok(format!("remembered `{key}`"))
}

/// The fact stored under exactly that key, else the fact the user stated under it.
pub(super) async fn recall(store: &dyn Store, scope: &ToolScope, arguments: &Value) -> Result<String, CoreToolError> {
    let key = parse_key(arguments)?;
    let stated_as = key.to_lowercase().replace(' ', "_");
    let mut stated = None;
    let mut cursor = None;
    for _ in 0..LOOKUP_PAGES {
        // Facts without any of the key's words come last; they are included because a key may have no words at all.
        let query = FactQuery { fill_with_recent: true, cursor, ..fact_query(scope, &key, LOOKUP_PAGE) };
        let ResultPage { items, next } = store.facts(query).await?;
        for fact in items {
            match &*fact.subject {
                REMEMBERED_SUBJECT if fact.predicate == key => return Ok(fact.object),
                STATED_SUBJECT if fact.predicate == stated_as => stated = Some(fact.object),
                _ => {}
            }
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    stated.ok_or_else(|| CoreToolError::Rejected(format!("nothing is remembered under `{key}`; try `{SEARCH}`")))
}

pub(super) async fn search(
    memory: &Memory,
    scope: &ToolScope,
    arguments: &Value,
    stop: &CancellationToken,
) -> Result<String, CoreToolError> {
    let limit = SEARCH_LIMIT.parse(arguments)?;
    let query = match arguments.get("query") {
        None | Some(Value::Null) => "",
        Some(Value::String(query)) if query.trim().is_empty() => "",
        Some(_) => required_text(arguments, "query", MAX_QUERY_CHARACTERS)?,
    };
    let query = if query.is_empty() {
        newest_query(scope, limit)
    } else {
        FactQuery { embedding: memory.embed_one(query, stop).await, ..fact_query(scope, query, limit) }
    };
    render_facts(&*memory.store, query).await.map_err(CoreToolError::from)
}

pub(super) async fn list(store: &dyn Store, scope: &ToolScope, arguments: &Value) -> Result<String, CoreToolError> {
    render_facts(store, newest_query(scope, LIST_LIMIT.parse(arguments)?)).await.map_err(CoreToolError::from)
}

/// Runs of whitespace become one space, because models do not reproduce them exactly.
fn parse_key(arguments: &Value) -> Result<String, CoreToolError> {
    let key = required_text(arguments, "key", MAX_KEY_CHARACTERS)?;
    Ok(key.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn fact_query(scope: &ToolScope, text: &str, limit: usize) -> FactQuery {
    FactQuery {
        owner: scope.owner.clone(),
        text: text.to_owned(),
        embedding: None,
        limit,
        fill_with_recent: false,
        cursor: None::<PageCursor>,
    }
}

fn newest_query(scope: &ToolScope, limit: usize) -> FactQuery {
    FactQuery { fill_with_recent: true, ..fact_query(scope, "", limit) }
}

async fn render_facts(store: &dyn Store, query: FactQuery) -> Result<String, StoreError> {
    let ResultPage { items, next } = store.facts(query).await?;
    let found = items.len();
    let mut listing = BoundedList::default();
    for FactRow { predicate, object, learned_at, .. } in items {
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
