//! How much is open: deliveries of each channel, and what all of them hold in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::delivery::Letter;
use super::{ChannelOptions, DeliveryState};
use crate::telemetry;

/// What open deliveries may hold in memory together; further ones are refused. Answers count too, and may lead over it:
/// they are there already.
const MAX_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, Default)]
pub(super) struct Load(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    by_channel: HashMap<Arc<str>, usize>,
    bytes: usize,
}

/// Counts a delivery as open until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    load: Load,
    channel: Arc<str>,
    bytes: usize,
    state: DeliveryState,
}

impl Load {
    /// Counts one more and calls `enter`, both at once; the error says how many there are.
    pub(super) fn admit<T>(
        &self,
        channel: &ChannelOptions,
        letter: &Letter,
        enter: impl FnOnce() -> T,
    ) -> Result<(T, Held), usize> {
        let mut open = self.open();
        let count = open.by_channel.get(&channel.name).copied().unwrap_or_default();
        if count >= channel.max_waiting || open.bytes.saturating_add(letter.weight()) > MAX_BYTES {
            return Err(count);
        }
        let held = self.count(&mut open, channel, letter, DeliveryState::Received);
        Ok((enter(), held))
    }

    /// Counts one that was taken before, whether or not there is room for it.
    pub(super) fn hold(&self, channel: &ChannelOptions, letter: &Letter, state: DeliveryState) -> Held {
        self.count(&mut self.open(), channel, letter, state)
    }

    /// How many of a channel are open.
    #[cfg(test)]
    pub(super) fn of(&self, channel: &str) -> (usize, usize) {
        let open = self.open();
        (open.by_channel.get(channel).copied().unwrap_or_default(), open.bytes)
    }

    fn count(&self, open: &mut Open, channel: &ChannelOptions, letter: &Letter, state: DeliveryState) -> Held {
        let bytes = letter.weight();
        *open.by_channel.entry(channel.name.clone()).or_default() += 1;
        open.bytes = open.bytes.saturating_add(bytes);
        telemetry::delivery_moved(None, Some(state));
        Held { load: self.clone(), channel: channel.name.clone(), bytes, state }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// It is in that state now, and holds that letter.
    pub(super) fn moved(&mut self, state: DeliveryState, letter: &Letter) {
        telemetry::delivery_moved(Some(self.state), Some(state));
        self.state = state;
        let bytes = letter.weight();
        let mut open = self.load.open();
        open.bytes = open.bytes.saturating_sub(self.bytes).saturating_add(bytes);
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        telemetry::delivery_moved(Some(self.state), None);
        let mut open = self.load.open();
        open.bytes = open.bytes.saturating_sub(self.bytes);
        if let Some(count) = open.by_channel.get_mut(&self.channel) {
            *count = count.saturating_sub(1);
        }
    }
}
