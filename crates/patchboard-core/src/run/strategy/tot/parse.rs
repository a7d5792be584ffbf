//! Parses candidates and scores from a model's answer. Models follow the requested form only loosely, so several forms
//! are accepted and an answer in none of them still counts as one candidate.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::id::CallId;
use crate::model::{ToolCall, ToolInput};
use crate::run::strategy::Completion;
use crate::run::strategy::prompt_text::{find_json_object, truncate_shared, value_text};
use crate::run_spec::NodeKey;

use crate::text::cut;

/// How much of an answer is read; the rest of a longer list is ignored.
const READ_BYTES: usize = 256 * 1024;
/// A thought is a few sentences; longer ones are cut.
const THOUGHT_BYTES: usize = 4_000;
/// Calls one thought may make; further ones are dropped.
const MAX_CALLS: usize = 8;
/// Candidates read from one answer, duplicates included.
const MAX_CANDIDATES: usize = 64;
/// Arguments nested deeper are treated as malformed.
const ARGUMENT_DEPTH: usize = 32;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ThoughtCandidate {
    pub(super) thought: Arc<str>,
    pub(super) calls: Vec<ToolCall>,
    pub(super) is_final: bool,
}

/// Reads lines `CANDIDATE i: …`, else `{"candidates": […]}`, else the whole text as one candidate. `tag` and `node` are
/// part of the ids of calls written in the text.
pub(super) fn candidates(completion: Completion, tag: &str, node: NodeKey) -> Vec<ThoughtCandidate> {
    let Completion { text, calls: native_calls, .. } = completion;
    let text = cut(&text, READ_BYTES);
    let mut ids = CallIds { tag, node, next: 0 };
    let mut candidates = candidates_from_lines(text, &mut ids);
    if candidates.is_empty() {
        candidates = candidates_from_json(text, &mut ids);
    }
    if candidates.is_empty() {
        let thought = truncate_shared(text, THOUGHT_BYTES);
        candidates.push(ThoughtCandidate { thought, calls: Vec::new(), is_final: false });
    }
    // If the model makes native calls although asked to write them down, they are attributed to the first candidate.
    if candidates.iter().all(|candidate| candidate.calls.is_empty())
        && let Some(first) = candidates.first_mut()
    {
        first.calls = native_calls.into_iter().take(MAX_CALLS).collect();
    }
    candidates.retain(|candidate| !candidate.thought.is_empty() || !candidate.calls.is_empty());
    for candidate in &mut candidates {
        if candidate.thought.is_empty() {
            let names: Vec<String> = candidate.calls.iter().map(|call| format!("`{}`", call.name)).collect();
            candidate.thought = format!("call {}", names.join(", ")).into();
        }
    }
    candidates
}

/// Scores of `count` candidates from 0 to 1; `None` if the answer has none. Scales from 0 to 10 and from 0 to 100 are
/// normalised.
pub(super) fn scores(text: &str, count: usize, unknown: f32) -> Option<Vec<f32>> {
    let parsed = scores_from_json(text).or_else(|| scores_from_lines(text, count))?;
    // No scale goes beyond 100; a larger number is not a score.
    let parsed: Vec<Option<f32>> = parsed.into_iter().map(|score| score.filter(|score| *score <= 100.0)).collect();
    let largest = parsed.iter().flatten().copied().fold(0.0, f32::max);
    let scale = match largest {
        largest if largest <= 1.0 => 1.0,
        largest if largest <= 10.0 => 10.0,
        _ => 100.0,
    };
    let mut scores: Vec<f32> =
        parsed.into_iter().map(|score| score.map_or(unknown, |s| (s / scale).clamp(0.0, 1.0))).collect();
    scores.resize(count, unknown);
    Some(scores)
}

fn candidates_from_lines(text: &str, ids: &mut CallIds<'_>) -> Vec<ThoughtCandidate> {
    let mut blocks: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = strip_candidate_label(line) {
            if blocks.len() == MAX_CANDIDATES {
                break;
            }
            blocks.push(rest.to_owned());
        } else if let Some(block) = blocks.last_mut() {
            block.push('\n');
            block.push_str(line);
        }
    }
    blocks.iter().map(|block| candidate_from_block(block, ids)).collect()
}

/// The text after `CANDIDATE 2:` at the beginning of a line, with or without Markdown around it.
fn strip_candidate_label(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(|c: char| c.is_whitespace() || "*#->•`".contains(c));
    let label = line.get(..9)?;
    if !label.eq_ignore_ascii_case("candidate") {
        return None;
    }
    let rest = line.get(9..)?.trim_start();
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = rest.get(digits..)?.trim_start_matches(['*', ' ']);
    let rest = rest.strip_prefix([':', '.', ')', '-'])?;
    (digits > 0).then(|| rest.trim_start_matches(['*', ' ']))
}

const BLOCK_LABELS: [&str; 3] = ["thought:", "tool_calls:", "final:"];

fn candidate_from_block(block: &str, ids: &mut CallIds<'_>) -> ThoughtCandidate {
    let (mut thought, mut calls, mut conclusion, mut is_final) = (String::new(), Vec::new(), String::new(), false);
    for (label, text) in segments(block) {
        match label {
            Some("tool_calls:") => calls = calls_from_text(text, ids),
            Some("final:") => match text.to_ascii_lowercase().as_str() {
                "" | "true" | "yes" => is_final = true,
                "false" | "no" => {}
                _ => {
                    is_final = true;
                    conclusion = text.to_owned();
                }
            },
            _ => append_line(&mut thought, text),
        }
    }
    append_line(&mut thought, &conclusion);
    ThoughtCandidate { thought: truncate_shared(&thought, THOUGHT_BYTES), calls, is_final }
}

fn append_line(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

/// Splits the block at its labels, which are recognised at its beginning, after a bar or on a new line.
fn segments(block: &str) -> Vec<(Option<&'static str>, &str)> {
    let lower = block.to_ascii_lowercase();
    let mut labels: Vec<(usize, &'static str)> = Vec::new();
    for label in BLOCK_LABELS {
        for (at, _) in lower.match_indices(label) {
            let before = block.get(..at).unwrap_or_default().trim_end_matches(['*', ' ']);
            if before.is_empty() || before.ends_with(['|', '\n']) {
                labels.push((at, label));
            }
        }
    }
    labels.sort_unstable();
    // The JSON of the calls extends past label-like text inside it; such text is part of the JSON.
    if let Some(calls) = labels.iter().position(|(_, label)| *label == "tool_calls:") {
        let open_until = labels.get(calls).map_or(0, |(at, label)| json_end(block, at + label.len()));
        let mut index = 0;
        labels.retain(|(at, _)| {
            index += 1;
            index - 1 <= calls || *at >= open_until
        });
    }
    let clean = |text: &'_ str| -> (usize, usize) {
        let start = text.len() - text.trim_start_matches(|c: char| c.is_whitespace() || c == '*').len();
        let end = text.trim_end_matches(|c: char| c.is_whitespace() || c == '|').len();
        (start.min(end), end)
    };
    let mut parts = Vec::new();
    let mut push = |label, text: &str, from: usize| {
        let (start, end) = clean(text);
        parts.push((label, from + start, from + end));
    };
    let first = labels.first().map_or(block.len(), |(at, _)| *at);
    push(None, block.get(..first).unwrap_or_default(), 0);
    for (index, (at, label)) in labels.iter().enumerate() {
        let from = at + label.len();
        let until = labels.get(index + 1).map_or(block.len(), |(next, _)| *next);
        push(Some(*label), block.get(from..until).unwrap_or_default(), from);
    }
    parts.into_iter().map(|(label, start, end)| (label, block.get(start..end).unwrap_or_default())).collect()
}

/// Where the JSON value that begins after `from` ends; `from` if there is none.
fn json_end(text: &str, from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    match values.next() {
        Some(Ok(_)) => from + values.byte_offset(),
        Some(Err(_)) | None => from,
    }
}

fn candidates_from_json(text: &str, ids: &mut CallIds<'_>) -> Vec<ThoughtCandidate> {
    let object = find_json_object(text, "candidates");
    let items = object.as_ref().and_then(|object| object.get("candidates")?.as_array());
    let items = items.map(Vec::as_slice).unwrap_or_default();
    let parsed = items.iter().take(MAX_CANDIDATES).map(|item| match item {
        Value::Object(fields) => {
            let text = ["thought", "text", "content"].iter().find_map(|name| fields.get(*name).and_then(value_text));
            ThoughtCandidate {
                thought: truncate_shared(&text.unwrap_or_default(), THOUGHT_BYTES),
                calls: fields.get("tool_calls").map(|calls| calls_from_json(calls, ids)).unwrap_or_default(),
                is_final: fields.get("final").is_some_and(|value| value == &Value::Bool(true)),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let thought = truncate_shared(&value_text(item).unwrap_or_default(), THOUGHT_BYTES);
            ThoughtCandidate { thought, calls: Vec::new(), is_final: false }
        }
    });
    parsed.collect()
}

/// Ids for calls without a provider's id. Deterministic, so that a replay of the same answer gives the same ids.
struct CallIds<'a> {
    tag: &'a str,
    node: NodeKey,
    next: u32,
}

impl CallIds<'_> {
    fn next(&mut self) -> CallId {
        self.next += 1;
        CallId(format!("call_{}_{}_{}", self.tag, self.node.0, self.next).into())
    }
}

/// Text that is not JSON gives no calls.
fn calls_from_text(text: &str, ids: &mut CallIds<'_>) -> Vec<ToolCall> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values.next().and_then(Result::ok).map(|value| calls_from_json(&value, ids)).unwrap_or_default()
}

fn calls_from_json(value: &Value, ids: &mut CallIds<'_>) -> Vec<ToolCall> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        Value::Object(_) => std::slice::from_ref(value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => &[],
    };
    items.iter().filter_map(Value::as_object).filter_map(|fields| call_from_json(fields, ids)).take(MAX_CALLS).collect()
}

fn call_from_json(fields: &Map<String, Value>, ids: &mut CallIds<'_>) -> Option<ToolCall> {
    if let Some(Value::Object(function)) = fields.get("function") {
        return call_from_json(function, ids);
    }
    let name = ["name", "tool"].iter().find_map(|key| fields.get(*key)?.as_str()).filter(|name| !name.is_empty())?;
    let arguments = ["arguments", "parameters", "args", "input"].iter().find_map(|key| fields.get(*key));
    let input = match arguments {
        None | Some(Value::Null) => ToolInput::Json(Arc::new(Value::Object(Map::new()))),
        // Some models encode arguments as a JSON string.
        Some(Value::String(text)) => match serde_json::from_str::<Value>(text) {
            Ok(value) if !exceeds_depth(&value, ARGUMENT_DEPTH) => ToolInput::Json(Arc::new(value)),
            Ok(_) | Err(_) => ToolInput::Malformed(text.as_str().into()),
        },
        Some(value) if exceeds_depth(value, ARGUMENT_DEPTH) => ToolInput::Malformed(value.to_string().into()),
        Some(value) => ToolInput::Json(Arc::new(value.clone())),
    };
    Some(ToolCall { id: ids.next(), name: name.into(), input })
}

fn exceeds_depth(value: &Value, depth: usize) -> bool {
    let Some(remaining) = depth.checked_sub(1) else { return value.is_array() || value.is_object() };
    match value {
        Value::Array(items) => items.iter().any(|item| exceeds_depth(item, remaining)),
        Value::Object(fields) => fields.values().any(|field| exceeds_depth(field, remaining)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn scores_from_json(text: &str) -> Option<Vec<Option<f32>>> {
    let object = find_json_object(text, "scores")?;
    let number = |value: &Value| match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Object(fields) => fields.get("score").and_then(Value::as_f64),
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    };
    #[expect(clippy::cast_possible_truncation, reason = "a score needs no more than six digits")]
    let number = |value: &Value| number(value).filter(|number| number.is_finite()).map(|number| number as f32);
    let scores: Vec<Option<f32>> = match object.get("scores")? {
        Value::Array(items) => items.iter().take(MAX_CANDIDATES).map(number).collect(),
        Value::Object(fields) => {
            let of = |index: usize| fields.get(&(index + 1).to_string()).and_then(number);
            (0..fields.len().min(MAX_CANDIDATES)).map(of).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    scores.iter().any(Option::is_some).then_some(scores)
}

/// One line with a score for each candidate, or all scores in a row.
fn scores_from_lines(text: &str, count: usize) -> Option<Vec<Option<f32>>> {
    let lines: Vec<f32> =
        text.lines().filter_map(|line| numbers(strip_candidate_number(line)).next()).take(count + 1).collect();
    if lines.len() == count {
        return Some(lines.into_iter().map(Some).collect());
    }
    let all: Vec<f32> = numbers(text).take(count + 1).collect();
    (all.len() == count).then(|| all.into_iter().map(Some).collect())
}

/// The line without the number of its candidate: `Candidate 2: 0.7`, `2) 0.7`.
fn strip_candidate_number(line: &str) -> &str {
    if let Some(rest) = strip_candidate_label(line) {
        return rest;
    }
    let line = line.trim_start_matches(|c: char| c.is_whitespace() || "*#->•".contains(c));
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = rest.len() < line.len() && (rest.starts_with([':', ')']) || rest.starts_with(". "));
    if numbered { rest.get(1..).unwrap_or_default() } else { line }
}

fn numbers(text: &str) -> impl Iterator<Item = f32> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let trimmed = words.map(|word| word.trim_end_matches('.')).filter(|word| !word.is_empty());
    trimmed.filter_map(|word| word.parse::<f32>().ok()).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests;
