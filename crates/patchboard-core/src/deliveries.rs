//! What is known about channels and their deliveries.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::webhook::{DeliveryId, DeliveryState};

/// A configured channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelReport {
    pub name: Arc<str>,
    pub plugin: Arc<str>,
    /// How long the webhook's caller waits for the answer; `None` for asynchronous channels.
    pub wait: Option<Duration>,
    /// Deliveries without an answer, and how many there may be.
    pub unanswered: usize,
    pub max_unanswered: usize,
}

/// A delivery without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryReport {
    pub id: DeliveryId,
    pub channel: Arc<str>,
    pub state: DeliveryState,
    pub received_at: Timestamp,
    pub changed_at: Timestamp,
    /// Requests of the answer, and how many of them were sent.
    pub requests: usize,
    pub sent_requests: usize,
    /// Why the answer could not be delivered.
    pub problem: Option<String>,
}
