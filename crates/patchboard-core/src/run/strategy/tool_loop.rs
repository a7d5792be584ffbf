//! One conversation with the model in rounds: each answer is either text, which ends it, or tool calls, whose results
//! go into the next request. React and dup run one loop; got runs one for each task. The loop knows no nodes; its owner
//! assigns them.

use super::Completion;
use crate::id::CallId;
use crate::model::{ContentPart, MessageRole, ModelMessage, ToolCall, ToolResult};
use crate::tool::ToolOutput;

#[derive(Debug)]
pub(super) struct ToolLoop {
    /// The conversation so far, from the user's message on.
    messages: Vec<ModelMessage>,
    /// The calls of the latest answer, each with its result once it has arrived.
    pending_calls: Vec<(ToolCall, Option<ToolOutput>)>,
    model_calls: u32,
    turns: u32,
    limits: ToolLoopLimits,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ToolLoopLimits {
    pub(super) model_calls: u32,
    pub(super) turns: u32,
}

/// How a model answer was classified.
#[derive(Debug)]
pub(super) enum RoundOutcome {
    /// Text only: the conversation is over.
    Text(String),
    Calls(Vec<ToolCall>),
    /// The answer calls tools although no round of tools is left.
    LimitReached,
}

impl ToolLoop {
    pub(super) fn new(user: ModelMessage, limits: ToolLoopLimits) -> Self {
        Self { messages: vec![user], pending_calls: Vec::new(), model_calls: 0, turns: 0, limits }
    }

    /// Returns the messages of the next request and counts it; `None` if no model call is left.
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

    /// Is the latest request the last one allowed, by model calls or by rounds?
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

    /// Returns true once all calls of the round have their results; the results are then appended to the conversation.
    pub(super) fn push_result(&mut self, call: &CallId, output: ToolOutput) -> bool {
        let pending = self.pending_calls.iter_mut().find(|(open, output)| open.id == *call && output.is_none());
        let Some((_, slot)) = pending else { return false };
        *slot = Some(output);
        if self.pending_calls.iter().any(|(_, output)| output.is_none()) {
            return false;
        }
        // Results in the order of the calls, whatever the order they arrived in.
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
