//! How much is open: deliveries of each channel, and what all of them hold in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::telemetry;
use crate::webhook::DeliveryPayload;
use crate::webhook::{ChannelOptions, DeliveryState};

/// What open deliveries may hold in memory together; further ones are refused. Answers count too, and may lead over it:
/// they are there already.
const MAX_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, Default)]
pub(super) struct LoadTracker(Arc<Mutex<OpenTotals>>);

#[derive(Debug, Default)]
struct OpenTotals {
    by_channel: HashMap<Arc<str>, usize>,
    bytes: usize,
}

/// Counts a delivery as open until it is dropped.
#[derive(Debug)]
pub(crate) struct LoadPermit {
    load: LoadTracker,
    channel: Arc<str>,
    bytes: usize,
    state: DeliveryState,
}

impl LoadTracker {
    /// Counts one more and calls `enter`, both at once; the error says how many there are.
    pub(super) fn admit<T>(
        &self,
        channel: &ChannelOptions,
        letter: &DeliveryPayload,
        enter: impl FnOnce() -> T,
    ) -> Result<(T, LoadPermit), usize> {
        let mut open = self.open();
        let count = open.by_channel.get(&channel.name).copied().unwrap_or_default();
        if count >= channel.max_open_deliveries || open.bytes.saturating_add(letter.weight()) > MAX_BYTES {
            return Err(count);
        }
        let held = self.count(&mut open, channel, letter, DeliveryState::Received);
        Ok((enter(), held))
    }

    /// Counts one that was taken before, whether or not there is room for it.
    pub(super) fn admit_recovered(
        &self,
        channel: &ChannelOptions,
        letter: &DeliveryPayload,
        state: DeliveryState,
    ) -> LoadPermit {
        self.count(&mut self.open(), channel, letter, state)
    }

    /// How many of a channel are open.
    #[cfg(test)]
    pub(super) fn of(&self, channel: &str) -> (usize, usize) {
        let open = self.open();
        (open.by_channel.get(channel).copied().unwrap_or_default(), open.bytes)
    }

    fn count(
        &self,
        open: &mut OpenTotals,
        channel: &ChannelOptions,
        letter: &DeliveryPayload,
        state: DeliveryState,
    ) -> LoadPermit {
        let bytes = letter.weight();
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
    /// It is in that state now, and holds that letter.
    pub(super) fn update(&mut self, state: DeliveryState, letter: &DeliveryPayload) {
        telemetry::delivery_state_changed(Some(self.state), Some(state));
        self.state = state;
        let bytes = letter.weight();
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
