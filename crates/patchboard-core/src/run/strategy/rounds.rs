//! One exchange with the model in rounds: it speaks or calls tools, hears their results, and goes on. React and dup are
//! one such exchange, each task of a graph is another. Knows no nodes: whoever holds it says where it happens.

use super::Completion;
use crate::id::CallId;
use crate::model::{Message, Part, Role, ToolCall, ToolResult};
use crate::tool::ToolOutput;

#[derive(Debug)]
pub(super) struct Rounds {
    /// What was said so far, from the user's words on.
    said: Vec<Message>,
    /// The calls of the latest answer, each with its result once it is there.
    open: Vec<(ToolCall, Option<ToolOutput>)>,
    asked: u32,
    turns: u32,
    limits: RoundLimits,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct RoundLimits {
    pub(super) model_calls: u32,
    /// Rounds of tools.
    pub(super) turns: u32,
}

/// What an answer came to.
#[derive(Debug)]
pub(super) enum Heard {
    /// Words only: the exchange is over.
    Words(String),
    Calls(Vec<ToolCall>),
    /// It wants one round of tools more than there are.
    TooMany,
}

impl Rounds {
    pub(super) fn new(user: Message, limits: RoundLimits) -> Self {
        Self { said: vec![user], open: Vec::new(), asked: 0, turns: 0, limits }
    }

    /// What was said, if the model may be asked once more; asking is counted here.
    pub(super) fn ask(&mut self) -> Option<&[Message]> {
        if self.asked >= self.limits.model_calls {
            return None;
        }
        self.asked += 1;
        Some(&self.said)
    }

    pub(super) fn asked(&self) -> u32 {
        self.asked
    }

    /// Was the latest question the last one there is, by calls or by rounds?
    pub(super) fn is_last(&self) -> bool {
        self.asked >= self.limits.model_calls || self.turns >= self.limits.turns
    }

    pub(super) fn said(&self) -> &[Message] {
        &self.said
    }

    pub(super) fn answered(&mut self, completion: Completion) -> Heard {
        let Completion { text, calls, .. } = completion;
        let mut parts = Vec::with_capacity(calls.len() + 1);
        if !text.is_empty() {
            parts.push(Part::Text(text.as_str().into()));
        }
        parts.extend(calls.iter().cloned().map(Part::ToolCall));
        if !parts.is_empty() {
            self.said.push(Message { role: Role::Assistant, parts });
        }
        if calls.is_empty() {
            return Heard::Words(text);
        }
        if self.turns >= self.limits.turns {
            return Heard::TooMany;
        }
        self.open = calls.iter().cloned().map(|call| (call, None)).collect();
        Heard::Calls(calls)
    }

    pub(super) fn waits_for(&self, call: &CallId) -> bool {
        self.open.iter().any(|(open, output)| open.id == *call && output.is_none())
    }

    /// Answers whether all calls of the round are back; their results are then part of what was said.
    pub(super) fn tool_finished(&mut self, call: &CallId, output: ToolOutput) -> bool {
        let waiting = self.open.iter_mut().find(|(open, output)| open.id == *call && output.is_none());
        let Some((_, slot)) = waiting else { return false };
        *slot = Some(output);
        if self.open.iter().any(|(_, output)| output.is_none()) {
            return false;
        }
        // Results in the order of the calls, whatever the order they came in.
        let results = self.open.drain(..).filter_map(|(call, output)| {
            let ToolOutput { content, is_error, .. } = output?;
            Some(Part::ToolResult(ToolResult { call: call.id, name: call.name, content, is_error }))
        });
        let message = Message { role: Role::User, parts: results.collect() };
        self.said.push(message);
        self.turns += 1;
        true
    }
}
