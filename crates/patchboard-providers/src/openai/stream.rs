//! Parses the chunks of a Chat Completions stream, with the deviations of compatible servers.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use patchboard_core::model::{ModelError, ModelEvent, StopReason, TokenCount};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::calls::{CallLimit, parse_arguments};
use crate::event_reader::{EventParser, ParseProgress, unreadable};
use crate::http::stream_error;
use crate::sse;
use crate::tool_names::ToolNameMap;
use crate::wire::BorrowedText;

#[derive(Debug)]
pub(super) struct CompletionsParser {
    names: ToolNameMap,
    calls: Vec<OpenToolCall>,
    /// Calls begun so far, and the index of the next one on the board. Servers repeat indexes or omit them.
    next_call_index: u32,
    finish_reason: Option<StopReason>,
    refused: bool,
    limit: CallLimit,
}

/// A partially received tool call.
#[derive(Debug, Default)]
struct OpenToolCall {
    wire_index: Option<u32>,
    index: u32,
    id: String,
    name: String,
    arguments: String,
    /// The board's name of the tool, set once a chunk has been emitted.
    emitted_name: Option<Arc<str>>,
    emitted_bytes: usize,
}

#[derive(Deserialize)]
struct CompletionChunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<ChunkChoice<'a>>>,
    usage: Option<CompletionUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChunkChoice<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow)]
    delta: Option<ChoiceDelta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<BorrowedText<'a>>,
}

#[derive(Deserialize)]
struct ChoiceDelta<'a> {
    content: Option<String>,
    /// Reasoning, under either of the names that servers use.
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    refusal: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: Option<u32>,
    #[serde(borrow)]
    id: Option<BorrowedText<'a>>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow)]
    name: Option<BorrowedText<'a>>,
    /// A chunk of text or, from some servers, the object itself.
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CompletionUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

impl CompletionsParser {
    pub(super) fn new(names: ToolNameMap) -> Self {
        Self {
            names,
            calls: Vec::new(),
            next_call_index: 0,
            finish_reason: None,
            refused: false,
            limit: CallLimit::default(),
        }
    }

    fn apply_delta(&mut self, delta: ChoiceDelta<'_>, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let non_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
        if let Some(thought) = non_empty(delta.reasoning_content).or(non_empty(delta.reasoning)) {
            out.push_back(ModelEvent::Thought(thought));
        }
        if let Some(text) = non_empty(delta.content) {
            out.push_back(ModelEvent::Text(text));
        }
        if let Some(refusal) = non_empty(delta.refusal) {
            self.refused = true;
            out.push_back(ModelEvent::Text(refusal));
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.add_call_chunk(call, out)?;
        }
        Ok(())
    }

    fn add_call_chunk(&mut self, delta: CallDelta<'_>, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let id = delta.id.as_ref().map(BorrowedText::as_str).unwrap_or_default();
        let (name, arguments) = match &delta.function {
            Some(function) => {
                (function.name.as_ref().map(BorrowedText::as_str).unwrap_or_default(), function.arguments)
            }
            None => ("", None),
        };
        let known = self.calls.iter().rposition(|call| call.continues(delta.index, id, name));
        if known.is_none() {
            self.limit.add_call()?;
            self.calls.push(OpenToolCall {
                wire_index: delta.index,
                index: self.next_call_index,
                ..OpenToolCall::default()
            });
            self.next_call_index = self.next_call_index.saturating_add(1);
        }
        let position = known.unwrap_or(self.calls.len() - 1);
        let Some(call) = self.calls.get_mut(position) else { return Ok(()) };
        // Id and name arrive complete; some servers repeat them in every chunk.
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        if call.name.is_empty() {
            call.name.push_str(name);
        }
        let arguments = argument_text(arguments)?;
        self.limit.add_arguments(arguments.len())?;
        call.arguments.push_str(&arguments);
        if !call.name.is_empty() {
            call.emit_chunk(&self.names, out);
        }
        Ok(())
    }

    /// Calls are only known to be complete at the end of the stream.
    fn emit_calls(&mut self, out: &mut VecDeque<ModelEvent>) {
        for mut call in self.calls.drain(..) {
            // Every call, even one without a name, must have chunk events before its call event.
            let name = call.emit_chunk(&self.names, out);
            let id = if call.id.is_empty() { format!("call-{}", call.index.saturating_add(1)) } else { call.id };
            let input = parse_arguments(&call.arguments);
            out.push_back(ModelEvent::ToolCall { index: call.index, id: id.into(), name, input });
        }
    }

    fn finish(&mut self, out: &mut VecDeque<ModelEvent>) {
        self.emit_calls(out);
        // Some servers send `stop` after calls and `tool_calls` without any, so the calls themselves decide.
        let reason = match self.finish_reason.unwrap_or(StopReason::EndOfTurn) {
            _ if self.refused => StopReason::Refused,
            StopReason::EndOfTurn | StopReason::ToolCalls if self.next_call_index > 0 => StopReason::ToolCalls,
            StopReason::ToolCalls => StopReason::EndOfTurn,
            reason @ (StopReason::EndOfTurn | StopReason::MaxTokens | StopReason::Refused) => reason,
        };
        out.push_back(ModelEvent::Stop(reason));
    }
}

impl EventParser for CompletionsParser {
    fn event(
        &mut self,
        event: &sse::ServerSentEvent<'_>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<ParseProgress, ModelError> {
        if event.data.trim() == "[DONE]" {
            self.finish(out);
            return Ok(ParseProgress::Done);
        }
        if event.name == "error" {
            return Err(stream_error(&serde_json::from_str(&event.data).unwrap_or_default()));
        }
        let chunk: CompletionChunk<'_> = serde_json::from_str(&event.data).map_err(|_| unreadable())?;
        if let Some(error) = chunk.error {
            return Err(stream_error(&serde_json::from_str::<Value>(error.get()).unwrap_or_default()));
        }
        // Only one choice is requested; others are ignored.
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.apply_delta(delta, out)?;
            }
            match choice.finish_reason.as_ref().map(BorrowedText::as_str) {
                None | Some("") => {}
                Some("error") => return Err(stream_error(&Value::Null)),
                Some(reason) => {
                    self.finish_reason = Some(finish_reason(reason));
                    self.emit_calls(out);
                }
            }
        }
        out.extend(chunk.usage.and_then(|usage| usage.token_count()).map(ModelEvent::Usage));
        Ok(if self.finish_reason.is_some() { ParseProgress::Complete } else { ParseProgress::More })
    }

    fn end(&mut self, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        if self.finish_reason.is_none() {
            return Err(ModelError::Truncated("provider stream ended before the answer was complete".to_owned()));
        }
        self.finish(out);
        Ok(())
    }
}

impl OpenToolCall {
    /// Calls are distinguished by their index, except from servers that send 0 for every call: there a new id begins a
    /// call. Without any index, a new name begins one.
    fn continues(&self, index: Option<u32>, id: &str, name: &str) -> bool {
        let same_id = id.is_empty() || self.id.is_empty() || self.id == id;
        match index {
            Some(_) => self.wire_index == index && same_id,
            None => same_id && (name.is_empty() || self.name.is_empty() || !id.is_empty()),
        }
    }

    /// Emits the new part of the arguments; the first time even if it is empty.
    fn emit_chunk(&mut self, names: &ToolNameMap, out: &mut VecDeque<ModelEvent>) -> Arc<str> {
        let is_first = self.emitted_name.is_none();
        let name = Arc::clone(self.emitted_name.get_or_insert_with(|| names.board_name(&self.name)));
        let new = self.arguments.get(self.emitted_bytes..).unwrap_or_default();
        if is_first || !new.is_empty() {
            out.push_back(ModelEvent::ToolCallChunk {
                index: self.index,
                name: Arc::clone(&name),
                text: new.to_owned(),
            });
        }
        self.emitted_bytes = self.arguments.len();
        name
    }
}

impl CompletionUsage {
    /// `None` unless both counts are present, because a partial count would be taken for the total. Servers that do not
    /// count send zeros.
    fn token_count(&self) -> Option<TokenCount> {
        let input = self.prompt_tokens?;
        let rest = || self.total_tokens.map(|total| total.saturating_sub(input));
        let count = TokenCount::from_provider(input, self.completion_tokens.or_else(rest)?);
        (count.total() > 0).then_some(count)
    }
}

fn argument_text<'a>(arguments: Option<&'a RawValue>) -> Result<Cow<'a, str>, ModelError> {
    match arguments.map(RawValue::get) {
        None | Some("null") => Ok(Cow::Borrowed("")),
        Some(text) if text.starts_with('"') => serde_json::from_str(text).map(Cow::Owned).map_err(|_| unreadable()),
        Some(object) => Ok(Cow::Borrowed(object)),
    }
}

fn finish_reason(text: &str) -> StopReason {
    match text {
        "length" | "max_tokens" => StopReason::MaxTokens,
        "tool_calls" | "function_call" => StopReason::ToolCalls,
        "content_filter" | "refusal" => StopReason::Refused,
        _ => StopReason::EndOfTurn,
    }
}
