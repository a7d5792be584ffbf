//! Helpers for text that goes into prompts and comes out of answers. Output of models and tools is data: it is cut and
//! fenced before a model sees it again, and parsed leniently.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::model::{ContentPart, MessageRole, ModelMessage, ToolInput};
use crate::text::{cut, escape_hidden};

/// Marks the end of a text that was cut.
const CUT_MARK: &str = " […]";
/// How much of an answer is searched for JSON; a valid plan or vote is shorter.
const JSON_SEARCH_BYTES: usize = 256 * 1024;
/// Opening braces tried as the start of an object.
const MAX_JSON_STARTS: usize = 64;
/// Bytes shown of a tool call or result of an earlier turn.
const TOOL_PART_BYTES: usize = 2_000;
/// Names are bounded too, because models choose them.
const NAME_BYTES: usize = 64;

/// At most `bytes` of the text, with a mark if it was cut.
pub(super) fn truncate(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{CUT_MARK}", cut(text, bytes.saturating_sub(CUT_MARK.len()))))
}

/// The text between `<tag name="…">` and `</tag>`, cut to `bytes`. Tags inside the text are escaped, so it cannot open
/// or close the fence.
pub(super) fn fence(tag: &str, name: Option<&str>, text: &str, bytes: usize) -> String {
    let name = name.map(|name| format!(" name=\"{}\"", sanitize_name(name))).unwrap_or_default();
    let shown = escape_hidden(text);
    let shortened = truncate(&shown, bytes);
    let text = escape_tag(&shortened, tag);
    format!("<{tag}{name}>\n{text}\n</{tag}>")
}

/// Removes quotes, angle brackets and control characters, so that a name cannot leave its line or its quotes.
pub(super) fn sanitize_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|character| match character {
            '"' | '<' | '>' => '\'',
            character if character.is_control() => ' ',
            character => character,
        })
        .collect();
    truncate(plain.trim(), NAME_BYTES).into_owned()
}

/// Inserts a backslash before the tag's name in `<tag` and `</tag`, in any case.
fn escape_tag<'a>(text: &'a str, tag: &str) -> Cow<'a, str> {
    let lower = text.to_ascii_lowercase();
    let names_tag = |after: &usize| lower.get(*after..).is_some_and(|rest| rest.starts_with(tag));
    let after = lower.match_indices('<').map(|(start, _)| start + 1);
    let after = after.map(|at| at + usize::from(lower.as_bytes().get(at) == Some(&b'/')));
    let positions: Vec<usize> = after.filter(names_tag).collect();
    if positions.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut fenced = String::with_capacity(text.len() + positions.len());
    let mut from = 0;
    for position in positions {
        fenced.push_str(text.get(from..position).unwrap_or_default());
        fenced.push('\\');
        from = position;
    }
    fenced.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(fenced)
}

/// `bytes` divided among `count` texts, with a minimum per text below which it would not be worth showing.
pub(super) fn per_text_bytes(bytes: usize, count: usize) -> usize {
    const MIN_BYTES: usize = 400;
    (bytes / count.max(1)).max(MIN_BYTES)
}

/// The conversation with the user's new message, followed by the instruction of the current step.
pub(super) fn with_instruction(
    history: &[ModelMessage],
    user: &ModelMessage,
    instruction: String,
) -> Vec<ModelMessage> {
    let mut messages = history.to_vec();
    messages.push(with_note(user, instruction));
    messages
}

/// The user's message with the note appended as a paragraph.
pub(super) fn with_note(user: &ModelMessage, note: String) -> ModelMessage {
    let mut message = user.clone();
    message.parts.push(ContentPart::Text(format!("\n\n{note}").into()));
    message
}

/// Messages with tool calls and results rendered as text. Providers refuse calls and results in a conversation whose
/// request offers no tools.
pub(super) fn tool_parts_as_text(messages: &[ModelMessage]) -> Vec<ModelMessage> {
    let converted = messages.iter().map(|message| {
        let mut rendered = String::new();
        for part in &message.parts {
            if !rendered.is_empty() {
                rendered.push('\n');
            }
            match part {
                ContentPart::Text(text) => rendered.push_str(text),
                ContentPart::ToolCall(call) => {
                    let arguments = match &call.input {
                        ToolInput::Json(value) => value.to_string(),
                        ToolInput::Malformed(text) => text.to_string(),
                    };
                    rendered.push_str(&format!(
                        "[called `{}` with {}]",
                        call.name,
                        truncate(&arguments, TOOL_PART_BYTES)
                    ));
                }
                ContentPart::ToolResult(result) => {
                    rendered.push_str(&fence("result", Some(&result.name), &result.content, TOOL_PART_BYTES));
                }
            }
        }
        ModelMessage { role: message.role, parts: vec![ContentPart::Text(rendered.into())] }
    });
    converted.collect()
}

/// Transcript of a strategy whose intermediate steps are not part of the history: the user's message and the reply.
pub(super) fn user_and_reply(user: &ModelMessage, reply: &str) -> Vec<ModelMessage> {
    let mut messages = vec![user.clone()];
    if !reply.is_empty() {
        messages.push(ModelMessage { role: MessageRole::Assistant, parts: vec![ContentPart::Text(reply.into())] });
    }
    messages
}

/// The first JSON object in the text, fenced or between other text, that has `key`.
pub(super) fn find_json_object(text: &str, key: &str) -> Option<Map<String, Value>> {
    let text = cut(text, JSON_SEARCH_BYTES);
    let starts = text.match_indices('{').map(|(start, _)| start);
    for start in starts.take(MAX_JSON_STARTS) {
        let rest = text.get(start..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        if let Some(Ok(Value::Object(object))) = values.next()
            && object.contains_key(key)
        {
            return Some(object);
        }
    }
    None
}

/// A value as one line of plain text; `None` if it is empty.
pub(super) fn value_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::String(text) => text.trim().to_owned(),
        Value::Array(items) => items.iter().filter_map(value_text).collect::<Vec<_>>().join("; "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    };
    (!text.is_empty()).then_some(text)
}

/// Like `truncate` after trimming, as an `Arc<str>`.
pub(super) fn truncate_shared(text: &str, bytes: usize) -> Arc<str> {
    truncate(text.trim(), bytes).into()
}

#[cfg(test)]
mod tests;
