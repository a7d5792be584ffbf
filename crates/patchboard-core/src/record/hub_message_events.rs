//! The stored form of the events of hub messages.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::app;
use crate::app::message;
use crate::error::BoxError;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredMessageEvent {
    Submitted(StoredUtterance),
    Decided(StoredDecision),
    Sent {
        app: Arc<str>,
    },
    Answered {
        app: Arc<str>,
        response: StoredAppResponse,
    },
    Failed {
        app: Arc<str>,
        failure: StoredAttemptFailure,
    },
    Parked {
        state: StoredParkedState,
        reason: Arc<str>,
    },
    Ended {
        final_state: StoredFinalState,
        reason: Arc<str>,
    },
    Reopened {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        app: Option<Arc<str>>,
        by: Arc<str>,
    },
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredUtterance {
    text: Arc<str>,
    input: StoredInputMethod,
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
pub(super) enum StoredInputMethod {
    Text,
    Voice,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredDecision {
    stage: StoredRoutingStage,
    apps: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Arc<str>>,
    reason: Arc<str>,
    candidates: Vec<StoredScoredApp>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredRoutingStage {
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
pub(super) struct StoredScoredApp {
    app: Arc<str>,
    score: f32,
    confidence: f32,
    why: Vec<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredAppResponse {
    Ack,
    Reject {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    Notice {
        title: Arc<str>,
        body: Arc<str>,
        priority: StoredNoticePriority,
        expects_reply: bool,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredNoticePriority {
    Low,
    Normal,
    High,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredAttemptFailure {
    Timeout,
    Disconnected,
    Interrupted,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredParkedState {
    Queued,
    Held,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredFinalState {
    Refused,
    Expired,
    Cancelled,
}

impl From<&message::MessageEvent> for StoredMessageEvent {
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
            message::MessageEvent::Parked { state, reason } => {
                Self::Parked { state: (*state).into(), reason: reason.clone() }
            }
            message::MessageEvent::Ended { final_state, reason } => {
                Self::Ended { final_state: (*final_state).into(), reason: reason.clone() }
            }
            message::MessageEvent::Reopened { app, by } => Self::Reopened { app: app.clone(), by: by.clone() },
        }
    }
}

impl TryFrom<StoredMessageEvent> for message::MessageEvent {
    type Error = BoxError;

    fn try_from(stored: StoredMessageEvent) -> Result<Self, BoxError> {
        Ok(match stored {
            StoredMessageEvent::Submitted(utterance) => Self::Submitted(Arc::new(utterance.try_into()?)),
            StoredMessageEvent::Decided(decision) => Self::Decided(Arc::new(decision.into())),
            StoredMessageEvent::Sent { app } => Self::Sent { app },
            StoredMessageEvent::Answered { app, response } => Self::Answered { app, response: response.into() },
            StoredMessageEvent::Failed { app, failure } => Self::Failed { app, failure: failure.into() },
            StoredMessageEvent::Parked { state, reason } => Self::Parked { state: state.into(), reason },
            StoredMessageEvent::Ended { final_state, reason } => {
                Self::Ended { final_state: final_state.into(), reason }
            }
            StoredMessageEvent::Reopened { app, by } => Self::Reopened { app, by },
        })
    }
}

impl From<&message::Utterance> for StoredUtterance {
    fn from(utterance: &message::Utterance) -> Self {
        let message::Utterance { text, input, confidence, only_app: only, principal, surface, expires_at } =
            utterance.clone();
        Self {
            text,
            input: match input {
                app::InputMethod::Text => StoredInputMethod::Text,
                app::InputMethod::Voice => StoredInputMethod::Voice,
            },
            // JSON cannot hold NaN or infinity; such a confidence is dropped.
            confidence: confidence.filter(|confidence| confidence.is_finite()),
            only,
            principal,
            surface,
            expires_at: expires_at.to_string(),
        }
    }
}

impl TryFrom<StoredUtterance> for message::Utterance {
    type Error = BoxError;

    fn try_from(stored: StoredUtterance) -> Result<Self, BoxError> {
        let StoredUtterance { text, input, confidence, only, principal, surface, expires_at } = stored;
        Ok(Self {
            text,
            input: match input {
                StoredInputMethod::Text => app::InputMethod::Text,
                StoredInputMethod::Voice => app::InputMethod::Voice,
            },
            confidence,
            only_app: only,
            principal,
            surface,
            expires_at: expires_at.parse()?,
        })
    }
}

impl From<&message::RoutingDecision> for StoredDecision {
    fn from(decision: &message::RoutingDecision) -> Self {
        let message::RoutingDecision { stage, apps, text, reason, candidates } = decision.clone();
        let candidates = candidates.into_iter().map(|message::ScoredApp { app, score, confidence, reasons: why }| {
            StoredScoredApp { app, score: finite(score), confidence: finite(confidence), why }
        });
        Self { stage: stage.into(), apps, text, reason, candidates: candidates.collect() }
    }
}

/// JSON cannot hold NaN or infinity; such a score has no meaning anyway.
fn finite(score: f32) -> f32 {
    if score.is_finite() { score } else { 0.0 }
}

impl From<StoredDecision> for message::RoutingDecision {
    fn from(stored: StoredDecision) -> Self {
        let StoredDecision { stage, apps, text, reason, candidates } = stored;
        let candidates = candidates.into_iter().map(|StoredScoredApp { app, score, confidence, why }| {
            message::ScoredApp { app, score, confidence, reasons: why }
        });
        Self { stage: stage.into(), apps, text, reason, candidates: candidates.collect() }
    }
}

impl From<&message::AppResponse> for StoredAppResponse {
    fn from(response: &message::AppResponse) -> Self {
        match response.clone() {
            message::AppResponse::Ack => Self::Ack,
            message::AppResponse::Reject { reason } => Self::Reject { reason },
            message::AppResponse::Notice(message::AppNotice { title, body, priority, expects_reply }) => {
                Self::Notice { title, body, priority: priority.into(), expects_reply }
            }
        }
    }
}

impl From<StoredAppResponse> for message::AppResponse {
    fn from(stored: StoredAppResponse) -> Self {
        match stored {
            StoredAppResponse::Ack => Self::Ack,
            StoredAppResponse::Reject { reason } => Self::Reject { reason },
            StoredAppResponse::Notice { title, body, priority, expects_reply } => {
                Self::Notice(message::AppNotice { title, body, priority: priority.into(), expects_reply })
            }
        }
    }
}

/// Conversions in both directions between a core type and its stored form with the same variants.
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
    message::RoutingStage,
    StoredRoutingStage { Direct, FollowUp, Alias, Rule, Matcher, Meaning, Model, NextBest, CatchAll, Manual, Nobody }
);
same_variants!(message::AttemptFailure, StoredAttemptFailure { Timeout, Disconnected, Interrupted });
same_variants!(message::ParkedState, StoredParkedState { Queued, Held });
same_variants!(message::FinalState, StoredFinalState { Refused, Expired, Cancelled });
same_variants!(app::NoticePriority, StoredNoticePriority { Low, Normal, High });
