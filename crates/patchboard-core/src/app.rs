//! Apps on the hub, the messages they are sent, and the notices they show.

use std::sync::Arc;

use jiff::Timestamp;

use crate::id::MessageId;

pub mod message;

pub use patchboard_matcher::AppProfile;

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

/// SHA-256 of a token. Tokens themselves are neither kept nor compared.
pub type TokenHash = [u8; 32];

/// What is stored of an app across restarts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownApp {
    pub(crate) profile: Arc<AppProfile>,
    pub(crate) seen_at: Timestamp,
    pub(crate) is_approved: bool,
    /// Hash of the token that the app must present, where apps are paired by token.
    pub(crate) token: Option<TokenHash>,
}
