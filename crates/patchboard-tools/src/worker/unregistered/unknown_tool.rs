//! Does a failure say that the worker has no tool of that name? Adapters say so in words of their own, and a tool's own
//! failure must never be taken for it: the words have to be about a tool, and about exactly this one.

use patchboard_core::tool::{ToolFault, ToolOutput};
use serde_json::Value;

use crate::worker::response::UNKNOWN_TO_WORKER;

/// Longer ones are about something else.
const MAX_TEXT: usize = 64 * 1024;

/// What comes before the name.
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
/// What a name is called that is followed by one of `AFTER`.
const NOUNS: [&str; 4] = ["tool ", "command ", "method ", "function "];
/// After a noun and the name.
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
/// Also after the name alone: nothing but a tool is registered. A program of that name may well be not found.
const NAME_SUFFIX_PHRASES: [&str; 5] =
    ["not implemented", "is not implemented", "not registered", "is not registered", "is unknown"];

pub(super) fn is_unknown_tool(output: &ToolOutput, name: &str) -> bool {
    if !output.is_error {
        return false;
    }
    match output.data.as_ref().and_then(|data| data.fault) {
        // Without words of its own it cannot be about anything else.
        Some(ToolFault::NotFound) => &*output.content == UNKNOWN_TO_WORKER || contains_word(&output.content, name),
        // A stream ends with an internal error whatever its tool says.
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

fn is_unknown_message(said: &str, name: &str) -> bool {
    if said.len() > MAX_TEXT {
        return false;
    }
    let (kind, message) = match serde_json::from_str::<Value>(said) {
        Ok(Value::Object(error)) => {
            let field = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            (field("type"), field("message"))
        }
        // As a model reads it: the kind, a colon, the message.
        Ok(_) | Err(_) => match said.split_once(": ") {
            Some((kind, message)) if kind.chars().all(char::is_alphanumeric) => (kind.to_owned(), message.to_owned()),
            Some(_) | None => (String::new(), said.to_owned()),
        },
    };
    let text = without_quotes(&message);
    match kind.rsplit('.').next().unwrap_or_default() {
        "ToolNotFound" => return true,
        // A table of tools, asked for a key that it does not have.
        "KeyError" if text == name => return true,
        "AttributeError" if is_missing_method(&text, name) => return true,
        _ => {}
    }
    // A message alone may be split as if it had a kind.
    let whole = without_quotes(said);
    [&text, &whole].into_iter().any(|text| reports_unknown(text, name))
}

fn without_quotes(text: &str) -> String {
    text.trim().replace(['\'', '"', '`'], "")
}

/// `MyAdapter object has no attribute NAME`, as Python says it of the adapter itself. Of any other object it is a mistake
/// inside the tool: many are called like the method that they call.
fn is_missing_method(text: &str, name: &str) -> bool {
    let Some((owner, attribute)) = text.split_once(" object has no attribute ") else { return false };
    attribute == name && !owner.contains(' ') && owner.to_ascii_lowercase().ends_with("adapter")
}

/// Whether the name is one of the words.
fn contains_word(text: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-');
    text.split(|character| !is_part(character)).any(|word| word == name)
}

fn reports_unknown(text: &str, name: &str) -> bool {
    let named_after = |phrase: &&str| {
        let rest = strip_phrase(text, phrase)?;
        rest.trim_start_matches([':', ' ']).strip_prefix(name)
    };
    if PREFIX_PHRASES.iter().filter_map(named_after).any(ends_a_name) {
        return true;
    }
    let verdict = |rest: &'_ str| rest.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
    let says = |verdict: &str, phrases: &[&str]| {
        phrases.iter().filter_map(|phrase| strip_phrase(verdict, phrase)).any(ends_a_name)
    };
    let mut of_tools = NOUNS.iter().filter_map(|noun| verdict(strip_phrase(text, noun)?));
    of_tools.any(|verdict| says(&verdict, &SUFFIX_PHRASES) || says(&verdict, &NAME_SUFFIX_PHRASES))
        || verdict(text).is_some_and(|verdict| says(&verdict, &NAME_SUFFIX_PHRASES))
}

/// What follows the phrase, in whatever case it is written.
fn strip_phrase<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(phrase.len())?;
    head.eq_ignore_ascii_case(phrase).then_some(rest)
}

/// Is this name whole, or the beginning of a longer one?
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
