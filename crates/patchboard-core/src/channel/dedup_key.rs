//! Deduplication keys, so that a delivery received twice is answered once.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::webhook::DeliveryId;

/// Longest message id in bytes. Adapters must shorten longer ones without truncating, since ids that differ only at
/// their ends are distinct.
pub(super) const MAX_ID: usize = 1024;

/// Prefix of keys made from a digest.
const DIGEST_PREFIX: &str = "body:";

/// The key of a delivery, and the keys that an earlier delivery of the same content may have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeliveryKeys {
    /// Common to equal deliveries, whatever their time.
    pub(super) shared: Arc<str>,
    pub(super) own: Arc<str>,
    pub(super) earlier: Option<Arc<str>>,
    /// A delivery with these keys received before this time is a different one.
    pub(super) not_before: Option<Timestamp>,
}

impl DeliveryKeys {
    /// Keys from the message id given by the other service; valid without limit.
    pub(super) fn of_message(id: &str) -> Self {
        let own: Arc<str> = format!("id:{id}").into();
        Self { shared: own.clone(), own, earlier: None, not_before: None }
    }

    /// Keys from the content, valid for `window`. Time is divided into slots of that length, so that the key can recur
    /// in a later slot; a delivery within the window lies in the current slot or the previous one.
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

/// The part of a key that equal deliveries share.
pub(super) fn shared_part(key: &str) -> &str {
    match key.starts_with(DIGEST_PREFIX) {
        true => key.rsplit_once(':').map_or(key, |(common, _slot)| common),
        false => key,
    }
}

#[cfg(test)]
mod tests;
