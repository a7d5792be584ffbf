//! Where deliveries come in: known channels, what came before, how many may be open, and whose turn it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::delivery::{Delivery, Letter, conversation, origin};
use super::key::{self, Keys, MAX_ID};
use super::load::{Held, Load};
use super::{ChannelError, ChannelMessage, ChannelOptions, DeliveryId, DeliveryState, Incoming, Webhook};
use crate::board::MAX_CONTENT;
use crate::error::{BoardError, ErrorKind, Retry};
use crate::id::SessionKey;
use crate::port::{Batch, Clock, DeliveryRow, Durability, Ids, Plugins, Store, StoreError, Write};
use crate::record;
use crate::session::{Place, SessionQueues, Turn};

/// Agents asked at once over all channels together, and requests sent at once; further ones wait. Each channel has an
/// equal share of its own: one whose agent or service is slow must not hold up the others.
const AT_ONCE: usize = 64;
/// No channel has fewer, however many there are.
const LEAST_AT_ONCE: usize = 4;
/// What an adapter may keep with a message to answer it.
const MAX_CONTEXT: usize = 16 * 1024;
/// Equal webhooks that wait for each other; further ones are refused.
const MAX_EQUAL: usize = 64;
/// When whoever was refused should come again.
const COME_AGAIN: Duration = Duration::from_secs(5);
/// Pauses before a store that fails is tried again.
pub(super) const TRY_AGAIN: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(2)];
/// Further ones, which a server that goes away does not wait for: a full disk is not for ever. After the last the
/// delivery is left as it is to the next start.
const AND_LATER: [Duration; 5] = [
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(180),
    Duration::from_secs(320),
];

#[derive(Debug)]
pub(crate) struct ChannelDesk {
    channels: HashMap<Arc<str>, Channel>,
    pub(super) plugins: Option<Arc<dyn Plugins>>,
    pub(super) store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    /// One delivery of a conversation after the other.
    pub(super) lines: SessionQueues,
    /// One of several equal webhooks after the other, so that only the first is taken.
    arrivals: SessionQueues,
    pub(super) load: Load,
    /// Cancelled when the server drains: nothing waits any more, for its turn or for a better time.
    leaving: CancellationToken,
}

#[derive(Debug)]
struct Channel {
    options: Arc<ChannelOptions>,
    asking: Arc<Semaphore>,
    sending: Arc<Semaphore>,
}

/// What there are places for. Each has its own: what is answered does not wait for what is being thought about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    Asking,
    Sending,
}

/// A delivery that is on record and has its place in line.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) delivery: Delivery,
    pub(crate) place: Place,
    pub(crate) held: Held,
    /// It comes from an earlier process, which may have asked the agent already.
    pub(crate) is_left_over: bool,
}

impl ChannelDesk {
    pub(crate) fn new(
        channels: Vec<ChannelOptions>,
        plugins: Option<Arc<dyn Plugins>>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        let share = (AT_ONCE / channels.len().max(1)).max(LEAST_AT_ONCE);
        let places = || Arc::new(Semaphore::new(share));
        let channel = |options: ChannelOptions| {
            (options.name.clone(), Channel { options: Arc::new(options), asking: places(), sending: places() })
        };
        Self {
            channels: channels.into_iter().map(channel).collect(),
            plugins,
            store,
            clock,
            ids,
            // How many may wait is counted for each channel.
            lines: SessionQueues::new(usize::MAX),
            arrivals: SessionQueues::new(MAX_EQUAL),
            load: Load::default(),
            leaving: CancellationToken::new(),
        }
    }

    pub(crate) fn channel(&self, name: &str) -> Option<&Arc<ChannelOptions>> {
        self.channels.get(name).map(|channel| &channel.options)
    }

    /// The places of a channel.
    pub(super) fn places(&self, channel: &str, work: Work) -> Option<&Arc<Semaphore>> {
        let channel = self.channels.get(channel)?;
        Some(match work {
            Work::Asking => &channel.asking,
            Work::Sending => &channel.sending,
        })
    }

    pub(crate) fn plugins(&self) -> Result<&Arc<dyn Plugins>, BoardError> {
        self.plugins.as_ref().ok_or_else(|| unavailable("this server has no plugin host".to_owned()))
    }

    /// What a webhook means, by its channel's adapter.
    pub(crate) async fn read(
        &self,
        channel: &ChannelOptions,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> Result<Incoming, BoardError> {
        let read = self.plugins()?.parse_incoming(&channel.plugin, webhook, stop).await;
        let incoming = read.map_err(|error| match error {
            ChannelError::Unavailable(why) => unavailable(why),
            ChannelError::Rejected(why) => BoardError::invalid(format!("parse_incoming failed: {why}")),
            // The host has logged why; it may say more of the inside than is anybody's business.
            ChannelError::Failed(_) => {
                BoardError::new(ErrorKind::Upstream, "parse_incoming failed: the adapter broke; see the server's log")
            }
        })?;
        if let Incoming::Message(message) = &incoming {
            check(&channel.name, message)?;
        }
        Ok(incoming)
    }

    /// Puts a message on record; `None` if it is on record already.
    pub(crate) async fn take(
        self: &Arc<Self>,
        channel: &Arc<ChannelOptions>,
        mut message: ChannelMessage,
        digest: &str,
    ) -> Result<Option<Arrived>, BoardError> {
        let fresh = DeliveryId(self.ids.next());
        let keys = match message.id.take().filter(|id| !id.is_empty()) {
            Some(id) => Keys::of_message(&id),
            None => Keys::of_content(digest, channel.replay_window, self.now(), fresh),
        };
        let _first = self.only_one(&channel.name, &keys.common).await?;
        let before = self.earlier(&channel.name, &keys).await?;
        let mut letter = Letter { message, ..Letter::default() };
        let (id, key, received_at) = match before {
            None => (fresh, keys.own, None),
            Some(row) => match returned(&row) {
                Some(asked_before) => {
                    letter.asked_before = asked_before.saturating_add(1);
                    (row.id, row.key, Some(row.received_at))
                }
                None => return Ok(None),
            },
        };
        let from = origin(&channel.name, &letter.message);
        // All at once: the order of places is the order on record.
        let entering = || (self.lines.enter(&conversation(&from)), received_at.unwrap_or_else(|| self.now()));
        let admitted = self.load.admit(channel, &letter, entering);
        let ((place, received_at), held) = admitted.map_err(|open| full(&channel.name, open))?;
        let place = place?;
        let delivery =
            Delivery { id, channel: channel.clone(), key, state: DeliveryState::Received, received_at, letter };
        self.change(&delivery, Durability::Boundary).await?;
        Ok(Some(Arrived { delivery, place, held, is_left_over: false }))
    }

    /// Records where a delivery stands.
    pub(super) async fn change(&self, delivery: &Delivery, durability: Durability) -> Result<(), StoreError> {
        let writes = vec![Write::Delivery(delivery.row(self.now()))];
        self.store.commit(Batch { durability, writes }).await
    }

    /// The same, not giving up at once.
    pub(super) async fn change_surely(&self, delivery: &Delivery) -> Result<(), StoreError> {
        self.surely(|| self.change(delivery, Durability::Boundary)).await
    }

    /// Asks the store, and again when it fails.
    pub(super) async fn surely<T, Asked>(&self, ask: impl Fn() -> Asked) -> Result<T, StoreError>
    where
        Asked: Future<Output = Result<T, StoreError>>,
    {
        for pause in TRY_AGAIN {
            match ask().await {
                Err(error) if may_pass(&error) => tracing::debug!(%error, "the store is asked again in a moment"),
                answer => return answer,
            }
            tokio::time::sleep(pause).await;
        }
        for pause in AND_LATER {
            match ask().await {
                Err(error) if may_pass(&error) => {
                    tracing::warn!(%error, "a delivery waits for the store, which is asked again later");
                }
                answer => return answer,
            }
            if !self.pause(pause).await {
                break;
            }
        }
        ask().await
    }

    /// Nothing waits any more; what is at work goes on.
    pub(crate) fn leave(&self) {
        self.leaving.cancel();
    }

    pub(super) fn leaving(&self) -> &CancellationToken {
        &self.leaving
    }

    /// `false` when the server goes away before.
    pub(super) async fn pause(&self, pause: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.leaving.cancelled() => false,
            () = tokio::time::sleep(pause) => true,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// While the caller of that delivery is told that it failed, nothing equal is taken: until the failure is on record
    /// it would be a repetition. `None` when too many wait for that already.
    pub(super) async fn keep_equals_out(&self, delivery: &Delivery) -> Option<Turn> {
        self.only_one(&delivery.channel.name, key::common(&delivery.key)).await.ok()
    }

    async fn only_one(&self, channel: &str, key: &str) -> Result<Turn, BoardError> {
        let place = self.arrivals.enter(&SessionKey::conversation("", channel, key, ""));
        place.map_err(|_| full(channel, MAX_EQUAL))?.turn().await
    }

    async fn earlier(&self, channel: &str, keys: &Keys) -> Result<Option<DeliveryRow>, BoardError> {
        for key in std::iter::once(&keys.own).chain(&keys.earlier) {
            let found = self.store.delivery(channel, key).await?;
            let is_recent = |row: &DeliveryRow| keys.not_before.is_none_or(|moment| row.received_at > moment);
            // In the same slot it is recent, whatever the clock has done since.
            if let Some(row) = found.filter(|row| *key == keys.own || is_recent(row)) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// How many of a channel are open, and what all together hold.
    #[cfg(test)]
    pub(crate) fn open(&self, channel: &str) -> (usize, usize) {
        self.load.of(channel)
    }
}

/// How often the agent was asked before, of a delivery whose caller was told that it failed.
fn returned(row: &DeliveryRow) -> Option<u32> {
    let letter = (row.state == DeliveryState::Failed).then(|| record::decode_letter(&row.body).ok())??;
    letter.is_returned.then_some(letter.asked_before)
}

fn check(channel: &str, message: &ChannelMessage) -> Result<(), BoardError> {
    if message.content.trim().is_empty() {
        return Err(BoardError::invalid("empty message content"));
    }
    if message.content.len() > MAX_CONTENT {
        return Err(BoardError::invalid(format!("content is too long: at most {MAX_CONTENT} bytes are accepted")));
    }
    if message.context.len() > MAX_CONTEXT {
        return Err(BoardError::invalid(format!("context is too long: at most {MAX_CONTEXT} bytes are accepted")));
    }
    if message.id.as_ref().is_some_and(|id| id.len() > MAX_ID) {
        return Err(BoardError::invalid(format!("the message's id is too long: at most {MAX_ID} bytes are accepted")));
    }
    let from = origin(channel, message);
    let others = [&from.guild, &from.team].into_iter().flatten().map(String::len).max().unwrap_or_default();
    // The agent's name comes into the key too; it is short, and checked again then.
    if conversation(&from).as_str().len().max(others) > SessionKey::MAX_BYTES {
        return Err(BoardError::invalid("account, peer, guild or team is too long"));
    }
    Ok(())
}

fn may_pass(error: &StoreError) -> bool {
    match error {
        StoreError::Busy | StoreError::Full | StoreError::Failed { .. } => true,
        StoreError::Closed | StoreError::BadCursor | StoreError::Corrupt { .. } => false,
    }
}

fn unavailable(why: String) -> BoardError {
    BoardError::new(ErrorKind::Unavailable, why).retry(Retry::After(COME_AGAIN))
}

fn full(channel: &str, open: usize) -> BoardError {
    let message = format!("too many messages of {channel} are waiting: {open}");
    BoardError::new(ErrorKind::Exhausted, message).retry(Retry::After(COME_AGAIN))
}
