//! What is said to a model and what comes back, in no provider's dialect.

use std::sync::Arc;

use serde_json::Value;

use crate::id::CallId;
use crate::tool::ToolSpec;

/// Who said a message. Tool results travel in `User` messages, as parts of their own.
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

/// One piece of a message. Parts keep their origin: a tool's words never become the user's.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentPart {
    Text(Arc<str>),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
}

/// A call the model asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub id: CallId,
    pub name: Arc<str>,
    pub input: ToolInput,
}

/// Arguments as the model wrote them. Models do write broken JSON; that is told back to them, it does not end a run.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolInput {
    Json(Arc<Value>),
    Malformed(Arc<str>),
}

impl ToolInput {
    /// About how many bytes the arguments take.
    pub fn approximate_bytes(&self) -> usize {
        match self {
            Self::Json(value) => json_bytes(value),
            Self::Malformed(text) => text.len(),
        }
    }
}

fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
        Value::String(text) => 24 + text.len(),
        Value::Array(items) => 24 + items.iter().map(json_bytes).sum::<usize>(),
        Value::Object(fields) => {
            24 + fields.iter().map(|(key, value)| 48 + key.len() + json_bytes(value)).sum::<usize>()
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    pub call: CallId,
    /// The tool's name, for dialects that want it beside the id.
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

    /// The message's text parts joined; tool calls and results left out.
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

/// One call to a model. `messages` alternate roles and end with a user message.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// Empty means "the provider's own default model".
    pub model: Arc<str>,
    /// System text: soul, then facts. Empty means none.
    pub system: Arc<str>,
    pub messages: Vec<ModelMessage>,
    pub tools: Arc<[ToolSpec]>,
    /// Hard limit on the answer, already cut to what the budget leaves.
    pub max_tokens: u32,
    pub temperature: Option<f32>,
}

/// What a model's stream yields, in order. A stream that ends without `Stop` was cut.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// Which provider and model really answer (after fallbacks); comes first.
    ModelSelected {
        provider: Arc<str>,
        model: Arc<str>,
    },
    Text(String),
    /// Reasoning text, where a provider tells it apart.
    Thought(String),
    /// A piece of a call's arguments as it is written; the first of an index may be empty. `Call` follows with the same
    /// index once the call is whole; providers that send whole calls only send no pieces.
    ToolCallChunk {
        index: u32,
        name: Arc<str>,
        text: String,
    },
    /// A complete tool call. `id` is the provider's own and is replaced before anyone else sees it.
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

/// A model as its provider lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// What a request names it by.
    pub id: Arc<str>,
    /// For people, where the provider has such a name.
    pub name: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCount {
    pub input: u64,
    pub output: u64,
}

impl TokenCount {
    /// No model has so many in one call; thousands of calls still add up in what they are counted with.
    pub const MAX: u64 = 1 << 32;

    /// What a provider says, which may be anything.
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
    /// The provider declined to go on (content filter, refusal).
    Refused,
}

/// Why a model call failed. Messages never hold upstream bodies, keys or URLs with credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Nothing was asked: no key. A plain error, not a stream. Text says which variable to set.
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
    /// The stream ended before its terminator: whatever came so far is not an answer.
    #[error("{0}")]
    Truncated(String),
    #[error("cancelled")]
    Cancelled,
}

impl ModelError {
    /// May the same request be sent again (or to a fallback) as long as no token has been seen?
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited(_) | Self::Unavailable(_) | Self::Timeout(_) | Self::Truncated(_) => true,
            Self::NotConfigured(_) | Self::Rejected(_) | Self::Cancelled => false,
        }
    }
}
