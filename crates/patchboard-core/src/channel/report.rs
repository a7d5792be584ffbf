//! What the operator sees of channels and deliveries.

use super::service::ChannelService;
use crate::deliveries::{ChannelReport, DeliveryReport};
use crate::record;
use crate::store::DeliveryRow;

impl ChannelService {
    pub(crate) fn reports(&self) -> Vec<ChannelReport> {
        let mut reports: Vec<ChannelReport> = self
            .options()
            .map(|channel| ChannelReport {
                name: channel.name.clone(),
                plugin: channel.plugin.clone(),
                wait: channel.wait,
                unanswered: self.load.of(&channel.name).0,
                max_unanswered: channel.max_open_deliveries,
            })
            .collect();
        reports.sort_by(|left, right| left.name.cmp(&right.name));
        reports
    }
}

/// Without the content, which belongs to the people who wrote it.
pub(crate) fn report(row: &DeliveryRow) -> DeliveryReport {
    // One that cannot be read back is logged when it is recovered, and listed with what is known.
    let payload = record::decode_delivery_payload(&row.body).unwrap_or_default();
    DeliveryReport {
        id: row.id,
        channel: row.channel.clone(),
        state: row.state,
        received_at: row.received_at,
        changed_at: row.changed_at,
        requests: payload.requests.len(),
        sent_requests: payload.sent_count,
        problem: payload.problem,
    }
}
