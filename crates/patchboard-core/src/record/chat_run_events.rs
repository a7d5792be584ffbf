//! Version 1, frozen: a new shape needs a new version in a file of its own.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::BoxError;
use crate::event;
use crate::id::{ApprovalId, CallId, SessionKey};
use crate::model::{self, TokenCount};
use crate::tool::ToolOutput;

pub(super) fn encode(stored: &impl Serialize) -> Vec<u8> {
    // Our own types hold no map with non-string keys and no failing serialiser, so this cannot fail.
    serde_json::to_vec(stored).unwrap_or_default()
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BoxError> {
    Ok(serde_json::from_slice(bytes)?)
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum StoredChatEvent {
    RunStarted {
        session: String,
        agent: Arc<str>,
    },
    Text {
        text: String,
        ends: Vec<u32>,
    },
    Thought {
        text: String,
        ends: Vec<u32>,
    },
    ToolRequested {
        call: StoredToolCall,
    },
    ToolFinished {
        call: Arc<str>,
        content: Arc<str>,
        is_error: bool,
    },
    ApprovalWanted {
        approval: String,
        call: StoredToolCall,
        expires_at: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        may_have_run: bool,
    },
    ApprovalSettled {
        approval: String,
        approved: bool,
        by: Arc<str>,
    },
    Usage {
        input: u64,
        output: u64,
        provider: Arc<str>,
        model: Arc<str>,
        estimated: bool,
    },
    RunFailed {
        message: Arc<str>,
    },
    RunEnded {
        outcome: StoredRunOutcome,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredRunOutcome {
    Completed,
    Failed,
    Cancelled,
    Interrupted,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredToolCall {
    id: Arc<str>,
    name: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Arc<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    malformed: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredModelMessage {
    role: StoredRole,
    parts: Vec<StoredContentPart>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredRole {
    User,
    Assistant,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum StoredContentPart {
    Text { text: Arc<str> },
    ToolCall { call: StoredToolCall },
    ToolResult { call: Arc<str>, name: Arc<str>, content: Arc<str>, is_error: bool },
}

impl TryFrom<StoredChatEvent> for event::Event {
    type Error = BoxError;

    fn try_from(stored: StoredChatEvent) -> Result<Self, BoxError> {
        Ok(match stored {
            StoredChatEvent::RunStarted { session, agent } => Self::RunStarted {
                session: SessionKey::parse(&session).ok_or_else(|| format!("bad session key: {session}"))?,
                agent,
            },
            StoredChatEvent::Text { text, ends } => Self::AnswerText(decode_chunks(text, ends)?),
            StoredChatEvent::Thought { text, ends } => Self::ThoughtText(decode_chunks(text, ends)?),
            StoredChatEvent::ToolRequested { call } => Self::ToolRequested(call.into()),
            StoredChatEvent::ToolFinished { call, content, is_error } => {
                Self::ToolFinished { call: CallId(call), output: ToolOutput { content, is_error, data: None } }
            }
            StoredChatEvent::ApprovalWanted { approval, call, expires_at, may_have_run } => {
                Self::ApprovalRequested(event::ApprovalRequest {
                    approval: approval.parse::<ApprovalId>()?,
                    call: call.into(),
                    expires_at: expires_at.parse()?,
                    may_have_run,
                })
            }
            StoredChatEvent::ApprovalSettled { approval, approved, by } => {
                Self::ApprovalResolved { approval: approval.parse::<ApprovalId>()?, approved, by }
            }
            StoredChatEvent::Usage { input, output, provider, model, estimated } => {
                Self::ModelUsage(event::ModelCallUsage {
                    tokens: TokenCount { input, output },
                    provider,
                    model,
                    estimated,
                })
            }
            StoredChatEvent::RunFailed { message } => Self::RunFailed { message },
            StoredChatEvent::RunEnded { outcome } => Self::RunEnded { outcome: outcome.into() },
        })
    }
}

pub(super) fn decode_chunks(text: String, ends: Vec<u32>) -> Result<event::TextChunks, BoxError> {
    event::TextChunks::from_parts(text, ends).ok_or_else(|| "pieces do not fit their text".into())
}

impl From<event::RunOutcome> for StoredRunOutcome {
    fn from(outcome: event::RunOutcome) -> Self {
        match outcome {
            event::RunOutcome::Completed => Self::Completed,
            event::RunOutcome::Failed => Self::Failed,
            event::RunOutcome::Cancelled => Self::Cancelled,
            event::RunOutcome::Interrupted => Self::Interrupted,
        }
    }
}

impl From<StoredRunOutcome> for event::RunOutcome {
    fn from(outcome: StoredRunOutcome) -> Self {
        match outcome {
            StoredRunOutcome::Completed => Self::Completed,
            StoredRunOutcome::Failed => Self::Failed,
            StoredRunOutcome::Cancelled => Self::Cancelled,
            StoredRunOutcome::Interrupted => Self::Interrupted,
        }
    }
}

impl From<&model::ToolCall> for StoredToolCall {
    fn from(call: &model::ToolCall) -> Self {
        let (input, malformed) = match &call.input {
            model::ToolInput::Json(value) => (Some(value.clone()), None),
            model::ToolInput::Malformed(text) => (None, Some(text.clone())),
        };
        Self { id: call.id.0.clone(), name: call.name.clone(), input, malformed }
    }
}

impl From<StoredToolCall> for model::ToolCall {
    fn from(stored: StoredToolCall) -> Self {
        let input = match (stored.input, stored.malformed) {
            (_, Some(text)) => model::ToolInput::Malformed(text),
            (Some(value), None) => model::ToolInput::Json(value),
            (None, None) => model::ToolInput::Json(Arc::new(Value::Null)),
        };
        Self { id: CallId(stored.id), name: stored.name, input }
    }
}

impl From<&model::ModelMessage> for StoredModelMessage {
    fn from(message: &model::ModelMessage) -> Self {
        let role = match message.role {
            model::MessageRole::User => StoredRole::User,
            model::MessageRole::Assistant => StoredRole::Assistant,
        };
        let parts = message.parts.iter().map(|part| match part {
            model::ContentPart::Text(text) => StoredContentPart::Text { text: text.clone() },
            model::ContentPart::ToolCall(call) => StoredContentPart::ToolCall { call: call.into() },
            model::ContentPart::ToolResult(result) => StoredContentPart::ToolResult {
                call: result.call.0.clone(),
                name: result.name.clone(),
                content: result.content.clone(),
                is_error: result.is_error,
            },
        });
        Self { role, parts: parts.collect() }
    }
}

impl TryFrom<StoredModelMessage> for model::ModelMessage {
    type Error = BoxError;

    fn try_from(stored: StoredModelMessage) -> Result<Self, BoxError> {
        let role = match stored.role {
            StoredRole::User => model::MessageRole::User,
            StoredRole::Assistant => model::MessageRole::Assistant,
        };
        let parts = stored.parts.into_iter().map(|part| match part {
            StoredContentPart::Text { text } => model::ContentPart::Text(text),
            StoredContentPart::ToolCall { call } => model::ContentPart::ToolCall(call.into()),
            StoredContentPart::ToolResult { call, name, content, is_error } => {
                model::ContentPart::ToolResult(model::ToolResult { call: CallId(call), name, content, is_error })
            }
        });
        Ok(Self { role, parts: parts.collect() })
    }
}
