//! An open delivery in memory.

use std::sync::Arc;

use jiff::Timestamp;

use crate::conversation::ConversationOrigin;
use crate::id::SessionKey;
use crate::record;
use crate::store::DeliveryRow;
use crate::webhook::{ChannelMessage, ChannelOptions, ChannelRequest, DeliveryId, DeliveryPayload, DeliveryState};

/// The account if a webhook names neither the author nor the conversation.
const UNKNOWN_ACCOUNT: &str = "webhook";

#[derive(Debug)]
pub(crate) struct OpenDelivery {
    pub(crate) id: DeliveryId,
    pub(crate) channel: Arc<ChannelOptions>,
    pub(crate) key: Arc<str>,
    pub(crate) state: DeliveryState,
    pub(crate) received_at: Timestamp,
    pub(crate) payload: DeliveryPayload,
}

impl OpenDelivery {
    pub(super) fn row(&self, now: Timestamp) -> DeliveryRow {
        DeliveryRow {
            id: self.id,
            channel: self.channel.name.clone(),
            key: self.key.clone(),
            state: self.state,
            received_at: self.received_at,
            changed_at: now,
            body: record::encode_delivery_payload(&self.payload),
        }
    }

    /// Sets the requests of the agent's answer. The question is in the conversation and dropped here; its author and
    /// conversation are kept.
    pub(super) fn set_requests(&mut self, requests: Vec<ChannelRequest>) {
        self.state = DeliveryState::Answered;
        self.payload.message.content = String::new();
        self.payload.message.context = String::new();
        self.payload.requests = requests;
    }

    /// Closes the delivery. Its content is in the conversation and dropped here.
    pub(super) fn finish(&mut self, state: DeliveryState, problem: Option<String>) {
        self.state = state;
        self.payload.message = ChannelMessage::default();
        self.payload.requests = Vec::new();
        self.payload.problem = problem;
    }

    /// The client id of the run for this delivery.
    pub(super) fn run_name(&self) -> Arc<str> {
        format!("delivery-{}-{}", self.id.0, self.payload.earlier_runs).into()
    }
}

/// The origin of a message. Memories belong to the account or, where the adapter cannot tell it, to the conversation.
pub(super) fn origin(channel: &str, message: &ChannelMessage) -> ConversationOrigin {
    let non_empty = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let peer = non_empty(&message.peer);
    ConversationOrigin {
        channel: channel.to_owned(),
        account: non_empty(&message.account).or_else(|| peer.clone()).unwrap_or_else(|| UNKNOWN_ACCOUNT.to_owned()),
        peer,
        guild: non_empty(&message.guild),
        team: non_empty(&message.team),
    }
}

/// The queue of a delivery: one per conversation, whichever agent answers.
pub(super) fn conversation_key(origin: &ConversationOrigin) -> SessionKey {
    origin.session_key("")
}

#[cfg(test)]
mod tests;
