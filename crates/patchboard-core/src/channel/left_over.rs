//! What earlier processes left open.

use std::sync::Arc;

use jiff::SignedDuration;

use super::DeliveryState;
use super::delivery::{Delivery, Letter, conversation, origin};
use super::desk::{Arrived, ChannelDesk};
use crate::error::BoardError;
use crate::port::{Batch, DeliveryRow, Durability, Write};
use crate::record;

/// So long the deliveries of a channel that is not configured any more wait for it.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);

impl ChannelDesk {
    /// Oldest first.
    pub(crate) async fn left_over(self: &Arc<Self>) -> Result<Vec<Arrived>, BoardError> {
        let mut arrived = Vec::new();
        let mut homeless = 0_usize;
        for row in self.store.open_deliveries().await? {
            let letter = match record::decode_letter(&row.body) {
                Ok(letter) => letter,
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                    tracing::error!(
                        channel = %row.channel, delivery = %row.id.0, %error, cause,
                        "a delivery cannot be read back; it is left as it is"
                    );
                    continue;
                }
            };
            let Some(channel) = self.channel(&row.channel).cloned() else {
                homeless += 1;
                self.give_up_old(row).await;
                continue;
            };
            let from = origin(&channel.name, &letter.message);
            let place = self.lines.enter(&conversation(&from))?;
            let held = self.load.hold(&channel, &letter, row.state);
            let DeliveryRow { id, key, state, received_at, .. } = row;
            let delivery = Delivery { id, channel, key, state, received_at, letter };
            arrived.push(Arrived { delivery, place, held, is_left_over: true });
        }
        if homeless > 0 {
            tracing::warn!(deliveries = homeless, "messages wait for channels that are not configured any more");
        }
        Ok(arrived)
    }

    async fn give_up_old(&self, row: DeliveryRow) {
        if self.now().duration_since(row.received_at) < MAX_AGE {
            return;
        }
        let letter = Letter { problem: Some("the channel is not configured any more".to_owned()), ..Letter::default() };
        let given_up = DeliveryRow {
            state: DeliveryState::Failed,
            changed_at: self.now(),
            body: record::encode_letter(&letter),
            ..row
        };
        let batch = Batch { durability: Durability::Boundary, writes: vec![Write::Delivery(given_up)] };
        if let Err(error) = self.store.commit(batch).await {
            tracing::warn!(%error, "an old delivery could not be given up; the next start tries again");
        }
    }
}
