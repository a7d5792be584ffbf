//! Accounting of open deliveries: their number per channel, and their total memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::telemetry;
use crate::webhook::DeliveryPayload;
use crate::webhook::{ChannelOptions, DeliveryState};

/// Memory of all open deliveries; further ones are refused. Answers count too but are never refused, so they may exceed
/// it.
const MAX_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, Default)]
pub(super) struct LoadTracker(Arc<Mutex<OpenTotals>>);

#[derive(Debug, Default)]
struct OpenTotals {
    by_channel: HashMap<Arc<str>, usize>,
    bytes: usize,
}

/// Counts a delivery as open until dropped.
#[derive(Debug)]
pub(crate) struct LoadPermit {
    load: LoadTracker,
    channel: Arc<str>,
    bytes: usize,
    state: DeliveryState,
}

impl LoadTracker {
    /// Counts a further delivery and calls `enter` under the same lock; the error is the channel's number of open
    /// deliveries.
    pub(super) fn admit<T>(
        &self,
        channel: &ChannelOptions,
        payload: &DeliveryPayload,
        enter: impl FnOnce() -> T,
    ) -> Result<(T, LoadPermit), usize> {
        let mut open = self.open();
        let count = open.by_channel.get(&channel.name).copied().unwrap_or_default();
        if count >= channel.max_open_deliveries || open.bytes.saturating_add(payload.weight()) > MAX_BYTES {
            return Err(count);
        }
        let permit = self.count(&mut open, channel, payload, DeliveryState::Received);
        Ok((enter(), permit))
    }

    /// Counts a delivery accepted by an earlier process, regardless of the bounds.
    pub(super) fn admit_recovered(
        &self,
        channel: &ChannelOptions,
        payload: &DeliveryPayload,
        state: DeliveryState,
    ) -> LoadPermit {
        self.count(&mut self.open(), channel, payload, state)
    }

    /// The number of open deliveries of a channel, and the bytes of all channels.
    pub(super) fn of(&self, channel: &str) -> (usize, usize) {
        let open = self.open();
        (open.by_channel.get(channel).copied().unwrap_or_default(), open.bytes)
    }

    fn count(
        &self,
        open: &mut OpenTotals,
        channel: &ChannelOptions,
        payload: &DeliveryPayload,
        state: DeliveryState,
    ) -> LoadPermit {
        let bytes = payload.weight();
        *open.by_channel.entry(channel.name.clone()).or_default() += 1;
        open.bytes = open.bytes.saturating_add(bytes);
        telemetry::delivery_state_changed(None, Some(state));
        LoadPermit { load: self.clone(), channel: channel.name.clone(), bytes, state }
    }

    fn open(&self) -> MutexGuard<'_, OpenTotals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoadPermit {
    /// Updates the state and the size.
    pub(super) fn update(&mut self, state: DeliveryState, payload: &DeliveryPayload) {
        telemetry::delivery_state_changed(Some(self.state), Some(state));
        self.state = state;
        let bytes = payload.weight();
        let mut open = self.load.open();
        open.bytes = open.bytes.saturating_sub(self.bytes).saturating_add(bytes);
        self.bytes = bytes;
    }
}

impl Drop for LoadPermit {
    fn drop(&mut self) {
        telemetry::delivery_state_changed(Some(self.state), None);
        let mut open = self.load.open();
        open.bytes = open.bytes.saturating_sub(self.bytes);
        if let Some(count) = open.by_channel.get_mut(&self.channel) {
            *count = count.saturating_sub(1);
        }
    }
}
