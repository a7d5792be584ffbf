//! Detects failures that report an unknown tool. Adapters word such errors freely, and a tool's own failure must never
//! be mistaken for one: the text has to be about a tool, and about exactly this name.

use patchboard_core::tool::{ToolFault, ToolOutput};
use serde_json::Value;

use crate::worker::response::UNKNOWN_TO_WORKER;

/// Longer texts are not such errors.
const MAX_TEXT: usize = 64 * 1024;

/// Phrases before the name.
const PREFIX_PHRASES: [&str; 16] = [
    "unknown tool",
    "unknown command",
    "unknown method",
    "unknown function",
    "unknown tool name",
    "unsupported tool",
    "unsupported command",
    "unrecognized tool",
    "no such tool",
    "no such command",
    "no tool named",
    "no tool called",
    "tool not found",
    "command not found",
    "tool not implemented",
    "tool not registered",
];
/// Nouns that precede a name followed by one of `SUFFIX_PHRASES`.
const NOUNS: [&str; 4] = ["tool ", "command ", "method ", "function "];
/// Phrases after a noun and the name.
const SUFFIX_PHRASES: [&str; 8] = [
    "not found",
    "is not found",
    "not supported",
    "is not supported",
    "not available",
    "is not available",
    "does not exist",
    "is not known",
];
/// Phrases after the name alone: only tools are "registered", while a program of that name may well be "not found".
const NAME_SUFFIX_PHRASES: [&str; 5] =
    ["not implemented", "is not implemented", "not registered", "is not registered", "is unknown"];

pub(super) fn is_unknown_tool(output: &ToolOutput, name: &str) -> bool {
    if !output.is_error {
        return false;
    }
    match output.data.as_ref().and_then(|data| data.fault) {
        // A status without a message of its own cannot be about anything else.
        Some(ToolFault::NotFound) => &*output.content == UNKNOWN_TO_WORKER || contains_word(&output.content, name),
        // Streaming calls end with an internal error whatever the tool reported.
        None | Some(ToolFault::Internal) => is_unknown_message(&output.content, name),
        Some(
            ToolFault::Unavailable
            | ToolFault::QueueTimeout
            | ToolFault::Saturated
            | ToolFault::WorkerBusy
            | ToolFault::TimedOut
            | ToolFault::Cancelled
            | ToolFault::Invalid
            | ToolFault::Argument,
        ) => false,
    }
}

fn is_unknown_message(content: &str, name: &str) -> bool {
    if content.len() > MAX_TEXT {
        return false;
    }
    let (kind, message) = match serde_json::from_str::<Value>(content) {
        Ok(Value::Object(error)) => {
            let field = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            (field("type"), field("message"))
        }
        // As formatted for a model: the type, a colon, the message.
        Ok(_) | Err(_) => match content.split_once(": ") {
            Some((kind, message)) if kind.chars().all(char::is_alphanumeric) => (kind.to_owned(), message.to_owned()),
            Some(_) | None => (String::new(), content.to_owned()),
        },
    };
    let text = without_quotes(&message);
    match kind.rsplit('.').next().unwrap_or_default() {
        "ToolNotFound" => return true,
        // A lookup in a dict of tools failed.
        "KeyError" if text == name => return true,
        "AttributeError" if is_missing_method(&text, name) => return true,
        _ => {}
    }
    // A message without a type may have been split at its own colon.
    let whole = without_quotes(content);
    [&text, &whole].into_iter().any(|text| reports_unknown(text, name))
}

fn without_quotes(text: &str) -> String {
    text.trim().replace(['\'', '"', '`'], "")
}

/// `MyAdapter object has no attribute NAME` is Python's error for a method the adapter lacks. For any other object it
/// is a bug inside the tool: many tools have the name of the method they call.
fn is_missing_method(text: &str, name: &str) -> bool {
    let Some((owner, attribute)) = text.split_once(" object has no attribute ") else { return false };
    attribute == name && !owner.contains(' ') && owner.to_ascii_lowercase().ends_with("adapter")
}

/// Returns true if the name is one of the text's words.
fn contains_word(text: &str, name: &str) -> bool {
    let is_name_character = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-');
    text.split(|character| !is_name_character(character)).any(|word| word == name)
}

fn reports_unknown(text: &str, name: &str) -> bool {
    let after_phrase = |phrase: &&str| {
        let rest = strip_phrase(text, phrase)?;
        rest.trim_start_matches([':', ' ']).strip_prefix(name)
    };
    if PREFIX_PHRASES.iter().filter_map(after_phrase).any(ends_a_name) {
        return true;
    }
    let remainder = |rest: &'_ str| rest.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
    let ends_with_phrase = |remainder: &str, phrases: &[&str]| {
        phrases.iter().filter_map(|phrase| strip_phrase(remainder, phrase)).any(ends_a_name)
    };
    let mut after_nouns = NOUNS.iter().filter_map(|noun| remainder(strip_phrase(text, noun)?));
    after_nouns.any(|remainder| {
        ends_with_phrase(&remainder, &SUFFIX_PHRASES) || ends_with_phrase(&remainder, &NAME_SUFFIX_PHRASES)
    }) || remainder(text).is_some_and(|remainder| ends_with_phrase(&remainder, &NAME_SUFFIX_PHRASES))
}

/// The text after the phrase, which is compared case-insensitively.
fn strip_phrase<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(phrase.len())?;
    head.eq_ignore_ascii_case(phrase).then_some(rest)
}

/// Returns true if the name ends here, false if it is the prefix of a longer one.
fn ends_a_name(rest: &str) -> bool {
    let mut rest = rest.chars();
    match rest.next() {
        None => true,
        Some('.') => rest.next().is_none_or(char::is_whitespace),
        Some(next) => !next.is_alphanumeric() && !matches!(next, '_' | '-' | '/'),
    }
}

#[cfg(test)]
mod tests;
