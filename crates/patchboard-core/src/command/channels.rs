//! Channels and their deliveries.

use std::sync::Arc;

use super::{Command, PageRequest};
use crate::deliveries::{ChannelReport, DeliveryReport};
use crate::store::ResultPage;
use crate::webhook::DeliveryState;

/// The configured channels, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListChannels;

impl Command for ListChannels {
    type Reply = Vec<ChannelReport>;
}

/// Deliveries, newest first. A page may be short, even empty, and have a next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListDeliveries {
    pub channel: Option<Arc<str>>,
    pub state: Option<DeliveryState>,
    pub page: PageRequest,
}

impl Command for ListDeliveries {
    type Reply = ResultPage<DeliveryReport>;
}
