//! The stored form of model messages and tool calls.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::BoxError;
use crate::id::CallId;
use crate::model;

pub(super) fn encode(stored: &impl Serialize) -> Vec<u8> {
    // Our own types hold no map with non-string keys and no failing serialiser, so this cannot fail.
    serde_json::to_vec(stored).unwrap_or_default()
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BoxError> {
    Ok(serde_json::from_slice(bytes)?)
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
