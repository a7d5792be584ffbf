//! Webhooks of channels: what another service posts, what an adapter makes of it, and the state of its delivery.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

/// What another service posted, after its signature was found right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub method: String,
    /// Without the leading `?`.
    pub query: String,
    /// Names in lower case; without what was only for the signature.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// SHA-256, in hex, of the body and of whatever else tells this delivery from another one with the same body.
    pub digest: Arc<str>,
}

/// What a webhook means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedWebhook {
    Message(ChannelMessage),
    /// Nothing to do; says why.
    Ignore(String),
    /// Answer the webhook itself with this, at once.
    Respond(WebhookResponse),
}

/// What a person wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelMessage {
    /// What the other service calls this delivery: one that comes twice is answered once.
    pub id: Option<String>,
    pub account: Option<String>,
    pub peer: Option<String>,
    pub guild: Option<String>,
    pub team: Option<String>,
    pub content: String,
    /// For the adapter, to answer.
    pub context: String,
}

/// The answer to a webhook itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookResponse {
    pub status: u16,
    pub content_type: String,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelReply {
    /// As the message had it.
    pub context: String,
    pub content: String,
    pub is_error: bool,
    /// Somebody still waits for the webhook's answer.
    pub is_synchronous: bool,
}

/// An answer in another service's form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormattedReply {
    /// In this order.
    pub requests: Vec<ChannelRequest>,
    pub answer: Option<WebhookResponse>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRequest {
    pub method: String,
    /// Secrets are still names in it.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    pub timeout: Option<Duration>,
}

/// One channel of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelOptions {
    pub name: Arc<str>,
    /// Its adapter.
    pub plugin: Arc<str>,
    /// Does the webhook's caller wait for the answer, and how long?
    pub wait: Option<Duration>,
    /// Deliveries on record without an answer; further ones are refused.
    pub max_open_deliveries: usize,
    /// A delivery without an id is the same as an earlier one if its `Webhook` is, for so long.
    pub replay_window: Duration,
}

/// Why an adapter gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// There is no such adapter, or it is not loaded.
    #[error("{0}")]
    Unavailable(String),
    /// The adapter says that it cannot make sense of it.
    #[error("{0}")]
    Rejected(String),
    /// The adapter broke: a trap, a limit.
    #[error("{0}")]
    Failed(String),
}

/// One message on its way to an agent and its answer on its way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(pub Uuid);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// On record; the agent works on it, or will.
    Received,
    /// The agent has answered; the answer is on its way.
    Answered,
    Sent,
    /// Its answer could not be brought.
    Failed,
}

impl DeliveryState {
    pub const ALL: [Self; 4] = [Self::Received, Self::Answered, Self::Sent, Self::Failed];

    pub const fn is_final(self) -> bool {
        matches!(self, Self::Sent | Self::Failed)
    }
}

/// What became of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookOutcome {
    /// On record; its answer comes later.
    Accepted(DeliveryId),
    /// It was here before.
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
    /// The webhook's caller was told of the failure. If it retries, that is no duplicate.
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
