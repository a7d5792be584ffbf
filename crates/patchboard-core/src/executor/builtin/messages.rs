//! `get_recent_messages`: the messages of this session before the current turn.

use serde_json::{Value, json};

use super::{BoundedList, CoreToolError, ListLimit};
use crate::model::MessageRole;
use crate::port::ToolScope;
use crate::store::{ResultPage, Store, TurnQuery};
use crate::text::cut_with_size;
use crate::tool::{ToolEffect, ToolSpec};

pub(super) const NAME: &str = "get_recent_messages";

const LIMIT: ListLimit = ListLimit { default: 20, cap: 100 };
/// A longer message is cut, with a mark.
const MESSAGE_BYTES: usize = 4 * 1024;
/// Turns read for one call; if none of the latest turns has text, the result is empty.
const TURNS_PAGE: usize = 50;
const TURN_PAGES: usize = 4;

pub(super) fn spec() -> ToolSpec {
    let schema = json!({
        "type": "object",
        "properties": {"limit": LIMIT.schema("messages")},
        "additionalProperties": false
    });
    let description = "Read the last messages of this conversation before the present one, oldest first, as JSON with \
                       `role` and `content`. Tool calls and their results are left out; long messages are cut.";
    super::spec(NAME, description, ToolEffect::ReadOnly, schema)
}

pub(super) async fn recent(store: &dyn Store, scope: &ToolScope, arguments: &Value) -> Result<String, CoreToolError> {
    let limit = LIMIT.parse(arguments)?;
    let mut newest_first = BoundedList::default();
    let mut before = None;
    'pages: for _ in 0..TURN_PAGES {
        let query = TurnQuery { session: scope.session.clone(), limit: TURNS_PAGE, before };
        let ResultPage { items, next } = store.turns(query).await?;
        let page_messages = items.iter().rev().flat_map(|turn| turn.messages.iter().rev());
        for (role, text) in page_messages.map(|message| (message.role, message.text())) {
            if text.is_empty() {
                continue;
            }
            let message = json!({"role": role_name(role), "content": cut_with_size(&text, MESSAGE_BYTES)});
            if newest_first.items.len() == limit || !newest_first.push(message) {
                break 'pages;
            }
        }
        before = next;
        if before.is_none() {
            break;
        }
    }
    let mut messages = newest_first.items;
    messages.reverse();
    Ok(format!("{:#}", Value::Array(messages)))
}

fn role_name(role: MessageRole) -> &'static str {
    match role {
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
    }
}

#[cfg(test)]
mod tests;
