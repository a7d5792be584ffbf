//! Apps on the hub, deliveries to them, and notices to the user.

use std::sync::Arc;

use jiff::Timestamp;

use crate::id::MessageId;

pub mod message;

pub use patchboard_matcher::AppProfile;

/// How the user entered the utterance.
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

/// A message as delivered to an app.
#[derive(Debug, Clone, PartialEq)]
pub struct AppDelivery {
    pub message: MessageId,
    pub text: Arc<str>,
    /// When this delivery was made: a redelivery has the same id and its own time.
    pub at: Timestamp,
    pub input: InputMethod,
    pub confidence: Option<f32>,
    pub is_direct: bool,
    pub routing_reason: Option<Arc<str>>,
}

/// A notice for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserNotice {
    /// The app it comes from; `None` for the hub itself.
    pub app: Option<Arc<str>>,
    /// Never empty: the app's name if the app gave no title.
    pub title: Arc<str>,
    pub body: Arc<str>,
    pub priority: NoticePriority,
    /// The utterance it concerns.
    pub message: Option<MessageId>,
    pub at: Timestamp,
}

/// SHA-256 of a token. Tokens themselves are neither stored nor compared.
pub type TokenHash = [u8; 32];

/// The stored record of an app.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownApp {
    pub(crate) profile: Arc<AppProfile>,
    pub(crate) seen_at: Timestamp,
    pub(crate) is_approved: bool,
    /// Hash of the token that the app must present, where apps are paired by token.
    pub(crate) token: Option<TokenHash>,
}
