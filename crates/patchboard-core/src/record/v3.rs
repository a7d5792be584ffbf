//! Version 3, frozen: add a `v4.rs` instead of editing a shape here. What happens to an utterance on its way to apps;
//! all other kinds are written as before.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::app;
use crate::app::message;
use crate::error::BoxError;
use crate::event;
use crate::id::NodeId;

#[derive(Serialize, Deserialize)]
pub(super) struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
    message: Message,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Submitted(Utterance),
    Decided(Decision),
    Sent {
        app: Arc<str>,
    },
    Answered {
        app: Arc<str>,
        response: Response,
    },
    Failed {
        app: Arc<str>,
        failure: Failure,
    },
    Rested {
        rest: Rest,
        reason: Arc<str>,
    },
    Ended {
        end: End,
        reason: Arc<str>,
    },
    Reopened {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        app: Option<Arc<str>>,
        by: Arc<str>,
    },
}

#[derive(Serialize, Deserialize)]
struct Utterance {
    text: Arc<str>,
    input: Input,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    confidence: Option<f32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    only: Option<Arc<str>>,
    principal: Arc<str>,
    surface: Arc<str>,
    expires_at: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Input {
    Text,
    Voice,
}

#[derive(Serialize, Deserialize)]
struct Decision {
    stage: Stage,
    apps: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Arc<str>>,
    reason: Arc<str>,
    candidates: Vec<Scored>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    Direct,
    FollowUp,
    Alias,
    Rule,
    Matcher,
    Meaning,
    Model,
    NextBest,
    CatchAll,
    Manual,
    Nobody,
}

#[derive(Serialize, Deserialize)]
struct Scored {
    app: Arc<str>,
    score: f32,
    confidence: f32,
    why: Vec<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Response {
    Ack,
    Reject {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    Notice {
        title: Arc<str>,
        body: Arc<str>,
        priority: Priority,
        expects_reply: bool,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Priority {
    Low,
    Normal,
    High,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Failure {
    Timeout,
    Disconnected,
    Interrupted,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rest {
    Queued,
    Held,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Refused,
    Expired,
    Cancelled,
}

impl Entry {
    pub(super) fn new(node: Option<NodeId>, message: &message::MessageEvent) -> Self {
        Self { node: node.map(|node| node.0), message: message.into() }
    }
}

impl TryFrom<Entry> for event::Entry {
    type Error = BoxError;

    fn try_from(stored: Entry) -> Result<Self, BoxError> {
        Ok(Self { node: stored.node.map(NodeId), event: event::Event::Message(stored.message.try_into()?) })
    }
}

impl From<&message::MessageEvent> for Message {
    fn from(event: &message::MessageEvent) -> Self {
        match event {
            message::MessageEvent::Submitted(utterance) => Self::Submitted((&**utterance).into()),
            message::MessageEvent::Decided(decision) => Self::Decided((&**decision).into()),
            message::MessageEvent::Sent { app } => Self::Sent { app: app.clone() },
            message::MessageEvent::Answered { app, response } => {
                Self::Answered { app: app.clone(), response: response.into() }
            }
            message::MessageEvent::Failed { app, failure } => {
                Self::Failed { app: app.clone(), failure: (*failure).into() }
            }
            message::MessageEvent::Rested { rest, reason } => {
                Self::Rested { rest: (*rest).into(), reason: reason.clone() }
            }
            message::MessageEvent::Ended { end, reason } => Self::Ended { end: (*end).into(), reason: reason.clone() },
            message::MessageEvent::Reopened { app, by } => Self::Reopened { app: app.clone(), by: by.clone() },
        }
    }
}

impl TryFrom<Message> for message::MessageEvent {
    type Error = BoxError;

    fn try_from(stored: Message) -> Result<Self, BoxError> {
        Ok(match stored {
            Message::Submitted(utterance) => Self::Submitted(Arc::new(utterance.try_into()?)),
            Message::Decided(decision) => Self::Decided(Arc::new(decision.into())),
            Message::Sent { app } => Self::Sent { app },
            Message::Answered { app, response } => Self::Answered { app, response: response.into() },
            Message::Failed { app, failure } => Self::Failed { app, failure: failure.into() },
            Message::Rested { rest, reason } => Self::Rested { rest: rest.into(), reason },
            Message::Ended { end, reason } => Self::Ended { end: end.into(), reason },
            Message::Reopened { app, by } => Self::Reopened { app, by },
        })
    }
}

impl From<&message::Utterance> for Utterance {
    fn from(utterance: &message::Utterance) -> Self {
        let message::Utterance { text, input, confidence, only, principal, surface, expires_at } = utterance.clone();
        Self {
            text,
            input: match input {
                app::InputMethod::Text => Input::Text,
                app::InputMethod::Voice => Input::Voice,
            },
            // JSON has no other numbers; such a confidence is none.
            confidence: confidence.filter(|confidence| confidence.is_finite()),
            only,
            principal,
            surface,
            expires_at: expires_at.to_string(),
        }
    }
}

impl TryFrom<Utterance> for message::Utterance {
    type Error = BoxError;

    fn try_from(stored: Utterance) -> Result<Self, BoxError> {
        let Utterance { text, input, confidence, only, principal, surface, expires_at } = stored;
        Ok(Self {
            text,
            input: match input {
                Input::Text => app::InputMethod::Text,
                Input::Voice => app::InputMethod::Voice,
            },
            confidence,
            only,
            principal,
            surface,
            expires_at: expires_at.parse()?,
        })
    }
}

impl From<&message::Decision> for Decision {
    fn from(decision: &message::Decision) -> Self {
        let message::Decision { stage, apps, text, reason, candidates } = decision.clone();
        let candidates = candidates.into_iter().map(|message::Scored { app, score, confidence, why }| Scored {
            app,
            score: finite(score),
            confidence: finite(confidence),
            why,
        });
        Self { stage: stage.into(), apps, text, reason, candidates: candidates.collect() }
    }
}

/// JSON has no other numbers; such a score says nothing anyway.
fn finite(score: f32) -> f32 {
    if score.is_finite() { score } else { 0.0 }
}

impl From<Decision> for message::Decision {
    fn from(stored: Decision) -> Self {
        let Decision { stage, apps, text, reason, candidates } = stored;
        let candidates = candidates.into_iter().map(|Scored { app, score, confidence, why }| message::Scored {
            app,
            score,
            confidence,
            why,
        });
        Self { stage: stage.into(), apps, text, reason, candidates: candidates.collect() }
    }
}

impl From<&message::Response> for Response {
    fn from(response: &message::Response) -> Self {
        match response.clone() {
            message::Response::Ack => Self::Ack,
            message::Response::Reject { reason } => Self::Reject { reason },
            message::Response::Notice(message::AppNotice { title, body, priority, expects_reply }) => {
                Self::Notice { title, body, priority: priority.into(), expects_reply }
            }
        }
    }
}

impl From<Response> for message::Response {
    fn from(stored: Response) -> Self {
        match stored {
            Response::Ack => Self::Ack,
            Response::Reject { reason } => Self::Reject { reason },
            Response::Notice { title, body, priority, expects_reply } => {
                Self::Notice(message::AppNotice { title, body, priority: priority.into(), expects_reply })
            }
        }
    }
}

/// Both ways between a core type and its stored form, both of which have the same variants.
macro_rules! same_variants {
    ($core:path, $stored:ident { $($variant:ident),+ }) => {
        impl From<$core> for $stored {
            fn from(core: $core) -> Self {
                use $core as Core;
                match core { $(Core::$variant => Self::$variant),+ }
            }
        }
        impl From<$stored> for $core {
            fn from(stored: $stored) -> Self {
                match stored { $($stored::$variant => Self::$variant),+ }
            }
        }
    };
}
same_variants!(
    message::Stage,
    Stage { Direct, FollowUp, Alias, Rule, Matcher, Meaning, Model, NextBest, CatchAll, Manual, Nobody }
);
same_variants!(message::Failure, Failure { Timeout, Disconnected, Interrupted });
same_variants!(message::Rest, Rest { Queued, Held });
same_variants!(message::End, End { Refused, Expired, Cancelled });
same_variants!(app::Priority, Priority { Low, Normal, High });
