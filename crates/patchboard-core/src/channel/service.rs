//! Where deliveries come in: known channels, what came before, how many may be open, and whose turn it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::dedup_key::{self, DeliveryKeys, MAX_ID};
use super::delivery::{DeliveryPayload, OpenDelivery, conversation_key, origin};
use super::load::{LoadPermit, LoadTracker};
use super::{ChannelError, ChannelMessage, ChannelOptions, DeliveryId, DeliveryState, ParsedWebhook, Webhook};
use crate::backoff::BackoffSchedule;
use crate::board::MAX_CONTENT;
use crate::error::{BoardError, ErrorKind, RetryHint};
use crate::id::SessionKey;
use crate::port::{
    Clock, DeliveryRow, Durability, IdGenerator, PluginRuntime, Store, StoreError, StoreWrite, WriteBatch,
};
use crate::record;
use crate::session::{QueueSlot, SessionPermit, SessionQueues};

/// Agents asked at once over all channels together, and requests sent at once; further ones wait. Each channel has an
/// equal share of its own: one whose agent or service is slow must not hold up the others.
const MAX_CONCURRENT: usize = 64;
/// No channel has fewer, however many there are.
const LEAST_AT_ONCE: usize = 4;
/// What an adapter may keep with a message to answer it.
const MAX_CONTEXT: usize = 16 * 1024;
/// Equal webhooks that wait for each other; further ones are refused.
const MAX_WAITING_DUPLICATES: usize = 64;
/// When whoever was refused should come again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Pauses before a store that fails is tried again.
pub(super) const STORE_RETRY_PAUSES: BackoffSchedule = BackoffSchedule::listed(&[
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(2),
])
.with_max_retries(4);
/// Further ones, which a server that goes away does not wait for: a full disk is not for ever. After the last the
/// delivery is left as it is to the next start.
const LATE_STORE_RETRY_PAUSES: BackoffSchedule = BackoffSchedule::listed(&[
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(180),
    Duration::from_secs(320),
])
.with_max_retries(5);

#[derive(Debug)]
pub(crate) struct ChannelService {
    channels: HashMap<Arc<str>, ChannelLanes>,
    pub(super) plugins: Option<Arc<dyn PluginRuntime>>,
    pub(super) store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGenerator>,
    /// One delivery of a conversation after the other.
    pub(super) conversation_queues: SessionQueues,
    /// One of several equal webhooks after the other, so that only the first is taken.
    duplicate_queues: SessionQueues,
    pub(super) load: LoadTracker,
    /// Cancelled when the server drains: nothing waits any more, for its turn or for a better time.
    draining: CancellationToken,
}

#[derive(Debug)]
struct ChannelLanes {
    options: Arc<ChannelOptions>,
    agent_permits: Arc<Semaphore>,
    send_permits: Arc<Semaphore>,
}

/// What there are places for. Each has its own: what is answered does not wait for what is being thought about.
#[derive(Debug, Clone, Copy)]
pub(super) enum PermitKind {
    Asking,
    Sending,
}

/// A delivery that is on record and has its place in line.
#[derive(Debug)]
pub(crate) struct AcceptedDelivery {
    pub(crate) delivery: OpenDelivery,
    pub(crate) place: QueueSlot,
    pub(crate) load_permit: LoadPermit,
    /// It comes from an earlier process, which may have asked the agent already.
    pub(crate) is_recovered: bool,
}

impl ChannelService {
    pub(crate) fn new(
        channels: Vec<ChannelOptions>,
        plugins: Option<Arc<dyn PluginRuntime>>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGenerator>,
    ) -> Self {
        let share = (MAX_CONCURRENT / channels.len().max(1)).max(LEAST_AT_ONCE);
        let places = || Arc::new(Semaphore::new(share));
        let channel = |options: ChannelOptions| {
            (
                options.name.clone(),
                ChannelLanes { options: Arc::new(options), agent_permits: places(), send_permits: places() },
            )
        };
        Self {
            channels: channels.into_iter().map(channel).collect(),
            plugins,
            store,
            clock,
            ids,
            // How many may wait is counted for each channel.
            conversation_queues: SessionQueues::new(usize::MAX),
            duplicate_queues: SessionQueues::new(MAX_WAITING_DUPLICATES),
            load: LoadTracker::default(),
            draining: CancellationToken::new(),
        }
    }

    pub(crate) fn channel(&self, name: &str) -> Option<&Arc<ChannelOptions>> {
        self.channels.get(name).map(|channel| &channel.options)
    }

    /// The places of a channel.
    pub(super) fn permits(&self, channel: &str, work: PermitKind) -> Option<&Arc<Semaphore>> {
        let channel = self.channels.get(channel)?;
        Some(match work {
            PermitKind::Asking => &channel.agent_permits,
            PermitKind::Sending => &channel.send_permits,
        })
    }

    pub(crate) fn plugins(&self) -> Result<&Arc<dyn PluginRuntime>, BoardError> {
        self.plugins.as_ref().ok_or_else(|| unavailable("this server has no plugin host".to_owned()))
    }

    /// What a webhook means, by its channel's adapter.
    pub(crate) async fn parse_webhook(
        &self,
        channel: &ChannelOptions,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> Result<ParsedWebhook, BoardError> {
        let read = self.plugins()?.parse_incoming(&channel.plugin, webhook, stop).await;
        let incoming = read.map_err(|error| match error {
            ChannelError::Unavailable(why) => unavailable(why),
            ChannelError::Rejected(why) => BoardError::invalid(format!("parse_incoming failed: {why}")),
            // The host has logged why; it may say more of the inside than is anybody's business.
            ChannelError::Failed(_) => {
                BoardError::new(ErrorKind::Upstream, "parse_incoming failed: the adapter broke; see the server's log")
            }
        })?;
        if let ParsedWebhook::Message(message) = &incoming {
            check(&channel.name, message)?;
        }
        Ok(incoming)
    }

    /// Puts a message on record; `None` if it is on record already.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        channel: &Arc<ChannelOptions>,
        mut message: ChannelMessage,
        digest: &str,
    ) -> Result<Option<AcceptedDelivery>, BoardError> {
        let fresh = DeliveryId(self.ids.next());
        let keys = match message.id.take().filter(|id| !id.is_empty()) {
            Some(id) => DeliveryKeys::of_message(&id),
            None => DeliveryKeys::of_content(digest, channel.replay_window, self.now(), fresh),
        };
        let _first = self.wait_for_duplicates(&channel.name, &keys.shared).await?;
        let before = self.earlier(&channel.name, &keys).await?;
        let mut letter = DeliveryPayload { message, ..DeliveryPayload::default() };
        let (id, key, received_at) = match before {
            None => (fresh, keys.own, None),
            Some(row) => match earlier_runs_of_reported(&row) {
                Some(asked_before) => {
                    letter.earlier_runs = asked_before.saturating_add(1);
                    (row.id, row.key, Some(row.received_at))
                }
                None => return Ok(None),
            },
        };
        let from = origin(&channel.name, &letter.message);
        // All at once: the order of places is the order on record.
        let entering =
            || (self.conversation_queues.enqueue(&conversation_key(&from)), received_at.unwrap_or_else(|| self.now()));
        let admitted = self.load.admit(channel, &letter, entering);
        let ((place, received_at), held) = admitted.map_err(|open| too_many_waiting(&channel.name, open))?;
        let place = place?;
        let delivery = OpenDelivery {
            id,
            channel: channel.clone(),
            key,
            state: DeliveryState::Received,
            received_at,
            payload: letter,
        };
        self.save(&delivery, Durability::Boundary).await?;
        Ok(Some(AcceptedDelivery { delivery, place, load_permit: held, is_recovered: false }))
    }

    /// Records where a delivery stands.
    pub(super) async fn save(&self, delivery: &OpenDelivery, durability: Durability) -> Result<(), StoreError> {
        let writes = vec![StoreWrite::Delivery(delivery.row(self.now()))];
        self.store.commit(WriteBatch { durability, writes }).await
    }

    /// The same, not giving up at once.
    pub(super) async fn save_with_retry(&self, delivery: &OpenDelivery) -> Result<(), StoreError> {
        self.with_store_retry(|| self.save(delivery, Durability::Boundary)).await
    }

    /// Asks the store, and again when it fails.
    pub(super) async fn with_store_retry<T, Asked>(&self, ask: impl Fn() -> Asked) -> Result<T, StoreError>
    where
        Asked: Future<Output = Result<T, StoreError>>,
    {
        for pause in STORE_RETRY_PAUSES.retries() {
            match ask().await {
                Err(error) if is_transient(&error) => tracing::debug!(%error, "the store is asked again in a moment"),
                answer => return answer,
            }
            tokio::time::sleep(pause).await;
        }
        for pause in LATE_STORE_RETRY_PAUSES.retries() {
            match ask().await {
                Err(error) if is_transient(&error) => {
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
    pub(crate) fn drain(&self) {
        self.draining.cancel();
    }

    pub(super) fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// `false` when the server goes away before.
    pub(super) async fn pause(&self, pause: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.draining.cancelled() => false,
            () = tokio::time::sleep(pause) => true,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// While the caller of that delivery is told that it failed, nothing equal is taken: until the failure is on record
    /// it would be a repetition. `None` when too many wait for that already.
    pub(super) async fn hold_duplicates(&self, delivery: &OpenDelivery) -> Option<SessionPermit> {
        self.wait_for_duplicates(&delivery.channel.name, dedup_key::shared_part(&delivery.key)).await.ok()
    }

    async fn wait_for_duplicates(&self, channel: &str, key: &str) -> Result<SessionPermit, BoardError> {
        let place = self.duplicate_queues.enqueue(&SessionKey::conversation("", channel, key, ""));
        place.map_err(|_| too_many_waiting(channel, MAX_WAITING_DUPLICATES))?.permit().await
    }

    async fn earlier(&self, channel: &str, keys: &DeliveryKeys) -> Result<Option<DeliveryRow>, BoardError> {
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
fn earlier_runs_of_reported(row: &DeliveryRow) -> Option<u32> {
    let letter = (row.state == DeliveryState::Failed).then(|| record::decode_delivery_payload(&row.body).ok())??;
    letter.is_failure_reported.then_some(letter.earlier_runs)
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
    if conversation_key(&from).as_str().len().max(others) > SessionKey::MAX_BYTES {
        return Err(BoardError::invalid("account, peer, guild or team is too long"));
    }
    Ok(())
}

fn is_transient(error: &StoreError) -> bool {
    match error {
        StoreError::Busy | StoreError::Full | StoreError::Failed { .. } => true,
        StoreError::Closed | StoreError::BadCursor | StoreError::Corrupt { .. } => false,
    }
}

fn unavailable(why: String) -> BoardError {
    BoardError::new(ErrorKind::Unavailable, why).retry(RetryHint::After(RETRY_AFTER))
}

fn too_many_waiting(channel: &str, open: usize) -> BoardError {
    let message = format!("too many messages of {channel} are waiting: {open}");
    BoardError::new(ErrorKind::Exhausted, message).retry(RetryHint::After(RETRY_AFTER))
}
