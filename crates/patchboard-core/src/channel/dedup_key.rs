//! What tells one delivery from another, so that what comes twice is answered once.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::webhook::DeliveryId;

/// Longest id of a message in bytes; adapters have to shorten longer ones, because two that only differ at their ends
/// are two.
pub(super) const MAX_ID: usize = 1024;

/// Before a digest.
const DIGEST_PREFIX: &str = "body:";

/// The key of a delivery, and the other keys an earlier one of the same content may have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeliveryKeys {
    /// What equal deliveries have in common, whenever they come.
    pub(super) shared: Arc<str>,
    pub(super) own: Arc<str>,
    pub(super) earlier: Option<Arc<str>>,
    /// An older delivery of these keys is another one.
    pub(super) not_before: Option<Timestamp>,
}

impl DeliveryKeys {
    /// The id the other service gave; it is good for ever.
    pub(super) fn of_message(id: &str) -> Self {
        let own: Arc<str> = format!("id:{id}").into();
        Self { shared: own.clone(), own, earlier: None, not_before: None }
    }

    /// The content itself, for as long as `window`. Time is cut into slots of that length, so that the key can be used
    /// again in a later one; who is in the window came in this slot or in the one before.
    pub(super) fn of_content(digest: &str, window: Duration, now: Timestamp, delivery: DeliveryId) -> Self {
        let common: Arc<str> = format!("{DIGEST_PREFIX}{digest}").into();
        let length = i128::try_from(window.as_nanos()).unwrap_or(i128::MAX);
        if length == 0 {
            return Self {
                own: format!("{common}:{}", delivery.0).into(),
                shared: common,
                earlier: None,
                not_before: None,
            };
        }
        let slot = now.as_nanosecond().div_euclid(length);
        let key = |slot: i128| -> Arc<str> { format!("{common}:{slot}").into() };
        let window = jiff::SignedDuration::try_from(window).unwrap_or(jiff::SignedDuration::MAX);
        let not_before = now.checked_sub(window).unwrap_or(Timestamp::MIN);
        Self { own: key(slot), earlier: Some(key(slot - 1)), not_before: Some(not_before), shared: common }
    }
}

/// What a key has in common with those of equal deliveries.
pub(super) fn shared_part(key: &str) -> &str {
    match key.starts_with(DIGEST_PREFIX) {
        true => key.rsplit_once(':').map_or(key, |(common, _slot)| common),
        false => key,
    }
}

#[cfg(test)]
mod tests;
