//! One delivery, as it is in memory while it is open.

use std::sync::Arc;

use jiff::Timestamp;

use crate::conversation::ConversationOrigin;
use crate::id::SessionKey;
use crate::record;
use crate::store::DeliveryRow;
use crate::webhook::{ChannelMessage, ChannelOptions, ChannelRequest, DeliveryId, DeliveryPayload, DeliveryState};

/// Who is meant when a webhook says neither who wrote it nor in which conversation.
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

    /// The agent has answered. What it was asked is in the conversation and not needed here any longer; who asked is.
    pub(super) fn set_requests(&mut self, requests: Vec<ChannelRequest>) {
        self.state = DeliveryState::Answered;
        self.payload.message.content = String::new();
        self.payload.message.context = String::new();
        self.payload.requests = requests;
    }

    /// Nothing more happens to it. What was said is in the conversation; here it is not needed any longer.
    pub(super) fn finish(&mut self, state: DeliveryState, problem: Option<String>) {
        self.state = state;
        self.payload.message = ChannelMessage::default();
        self.payload.requests = Vec::new();
        self.payload.problem = problem;
    }

    /// What the run is called that answers it.
    pub(super) fn run_name(&self) -> Arc<str> {
        format!("delivery-{}-{}", self.id.0, self.payload.earlier_runs).into()
    }
}

/// Where a message comes from. Facts belong to the account or, where the adapter cannot tell, to the conversation.
pub(super) fn origin(channel: &str, message: &ChannelMessage) -> ConversationOrigin {
    let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let peer = given(&message.peer);
    ConversationOrigin {
        channel: channel.to_owned(),
        account: given(&message.account).or_else(|| peer.clone()).unwrap_or_else(|| UNKNOWN_ACCOUNT.to_owned()),
        peer,
        guild: given(&message.guild),
        team: given(&message.team),
    }
}

/// The line a delivery stands in: one conversation, whoever answers it.
pub(super) fn conversation_key(origin: &ConversationOrigin) -> SessionKey {
    origin.session_key("")
}

#[cfg(test)]
mod tests;
