//! Parses the events of a Messages stream.

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
pub(super) struct MessagesParser {
    names: ToolNameMap,
    usage: UsageTotals,
    stop: Option<StopReason>,
    calls: Vec<OpenToolUse>,
    /// Calls begun so far, and the index of the next one on the board. Text blocks do not count.
    next_call_index: u32,
    limit: CallLimit,
}

/// A tool call whose arguments are still arriving.
#[derive(Debug)]
struct OpenToolUse {
    block: u32,
    index: u32,
    id: String,
    name: Arc<str>,
    /// Arguments in the block's start event, from servers that do not stream them.
    initial_input: String,
    partial_json: String,
}

/// All event types in one struct, distinguished by `type` afterwards: much cheaper than a tagged enum.
#[derive(Deserialize)]
struct MessagesEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: BorrowedText<'a>,
    #[serde(default)]
    index: u32,
    #[serde(borrow)]
    delta: Option<EventDelta<'a>>,
    #[serde(borrow)]
    content_block: Option<ContentBlock<'a>>,
    message: Option<MessageHead>,
    usage: Option<UsageTotals>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EventDelta<'a> {
    text: Option<String>,
    thinking: Option<String>,
    #[serde(borrow)]
    partial_json: Option<BorrowedText<'a>>,
    #[serde(borrow)]
    stop_reason: Option<BorrowedText<'a>>,
}

#[derive(Deserialize)]
struct ContentBlock<'a> {
    #[serde(rename = "type", borrow)]
    kind: BorrowedText<'a>,
    id: Option<String>,
    name: Option<String>,
    text: Option<String>,
    thinking: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MessageHead {
    usage: Option<UsageTotals>,
}

/// Cumulative totals; fields that a later event omits keep their value.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct UsageTotals {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl MessagesParser {
    pub(super) fn new(names: ToolNameMap) -> Self {
        Self {
            names,
            usage: UsageTotals::default(),
            stop: None,
            calls: Vec::new(),
            next_call_index: 0,
            limit: CallLimit::default(),
        }
    }

    fn block_started(
        &mut self,
        position: u32,
        block: ContentBlock<'_>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ModelError> {
        match block.kind.as_str() {
            "tool_use" => {
                self.limit.add_call()?;
                let initial_input = block.input.map(RawValue::get).unwrap_or_default();
                self.limit.add_arguments(initial_input.len())?;
                let call = OpenToolUse {
                    block: position,
                    index: self.next_call_index,
                    id: block.id.unwrap_or_default(),
                    name: self.names.board_name(&block.name.unwrap_or_default()),
                    initial_input: initial_input.to_owned(),
                    partial_json: String::new(),
                };
                self.next_call_index = self.next_call_index.saturating_add(1);
                out.push_back(call.chunk_event(""));
                self.calls.push(call);
            }
            _ => push_text(block.text, block.thinking, out),
        }
        Ok(())
    }

    fn block_continued(
        &mut self,
        position: u32,
        delta: EventDelta<'_>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ModelError> {
        push_text(delta.text, delta.thinking, out);
        if let Some(chunk) = delta.partial_json
            && !chunk.as_str().is_empty()
            && let Some(call) = self.calls.iter_mut().find(|call| call.block == position)
        {
            self.limit.add_arguments(chunk.as_str().len())?;
            call.partial_json.push_str(chunk.as_str());
            out.push_back(call.chunk_event(chunk.as_str()));
        }
        Ok(())
    }

    fn block_stopped(&mut self, position: u32, out: &mut VecDeque<ModelEvent>) {
        if let Some(at) = self.calls.iter().position(|call| call.block == position) {
            let call = self.calls.remove(at);
            if call.partial_json.is_empty() && !call.initial_input.is_empty() {
                out.push_back(call.chunk_event(&call.initial_input));
            }
            let input =
                parse_arguments(if call.partial_json.is_empty() { &call.initial_input } else { &call.partial_json });
            out.push_back(ModelEvent::ToolCall { index: call.index, id: call.id.into(), name: call.name, input });
        }
    }

    fn merge_usage(&mut self, usage: Option<UsageTotals>, out: &mut VecDeque<ModelEvent>) {
        let Some(new) = usage else { return };
        let totals = &mut self.usage;
        totals.input_tokens = new.input_tokens.or(totals.input_tokens);
        totals.cache_creation_input_tokens = new.cache_creation_input_tokens.or(totals.cache_creation_input_tokens);
        totals.cache_read_input_tokens = new.cache_read_input_tokens.or(totals.cache_read_input_tokens);
        totals.output_tokens = new.output_tokens.or(totals.output_tokens);
        let input = [totals.input_tokens, totals.cache_creation_input_tokens, totals.cache_read_input_tokens]
            .into_iter()
            .flatten()
            .fold(0, u64::saturating_add);
        // Not emitted before both counts are known, because a partial count would be taken for the total.
        if let (Some(_), Some(output)) = (totals.input_tokens, totals.output_tokens) {
            out.push_back(ModelEvent::Usage(TokenCount::from_provider(input, output)));
        }
    }
}

impl OpenToolUse {
    fn chunk_event(&self, text: &str) -> ModelEvent {
        ModelEvent::ToolCallChunk { index: self.index, name: Arc::clone(&self.name), text: text.to_owned() }
    }
}

impl EventParser for MessagesParser {
    fn event(
        &mut self,
        event: &sse::ServerSentEvent<'_>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<ParseProgress, ModelError> {
        let frame: MessagesEvent<'_> = serde_json::from_str(&event.data).map_err(|_| unreadable())?;
        match frame.kind.as_str() {
            "content_block_delta" => {
                if let Some(delta) = frame.delta {
                    self.block_continued(frame.index, delta, out)?;
                }
            }
            "content_block_start" => {
                if let Some(block) = frame.content_block {
                    self.block_started(frame.index, block, out)?;
                }
            }
            "content_block_stop" => self.block_stopped(frame.index, out),
            "message_start" => self.merge_usage(frame.message.and_then(|message| message.usage), out),
            "message_delta" => {
                self.merge_usage(frame.usage, out);
                if let Some(reason) = frame.delta.and_then(|delta| delta.stop_reason) {
                    self.stop = Some(stop_reason(reason.as_str()));
                }
            }
            "message_stop" => {
                out.push_back(ModelEvent::Stop(self.stop.unwrap_or(StopReason::EndOfTurn)));
                return Ok(ParseProgress::Done);
            }
            "error" => {
                let error = frame.error.and_then(|error| serde_json::from_str::<Value>(error.get()).ok());
                return Err(stream_error(&error.unwrap_or_default()));
            }
            // `ping`, and event types added to the API later.
            _ => {}
        }
        Ok(ParseProgress::More)
    }

    fn end(&mut self, _out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        Err(ModelError::Truncated("provider stream ended before `message_stop`".to_owned()))
    }
}

fn push_text(text: Option<String>, thinking: Option<String>, out: &mut VecDeque<ModelEvent>) {
    if let Some(thought) = thinking.filter(|thought| !thought.is_empty()) {
        out.push_back(ModelEvent::Thought(thought));
    }
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        out.push_back(ModelEvent::Text(text));
    }
}

fn stop_reason(text: &str) -> StopReason {
    match text {
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refused,
        // `end_turn`, `stop_sequence`, `pause_turn`.
        _ => StopReason::EndOfTurn,
    }
}
