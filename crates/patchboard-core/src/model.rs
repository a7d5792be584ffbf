//! Requests to models and their responses, independent of any provider's wire format.

use std::sync::Arc;

use serde_json::Value;

use crate::id::CallId;
use crate::tool::ToolSpec;

/// The author of a message. Tool results are parts of `User` messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageRole {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelMessage {
    pub role: MessageRole,
    pub parts: Vec<ContentPart>,
}

/// One part of a message. Parts keep their origin: a tool's text never becomes the user's.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentPart {
    Text(Arc<str>),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
}

/// A tool call requested by the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub id: CallId,
    pub name: Arc<str>,
    pub input: ToolInput,
}

/// Arguments as the model wrote them. Malformed JSON is reported to the model and does not end the run.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolInput {
    Json(Arc<Value>),
    Malformed(Arc<str>),
}

impl ToolInput {
    /// Approximate size in bytes.
    pub fn approximate_bytes(&self) -> usize {
        match self {
            Self::Json(value) => approximate_json_bytes(value),
            Self::Malformed(text) => text.len(),
        }
    }
}

/// Approximate size in memory.
pub fn approximate_json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
        Value::String(text) => 24 + text.len(),
        Value::Array(items) => 24 + items.iter().map(approximate_json_bytes).sum::<usize>(),
        Value::Object(fields) => {
            24 + fields.iter().map(|(key, value)| 48 + key.len() + approximate_json_bytes(value)).sum::<usize>()
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    pub call: CallId,
    /// The tool's name, for wire formats that require it beside the id.
    pub name: Arc<str>,
    pub content: Arc<str>,
    pub is_error: bool,
}

impl ModelMessage {
    pub fn user(text: impl Into<Arc<str>>) -> Self {
        Self { role: MessageRole::User, parts: vec![ContentPart::Text(text.into())] }
    }

    pub fn assistant(text: impl Into<Arc<str>>) -> Self {
        Self { role: MessageRole::Assistant, parts: vec![ContentPart::Text(text.into())] }
    }

    /// The message's text parts joined, without tool calls and results.
    pub fn text(&self) -> String {
        let mut joined = String::new();
        for part in &self.parts {
            match part {
                ContentPart::Text(text) => joined.push_str(text),
                ContentPart::ToolCall(_) | ContentPart::ToolResult(_) => {}
            }
        }
        joined
    }
}

/// One call of a model. `messages` alternate roles and end with a user message.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// Empty: the provider's default model.
    pub model: Arc<str>,
    /// System text: soul, then facts; may be empty.
    pub system: Arc<str>,
    pub messages: Vec<ModelMessage>,
    pub tools: Arc<[ToolSpec]>,
    /// Hard limit of the answer, already reduced to the remaining budget.
    pub max_tokens: u32,
    pub temperature: Option<f32>,
}

/// Items of a model's stream, in order. A stream that ends without `Stop` was cut off.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// The provider and model that answer (after fallbacks); the first item.
    ModelSelected {
        provider: Arc<str>,
        model: Arc<str>,
    },
    Text(String),
    /// Reasoning text, if the provider separates it.
    Thought(String),
    /// A chunk of a call's arguments; the first of an index may be empty. `ToolCall` follows with the same index once
    /// the call is complete. Providers that send only complete calls send no chunks.
    ToolCallChunk {
        index: u32,
        name: Arc<str>,
        text: String,
    },
    /// A complete tool call. `id` is the provider's and is replaced before it leaves the run.
    ToolCall {
        index: u32,
        id: Arc<str>,
        name: Arc<str>,
        input: ToolInput,
    },
    /// Running totals of this call; a later one replaces an earlier one.
    Usage(TokenCount),
    Stop(StopReason),
}

/// A model in a provider's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// The id used in requests.
    pub id: Arc<str>,
    /// Display name, if the provider has one.
    pub name: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCount {
    pub input: u64,
    pub output: u64,
}

impl TokenCount {
    /// No model uses so many in one call, and thousands of calls still add up without overflow.
    pub const MAX: u64 = 1 << 32;

    /// Clamps a provider's figures, which are not trusted.
    pub fn from_provider(input: u64, output: u64) -> Self {
        Self { input: input.min(Self::MAX), output: output.min(Self::MAX) }
    }

    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    EndOfTurn,
    ToolCalls,
    MaxTokens,
    /// The provider declined to continue (content filter, refusal).
    Refused,
}

/// Why a model call failed. Messages never contain upstream bodies, keys or URLs with credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No request was sent: the key is missing. The text names the variable to set. Returned as an error, not in the
    /// stream.
    #[error("{0}")]
    NotConfigured(String),
    #[error("{0}")]
    Rejected(String),
    #[error("{0}")]
    RateLimited(String),
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Timeout(String),
    /// The stream ended before its terminator: the text so far is not an answer.
    #[error("{0}")]
    Truncated(String),
    #[error("cancelled")]
    Cancelled,
}

impl ModelError {
    /// Whether the same request may be sent again (or to a fallback) as long as no token was received.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited(_) | Self::Unavailable(_) | Self::Timeout(_) | Self::Truncated(_) => true,
            Self::NotConfigured(_) | Self::Rejected(_) | Self::Cancelled => false,
        }
    }
}
