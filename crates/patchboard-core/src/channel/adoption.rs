//! Deliveries that no living process works on.

use std::sync::Arc;

use jiff::SignedDuration;

use super::delivery::{OpenDelivery, conversation_key, origin};
use super::service::{AcceptedDelivery, ChannelService};
use crate::error::BoardError;
use crate::record;
use crate::store::{DeliveryRow, StoreWrite, WriteBatch};
use crate::webhook::DeliveryPayload;
use crate::webhook::DeliveryState;

/// How long deliveries of a channel that is no longer configured are kept.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);

impl ChannelService {
    /// Takes over open deliveries without an owner, oldest first.
    pub(crate) async fn adopt_open(self: &Arc<Self>) -> Result<Vec<AcceptedDelivery>, BoardError> {
        let mut recovered = Vec::new();
        let mut orphaned = 0_usize;
        let held = self.held().clone();
        for row in self.store.adopt_deliveries(held, usize::MAX).await? {
            let payload = match record::decode_delivery_payload(&row.body) {
                Ok(payload) => payload,
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                    tracing::error!(
                        channel = %row.channel, delivery = %row.id.0, %error, cause,
                        "a delivery cannot be read back; it is left as it is"
                    );
                    self.held().insert(row.id);
                    continue;
                }
            };
            let Some(channel) = self.channel(&row.channel).cloned() else {
                orphaned += 1;
                self.held().insert(row.id);
                self.expire_orphan(row).await;
                continue;
            };
            let from = origin(&channel.name, &payload.message);
            let queue_slot = self.conversation_queues.enqueue(&conversation_key(&from))?;
            let load_permit = self.load.admit_recovered(&channel, &payload, row.state);
            let DeliveryRow { id, key, state, received_at, .. } = row;
            let delivery = OpenDelivery { id, channel, key, state, received_at, payload };
            let hold = self.hold(id);
            recovered.push(AcceptedDelivery { delivery, queue_slot, load_permit, is_recovered: true, hold });
        }
        if orphaned > 0 {
            tracing::warn!(deliveries = orphaned, "messages wait for channels that are not configured any more");
        }
        Ok(recovered)
    }

    async fn expire_orphan(&self, row: DeliveryRow) {
        if self.now().duration_since(row.received_at) < MAX_AGE {
            return;
        }
        let payload = DeliveryPayload {
            problem: Some("the channel is not configured any more".to_owned()),
            ..DeliveryPayload::default()
        };
        let failed_row = DeliveryRow {
            state: DeliveryState::Failed,
            changed_at: self.now(),
            body: record::encode_delivery_payload(&payload),
            ..row
        };
        let batch = WriteBatch::boundary(vec![StoreWrite::Delivery(failed_row)]);
        if let Err(error) = self.store.commit(batch).await {
            tracing::warn!(%error, "an orphaned delivery could not be closed; the next start tries again");
        }
    }
}
