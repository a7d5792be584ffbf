//! Apps on the hub: who they are, which of them an utterance is meant for, and how it gets there without being lost.

use std::sync::Arc;

use jiff::Timestamp;

use crate::id::MessageId;

pub mod hub;
pub mod matcher;
pub mod message;
mod message_actor;
mod model_router;
pub mod notice;
mod roster;
pub mod routing;
#[cfg(test)]
mod test_hub;
mod tools;

pub(crate) use model_router::{MAX_CONCURRENT_CALLS, ModelRouter};
pub(crate) use roster::KnownApp;
pub(crate) use tools::AppTools;

/// What an app says about itself when it registers. All of it is the app's own claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppProfile {
    /// Unique whatever the case of its letters; ASCII letters, digits, `-` and `_`.
    pub name: Arc<str>,
    pub description: Arc<str>,
    pub version: Option<Arc<str>>,
    pub capabilities: Vec<Arc<str>>,
}

/// How the user said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputMethod {
    Text,
    Voice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticePriority {
    Low,
    Normal,
    High,
}

/// A message as an app gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct AppDelivery {
    pub message: MessageId,
    pub text: Arc<str>,
    /// When this delivery was made: a redelivery has the same id and a time of its own.
    pub at: Timestamp,
    pub input: InputMethod,
    pub confidence: Option<f32>,
    pub is_direct: bool,
    pub routing_reason: Option<Arc<str>>,
}

/// Something for the user to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserNotice {
    /// Who says so: an app, or the hub itself (`None`).
    pub app: Option<Arc<str>>,
    /// Never empty: an app's name stands in for a title it did not give.
    pub title: Arc<str>,
    pub body: Arc<str>,
    pub priority: NoticePriority,
    /// The utterance it is about.
    pub message: Option<MessageId>,
    pub at: Timestamp,
}
