//! The stored form of what runs wait for, and of the answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::model_messages::{self, StoredToolCall};
use super::{RECORD_VERSION, RecordError};
use crate::error::BoxError;
use crate::event;
use crate::id::{CallId, InputId};

#[derive(Serialize, Deserialize)]
pub(super) struct StoredInputRequest {
    input: String,
    kind: StoredInputKind,
    expires_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked_by: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredInputKind {
    Approval {
        call: StoredToolCall,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        may_have_run: bool,
    },
    ClientToolCall(StoredToolCall),
    Question {
        call: Arc<str>,
        message: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Arc<Value>>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredInputAnswer {
    Approved,
    ApprovedForSession,
    Refused,
    ToolResult { content: Arc<str>, is_error: bool },
    Answered(Arc<Value>),
    Expired,
    Withdrawn,
}

pub fn encode_input_request(request: &event::InputRequest) -> Vec<u8> {
    model_messages::encode(&StoredInputRequest::from(request))
}

pub fn decode_input_request(bytes: &[u8]) -> Result<event::InputRequest, RecordError> {
    model_messages::decode::<StoredInputRequest>(bytes)
        .and_then(event::InputRequest::try_from)
        .map_err(|source| RecordError::Malformed { version: RECORD_VERSION, source })
}

pub fn encode_input_answer(answer: &event::InputAnswer) -> Vec<u8> {
    model_messages::encode(&StoredInputAnswer::from(answer))
}

pub fn decode_input_answer(bytes: &[u8]) -> Result<event::InputAnswer, RecordError> {
    model_messages::decode::<StoredInputAnswer>(bytes)
        .map(event::InputAnswer::from)
        .map_err(|source| RecordError::Malformed { version: RECORD_VERSION, source })
}

impl From<&event::InputRequest> for StoredInputRequest {
    fn from(request: &event::InputRequest) -> Self {
        Self {
            input: request.input.to_string(),
            kind: match &request.kind {
                event::InputKind::Approval { call, may_have_run } => {
                    StoredInputKind::Approval { call: call.into(), may_have_run: *may_have_run }
                }
                event::InputKind::ClientToolCall(call) => StoredInputKind::ClientToolCall(call.into()),
                event::InputKind::Question { call, message, schema } => {
                    StoredInputKind::Question { call: call.0.clone(), message: message.clone(), schema: schema.clone() }
                }
            },
            expires_at: request.expires_at.to_string(),
            asked_by: request.asked_by.clone(),
        }
    }
}

impl TryFrom<StoredInputRequest> for event::InputRequest {
    type Error = BoxError;

    fn try_from(stored: StoredInputRequest) -> Result<Self, BoxError> {
        Ok(Self {
            input: stored.input.parse::<InputId>()?,
            kind: match stored.kind {
                StoredInputKind::Approval { call, may_have_run } => {
                    event::InputKind::Approval { call: call.into(), may_have_run }
                }
                StoredInputKind::ClientToolCall(call) => event::InputKind::ClientToolCall(call.into()),
                StoredInputKind::Question { call, message, schema } => {
                    event::InputKind::Question { call: CallId(call), message, schema }
                }
            },
            expires_at: stored.expires_at.parse()?,
            asked_by: stored.asked_by,
        })
    }
}

impl From<&event::InputAnswer> for StoredInputAnswer {
    fn from(answer: &event::InputAnswer) -> Self {
        match answer.clone() {
            event::InputAnswer::Approved => Self::Approved,
            event::InputAnswer::ApprovedForSession => Self::ApprovedForSession,
            event::InputAnswer::Refused => Self::Refused,
            event::InputAnswer::ToolResult { content, is_error } => Self::ToolResult { content, is_error },
            event::InputAnswer::Answered(value) => Self::Answered(value),
            event::InputAnswer::Expired => Self::Expired,
            event::InputAnswer::Withdrawn => Self::Withdrawn,
        }
    }
}

impl From<StoredInputAnswer> for event::InputAnswer {
    fn from(stored: StoredInputAnswer) -> Self {
        match stored {
            StoredInputAnswer::Approved => Self::Approved,
            StoredInputAnswer::ApprovedForSession => Self::ApprovedForSession,
            StoredInputAnswer::Refused => Self::Refused,
            StoredInputAnswer::ToolResult { content, is_error } => Self::ToolResult { content, is_error },
            StoredInputAnswer::Answered(value) => Self::Answered(value),
            StoredInputAnswer::Expired => Self::Expired,
            StoredInputAnswer::Withdrawn => Self::Withdrawn,
        }
    }
}
