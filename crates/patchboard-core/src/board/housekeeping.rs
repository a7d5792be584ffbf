//! Periodic deletion of expired data, and folding of old.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Board;
use crate::store::{EraseExtent, RetentionCutoffs};

/// Retention times.
#[derive(Debug, Clone, Copy)]
pub struct RetentionPolicy {
    pub runs: Duration,
    /// After this the streamed text of a run is stored in fewer records; the run can still be followed.
    pub events: Duration,
}

impl Board {
    /// Runs background work until `stop`: takes over unfinished work and, every hour, deletes expired
    /// data and folds old events, in small steps.
    pub async fn run_housekeeping(&self, keep: RetentionPolicy, stop: CancellationToken) {
        self.0.hub.run_background(stop.clone());
        tokio::join!(
            self.0.bridge.run_housekeeping(stop.clone()),
            self.adopt_repeatedly(stop.clone()),
            self.prune_hourly(keep, stop.clone()),
            self.index_turns_each_minute(stop),
        );
    }

    /// Fills the index of turns behind the turns, so that neither a turn nor a search has to wait for it.
    async fn index_turns_each_minute(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(Duration::from_secs(60));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = stop.cancelled() => return,
            }
            loop {
                match self.0.store.index_turns().await {
                    Ok(true) if !stop.is_cancelled() => tokio::task::yield_now().await,
                    Ok(_) => break,
                    Err(error) => {
                        tracing::warn!(%error, "turns could not be indexed for search; trying again in a minute");
                        break;
                    }
                }
            }
        }
    }

    async fn prune_hourly(&self, keep: RetentionPolicy, stop: CancellationToken) {
        let mut hourly = tokio::time::interval(Duration::from_secs(3600));
        hourly.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = hourly.tick() => {}
                () = stop.cancelled() => return,
            }
            if let Err(error) = self.0.store.erase_remains(EraseExtent::WholeStoreIfDue).await {
                tracing::warn!(%error, "remains of a forgotten account could not be erased; trying again in an hour");
            }
            let now = self.0.clock.now();
            let before = |age: Duration| {
                let age = jiff::SignedDuration::try_from(age).unwrap_or(jiff::SignedDuration::MAX);
                now.checked_sub(age).unwrap_or(jiff::Timestamp::MIN)
            };
            let retention = RetentionCutoffs { runs_before: before(keep.runs), events_before: before(keep.events) };
            loop {
                match self.0.store.prune(retention).await {
                    Ok(true) if !stop.is_cancelled() => tokio::task::yield_now().await,
                    Ok(_) => break,
                    Err(error) => {
                        tracing::warn!(%error, "old runs could not be deleted; trying again in an hour");
                        break;
                    }
                }
            }
        }
    }
}
