//! One exchange with the model in rounds: it speaks or calls tools, hears their results, and goes on. React and dup are
//! one such exchange, each task of a graph is another. Knows no nodes: whoever holds it says where it happens.

use super::Completion;
use crate::id::CallId;
use crate::model::{ContentPart, MessageRole, ModelMessage, ToolCall, ToolResult};
use crate::tool::ToolOutput;

#[derive(Debug)]
pub(super) struct ToolLoop {
    /// What was said so far, from the user's words on.
    messages: Vec<ModelMessage>,
    /// The calls of the latest answer, each with its result once it is there.
    pending_calls: Vec<(ToolCall, Option<ToolOutput>)>,
    model_calls: u32,
    turns: u32,
    limits: ToolLoopLimits,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ToolLoopLimits {
    pub(super) model_calls: u32,
    /// Rounds of tools.
    pub(super) turns: u32,
}

/// What an answer came to.
#[derive(Debug)]
pub(super) enum RoundOutcome {
    /// Words only: the exchange is over.
    Text(String),
    Calls(Vec<ToolCall>),
    /// It wants one round of tools more than there are.
    LimitReached,
}

impl ToolLoop {
    pub(super) fn new(user: ModelMessage, limits: ToolLoopLimits) -> Self {
        Self { messages: vec![user], pending_calls: Vec::new(), model_calls: 0, turns: 0, limits }
    }

    /// What was said, if the model may be asked once more; asking is counted here.
    pub(super) fn next_request(&mut self) -> Option<&[ModelMessage]> {
        if self.model_calls >= self.limits.model_calls {
            return None;
        }
        self.model_calls += 1;
        Some(&self.messages)
    }

    pub(super) fn model_calls(&self) -> u32 {
        self.model_calls
    }

    /// Was the latest question the last one there is, by calls or by rounds?
    pub(super) fn is_last(&self) -> bool {
        self.model_calls >= self.limits.model_calls || self.turns >= self.limits.turns
    }

    pub(super) fn messages(&self) -> &[ModelMessage] {
        &self.messages
    }

    pub(super) fn push_answer(&mut self, completion: Completion) -> RoundOutcome {
        let Completion { text, calls, .. } = completion;
        let mut parts = Vec::with_capacity(calls.len() + 1);
        if !text.is_empty() {
            parts.push(ContentPart::Text(text.as_str().into()));
        }
        parts.extend(calls.iter().cloned().map(ContentPart::ToolCall));
        if !parts.is_empty() {
            self.messages.push(ModelMessage { role: MessageRole::Assistant, parts });
        }
        if calls.is_empty() {
            return RoundOutcome::Text(text);
        }
        if self.turns >= self.limits.turns {
            return RoundOutcome::LimitReached;
        }
        self.pending_calls = calls.iter().cloned().map(|call| (call, None)).collect();
        RoundOutcome::Calls(calls)
    }

    pub(super) fn is_waiting_for(&self, call: &CallId) -> bool {
        self.pending_calls.iter().any(|(open, output)| open.id == *call && output.is_none())
    }

    /// Answers whether all calls of the round are back; their results are then part of what was said.
    pub(super) fn push_result(&mut self, call: &CallId, output: ToolOutput) -> bool {
        let waiting = self.pending_calls.iter_mut().find(|(open, output)| open.id == *call && output.is_none());
        let Some((_, slot)) = waiting else { return false };
        *slot = Some(output);
        if self.pending_calls.iter().any(|(_, output)| output.is_none()) {
            return false;
        }
        // Results in the order of the calls, whatever the order they came in.
        let results = self.pending_calls.drain(..).filter_map(|(call, output)| {
            let ToolOutput { content, is_error, .. } = output?;
            Some(ContentPart::ToolResult(ToolResult { call: call.id, name: call.name, content, is_error }))
        });
        let message = ModelMessage { role: MessageRole::User, parts: results.collect() };
        self.messages.push(message);
        self.turns += 1;
        true
    }
}
