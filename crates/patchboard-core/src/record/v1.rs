//! Version 1, frozen: add a `v2.rs` instead of editing a shape here.

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
pub(super) enum Event {
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
        call: ToolCall,
    },
    ToolFinished {
        call: Arc<str>,
        content: Arc<str>,
        is_error: bool,
    },
    ApprovalWanted {
        approval: String,
        call: ToolCall,
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
        outcome: Outcome,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Completed,
    Failed,
    Cancelled,
    Interrupted,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ToolCall {
    id: Arc<str>,
    name: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Arc<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    malformed: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Message {
    role: Role,
    parts: Vec<Part>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Part {
    Text { text: Arc<str> },
    ToolCall { call: ToolCall },
    ToolResult { call: Arc<str>, name: Arc<str>, content: Arc<str>, is_error: bool },
}

impl TryFrom<Event> for event::Event {
    type Error = BoxError;

    fn try_from(stored: Event) -> Result<Self, BoxError> {
        Ok(match stored {
            Event::RunStarted { session, agent } => Self::RunStarted {
                session: SessionKey::parse(&session).ok_or_else(|| format!("bad session key: {session}"))?,
                agent,
            },
            Event::Text { text, ends } => Self::Text(pieces(text, ends)?),
            Event::Thought { text, ends } => Self::Thought(pieces(text, ends)?),
            Event::ToolRequested { call } => Self::ToolRequested(call.into()),
            Event::ToolFinished { call, content, is_error } => {
                Self::ToolFinished { call: CallId(call), output: ToolOutput { content, is_error, data: None } }
            }
            Event::ApprovalWanted { approval, call, expires_at, may_have_run } => {
                Self::ApprovalWanted(event::ApprovalRequest {
                    approval: approval.parse::<ApprovalId>()?,
                    call: call.into(),
                    expires_at: expires_at.parse()?,
                    may_have_run,
                })
            }
            Event::ApprovalSettled { approval, approved, by } => {
                Self::ApprovalSettled { approval: approval.parse::<ApprovalId>()?, approved, by }
            }
            Event::Usage { input, output, provider, model, estimated } => {
                Self::Usage(event::UsageNote { tokens: TokenCount { input, output }, provider, model, estimated })
            }
            Event::RunFailed { message } => Self::RunFailed { message },
            Event::RunEnded { outcome } => Self::RunEnded { outcome: outcome.into() },
        })
    }
}

pub(super) fn pieces(text: String, ends: Vec<u32>) -> Result<event::Pieces, BoxError> {
    event::Pieces::from_parts(text, ends).ok_or_else(|| "pieces do not fit their text".into())
}

impl From<event::RunOutcome> for Outcome {
    fn from(outcome: event::RunOutcome) -> Self {
        match outcome {
            event::RunOutcome::Completed => Self::Completed,
            event::RunOutcome::Failed => Self::Failed,
            event::RunOutcome::Cancelled => Self::Cancelled,
            event::RunOutcome::Interrupted => Self::Interrupted,
        }
    }
}

impl From<Outcome> for event::RunOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed => Self::Completed,
            Outcome::Failed => Self::Failed,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Interrupted => Self::Interrupted,
        }
    }
}

impl From<&model::ToolCall> for ToolCall {
    fn from(call: &model::ToolCall) -> Self {
        let (input, malformed) = match &call.input {
            model::ToolInput::Json(value) => (Some(value.clone()), None),
            model::ToolInput::Malformed(text) => (None, Some(text.clone())),
        };
        Self { id: call.id.0.clone(), name: call.name.clone(), input, malformed }
    }
}

impl From<ToolCall> for model::ToolCall {
    fn from(stored: ToolCall) -> Self {
        let input = match (stored.input, stored.malformed) {
            (_, Some(text)) => model::ToolInput::Malformed(text),
            (Some(value), None) => model::ToolInput::Json(value),
            (None, None) => model::ToolInput::Json(Arc::new(Value::Null)),
        };
        Self { id: CallId(stored.id), name: stored.name, input }
    }
}

impl From<&model::Message> for Message {
    fn from(message: &model::Message) -> Self {
        let role = match message.role {
            model::Role::User => Role::User,
            model::Role::Assistant => Role::Assistant,
        };
        let parts = message.parts.iter().map(|part| match part {
            model::Part::Text(text) => Part::Text { text: text.clone() },
            model::Part::ToolCall(call) => Part::ToolCall { call: call.into() },
            model::Part::ToolResult(result) => Part::ToolResult {
                call: result.call.0.clone(),
                name: result.name.clone(),
                content: result.content.clone(),
                is_error: result.is_error,
            },
        });
        Self { role, parts: parts.collect() }
    }
}

impl TryFrom<Message> for model::Message {
    type Error = BoxError;

    fn try_from(stored: Message) -> Result<Self, BoxError> {
        let role = match stored.role {
            Role::User => model::Role::User,
            Role::Assistant => model::Role::Assistant,
        };
        let parts = stored.parts.into_iter().map(|part| match part {
            Part::Text { text } => model::Part::Text(text),
            Part::ToolCall { call } => model::Part::ToolCall(call.into()),
            Part::ToolResult { call, name, content, is_error } => {
                model::Part::ToolResult(model::ToolResult { call: CallId(call), name, content, is_error })
            }
        });
        Ok(Self { role, parts: parts.collect() })
    }
}
