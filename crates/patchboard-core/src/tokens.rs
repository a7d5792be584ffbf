//! Token estimates without a tokenizer. Models differ; the estimate leans high so that caps and budgets hold.

use crate::model::{ContentPart, ModelMessage, ToolInput};
use crate::tool::ToolSpec;

/// Roles, separators and other overhead of a message.
const PER_MESSAGE: u64 = 4;
/// Overhead of one tool call or result inside a message.
const PER_TOOL_PART: u64 = 8;

/// ASCII letters per token of a word: real tokenizers average a little over four.
const LETTERS_PER_TOKEN: u64 = 4;

pub fn estimate(text: &str) -> u64 {
    let mut tokens = 0;
    let mut word = 0;
    // In half tokens: non-Latin scripts take about one token for two letters, ideographs one each.
    let mut halves = 0;
    for character in text.chars() {
        match character {
            'a'..='z' | 'A'..='Z' => word += 1,
            _ => {
                tokens += word_tokens(word);
                word = 0;
                match character {
                    ' ' => {}
                    // Digits are often one token each, and whitespace other than blanks always is.
                    '\0'..='\x7f' => tokens += 1,
                    '\u{80}'..='\u{2e7f}' => halves += 1,
                    _ => halves += 2,
                }
            }
        }
    }
    tokens + word_tokens(word) + u64::div_ceil(halves, 2)
}

fn word_tokens(letters: u64) -> u64 {
    letters.div_ceil(LETTERS_PER_TOKEN)
}

pub fn estimate_message(message: &ModelMessage) -> u64 {
    let parts = message.parts.iter().map(|part| match part {
        ContentPart::Text(text) => estimate(text),
        ContentPart::ToolCall(call) => {
            let arguments = match &call.input {
                ToolInput::Json(value) => estimate(&value.to_string()),
                ToolInput::Malformed(text) => estimate(text),
            };
            PER_TOOL_PART + estimate(&call.name) + arguments
        }
        ContentPart::ToolResult(result) => PER_TOOL_PART + estimate(&result.content),
    });
    PER_MESSAGE + parts.sum::<u64>()
}

pub fn estimate_messages(messages: &[ModelMessage]) -> u64 {
    messages.iter().map(estimate_message).sum()
}

pub fn estimate_tool(tool: &ToolSpec) -> u64 {
    PER_TOOL_PART + estimate(&tool.name) + estimate(&tool.description) + estimate(&tool.input_schema.to_string())
}

/// The longest prefix of `text` whose estimate is at most `limit` tokens.
pub fn truncate(text: &str, limit: u64) -> &str {
    if estimate(text) <= limit {
        return text;
    }
    // `estimate` grows with the prefix, so the cut is found by binary search over character starts.
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let fitting = starts.partition_point(|&at| text.get(..at).is_some_and(|prefix| estimate(prefix) <= limit));
    let end = fitting.checked_sub(1).and_then(|last| starts.get(last)).copied().unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests;
