//! Webhooks of channels: the request of the external service, the adapter's interpretation, and the state of the
//! delivery.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

/// A webhook request whose signature has been verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub method: String,
    /// Without the leading `?`.
    pub query: String,
    /// Names in lower case; without headers that serve only the signature.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// SHA-256, in hex, of the body and of whatever else distinguishes this delivery from another one with the same
    /// body.
    pub digest: Arc<str>,
}

/// An adapter's interpretation of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedWebhook {
    Message(ChannelMessage),
    /// Nothing to do; contains the reason.
    Ignore(String),
    /// Respond to the webhook itself at once.
    Respond(WebhookResponse),
}

/// A person's message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelMessage {
    /// The external service's id of this delivery: a repeated delivery is processed once.
    pub id: Option<String>,
    pub account: Option<String>,
    pub peer: Option<String>,
    pub guild: Option<String>,
    pub team: Option<String>,
    pub content: String,
    /// Opaque to the server; the adapter uses it to address the reply.
    pub context: String,
}

/// The HTTP response to a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookResponse {
    pub status: u16,
    pub content_type: String,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelReply {
    /// Copied from the message.
    pub context: String,
    pub content: String,
    pub is_error: bool,
    /// The webhook's caller still waits for the response.
    pub is_synchronous: bool,
}

/// A reply in the external service's format.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormattedReply {
    /// Sent in this order.
    pub requests: Vec<ChannelRequest>,
    pub answer: Option<WebhookResponse>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRequest {
    pub method: String,
    /// Contains secrets as placeholders.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    pub timeout: Option<Duration>,
}

/// A configured channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelOptions {
    pub name: Arc<str>,
    /// The plugin that adapts it.
    pub plugin: Arc<str>,
    /// How long the webhook's caller waits for the answer; `None` for asynchronous channels.
    pub wait: Option<Duration>,
    /// Most recorded deliveries without an answer; further ones are refused.
    pub max_open_deliveries: usize,
    /// For this long, a delivery without an id counts as a duplicate if its `Webhook` digest is the same.
    pub replay_window: Duration,
}

/// Why an adapter returned no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The adapter does not exist or is not loaded.
    #[error("{0}")]
    Unavailable(String),
    /// The adapter rejected the input as invalid.
    #[error("{0}")]
    Rejected(String),
    /// The adapter failed: a trap, a limit.
    #[error("{0}")]
    Failed(String),
}

/// A message on its way to an agent and its answer on the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(pub Uuid);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// Recorded; the agent processes it, or will.
    Received,
    /// The agent has answered; the answer is being sent.
    Answered,
    Sent,
    /// The answer could not be delivered.
    Failed,
}

impl DeliveryState {
    pub const ALL: [Self; 4] = [Self::Received, Self::Answered, Self::Sent, Self::Failed];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Answered => "answered",
            Self::Sent => "sent",
            Self::Failed => "failed",
        }
    }

    pub const fn is_final(self) -> bool {
        matches!(self, Self::Sent | Self::Failed)
    }
}

/// Result of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookOutcome {
    /// Recorded; the answer is sent later.
    Accepted(DeliveryId),
    /// Already received.
    Duplicate,
    Ignored,
    Respond(WebhookResponse),
}

/// The recorded data of a delivery, besides its state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeliveryPayload {
    /// Without its id, which is in the delivery's key.
    pub(crate) message: ChannelMessage,
    /// Number of earlier runs for this delivery; each run has a name of its own.
    pub(crate) earlier_runs: u32,
    /// Number of those that were interrupted by the end of their process.
    pub(crate) interrupted_runs: u32,
    /// The requests to send, once there is an answer.
    pub(crate) requests: Vec<ChannelRequest>,
    /// How many of them were sent.
    pub(crate) sent_count: usize,
    /// Why the answer could not be delivered.
    pub(crate) problem: Option<String>,
    /// The failure was reported to the webhook's caller, so its retry does not count as a duplicate.
    pub(crate) is_failure_reported: bool,
}

impl DeliveryPayload {
    /// The approximate size in bytes; the other fields are small.
    pub(crate) fn weight(&self) -> usize {
        let requests = self.requests.iter().map(|request| {
            let headers = request.headers.iter().map(|(name, value)| name.len() + value.len());
            request.url.len() + headers.sum::<usize>() + request.body.as_ref().map_or(0, Vec::len)
        });
        self.message.content.len() + self.message.context.len() + requests.sum::<usize>()
    }
}
