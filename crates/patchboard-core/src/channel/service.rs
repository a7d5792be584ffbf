//! Accepts deliveries: known channels, deduplication, load limits and per-conversation order.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::dedup_key::{self, DeliveryKeys, MAX_ID};
use super::delivery::{OpenDelivery, conversation_key, origin};
use super::load::{LoadPermit, LoadTracker};
use crate::backoff::BackoffSchedule;
use crate::command::MAX_CONTENT;
use crate::error::{BoardError, ErrorKind, RetryHint};
use crate::id::{MemoryOwner, SessionKey};
use crate::port::{Clock, IdGenerator, PluginRuntime};
use crate::record;
use crate::session::{QueueSlot, SessionPermit, SessionQueues};
use crate::store::{
    DeliveryRow, Durability, EarlierDelivery, Store, StoreError, StoreWrite, TakenDelivery, WriteBatch,
};
use crate::tenure::Tenure;
use crate::webhook::DeliveryPayload;
use crate::webhook::{ChannelError, ChannelMessage, ChannelOptions, DeliveryId, DeliveryState, ParsedWebhook, Webhook};

/// Concurrent agent runs, and concurrent requests, over all channels; further ones wait. Divided equally among the
/// channels, so that one with a slow agent or service cannot block the others.
const MAX_CONCURRENT: usize = 64;
/// Least share of a channel, however many there are.
const MIN_CONCURRENT: usize = 4;
/// Most bytes of context that an adapter may store with a message for its answer.
const MAX_CONTEXT: usize = 16 * 1024;
/// Equal webhooks that wait for each other; further ones are refused.
const MAX_WAITING_DUPLICATES: usize = 64;
/// The retry hint of a refusal.
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
/// delivery is released, and taken up again by whichever process finds it.
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
    pub(super) tenure: Arc<Tenure>,
    /// Deliveries that this process works on, and those that it cannot read or has no channel for.
    held: Mutex<HashSet<DeliveryId>>,
    /// Held deliveries whose account was forgotten: nothing more is recorded or sent of them.
    abandoned: Mutex<HashSet<DeliveryId>>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGenerator>,
    /// Serialises the deliveries of a conversation.
    pub(super) conversation_queues: SessionQueues,
    /// Serialises equal webhooks, so that only the first is accepted.
    duplicate_queues: SessionQueues,
    pub(super) load: LoadTracker,
    /// Cancelled when the server drains: ends waiting for a turn, a permit or a retry.
    draining: CancellationToken,
}

#[derive(Debug)]
struct ChannelLanes {
    options: Arc<ChannelOptions>,
    agent_permits: Arc<Semaphore>,
    send_permits: Arc<Semaphore>,
}

/// The kinds of permits. Each has its own, so that sending does not wait for agent runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum PermitKind {
    Asking,
    Sending,
}

/// A recorded delivery with its position in the conversation's queue.
#[derive(Debug)]
pub(crate) struct AcceptedDelivery {
    pub(crate) delivery: OpenDelivery,
    pub(crate) queue_slot: QueueSlot,
    pub(crate) load_permit: LoadPermit,
    /// Accepted by an earlier process, which may have started a run already.
    pub(crate) is_recovered: bool,
    pub(crate) hold: DeliveryHold,
}

/// The right to work on a delivery. Dropping it releases the delivery: it can be taken over while it is open.
#[derive(Debug)]
pub(crate) struct DeliveryHold {
    service: Arc<ChannelService>,
    delivery: DeliveryId,
}

impl Drop for DeliveryHold {
    fn drop(&mut self) {
        self.service.held().remove(&self.delivery);
        self.service.abandoned().remove(&self.delivery);
    }
}

impl ChannelService {
    pub(crate) fn new(
        channels: Vec<ChannelOptions>,
        plugins: Option<Arc<dyn PluginRuntime>>,
        store: Arc<dyn Store>,
        tenure: Arc<Tenure>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGenerator>,
    ) -> Self {
        let permits_per_kind = (MAX_CONCURRENT / channels.len().max(1)).max(MIN_CONCURRENT);
        let new_permits = || Arc::new(Semaphore::new(permits_per_kind));
        let channel = |options: ChannelOptions| {
            (
                options.name.clone(),
                ChannelLanes { options: Arc::new(options), agent_permits: new_permits(), send_permits: new_permits() },
            )
        };
        Self {
            channels: channels.into_iter().map(channel).collect(),
            plugins,
            store,
            tenure,
            held: Mutex::default(),
            abandoned: Mutex::default(),
            clock,
            ids,
            // Unbounded: the load tracker limits each channel.
            conversation_queues: SessionQueues::new(usize::MAX),
            duplicate_queues: SessionQueues::new(MAX_WAITING_DUPLICATES),
            load: LoadTracker::default(),
            draining: CancellationToken::new(),
        }
    }

    pub(crate) fn channel(&self, name: &str) -> Option<&Arc<ChannelOptions>> {
        self.channels.get(name).map(|channel| &channel.options)
    }

    pub(super) fn options(&self) -> impl Iterator<Item = &ChannelOptions> {
        self.channels.values().map(|channel| &*channel.options)
    }

    /// The permits of a channel.
    pub(super) fn permits(&self, channel: &str, kind: PermitKind) -> Option<&Arc<Semaphore>> {
        let channel = self.channels.get(channel)?;
        Some(match kind {
            PermitKind::Asking => &channel.agent_permits,
            PermitKind::Sending => &channel.send_permits,
        })
    }

    pub(crate) fn plugins(&self) -> Result<&Arc<dyn PluginRuntime>, BoardError> {
        self.plugins.as_ref().ok_or_else(|| unavailable("this server has no plugin host".to_owned()))
    }

    /// Parses a webhook with its channel's adapter.
    pub(crate) async fn parse_webhook(
        &self,
        channel: &ChannelOptions,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> Result<ParsedWebhook, BoardError> {
        let parsed = self.plugins()?.parse_incoming(&channel.plugin, webhook, stop).await;
        let incoming = parsed.map_err(|error| match error {
            ChannelError::Unavailable(why) => unavailable(why),
            ChannelError::Rejected(why) => BoardError::invalid(format!("parse_incoming failed: {why}")),
            // The host has logged the cause, which may contain internals that the caller must not see.
            ChannelError::Failed(_) => {
                BoardError::new(ErrorKind::Upstream, "parse_incoming failed: the adapter broke; see the server's log")
            }
        })?;
        if let ParsedWebhook::Message(message) = &incoming {
            check(&channel.name, message)?;
        }
        Ok(incoming)
    }

    /// Accepts and records a message; `None` if it is recorded already.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        channel: &Arc<ChannelOptions>,
        mut message: ChannelMessage,
        digest: &str,
    ) -> Result<Option<AcceptedDelivery>, BoardError> {
        let new_id = DeliveryId(self.ids.next());
        let keys = match message.id.take().filter(|id| !id.is_empty()) {
            Some(id) => DeliveryKeys::of_message(&id),
            None => DeliveryKeys::of_content(digest, channel.replay_window, self.now(), new_id),
        };
        // Held until the delivery is recorded, so that the next equal one finds it.
        let _first = self.wait_for_duplicates(&channel.name, &keys.shared).await?;
        let received_at = self.now();
        let lookup = EarlierDelivery { keys: keys.earlier.iter().cloned().collect(), not_before: keys.not_before };
        let mut delivery = OpenDelivery {
            id: new_id,
            channel: channel.clone(),
            key: keys.own.clone(),
            state: DeliveryState::Received,
            received_at,
            payload: DeliveryPayload { message, ..DeliveryPayload::default() },
        };
        let from = origin(&channel.name, &delivery.payload.message);
        // Under one lock, so that the queue order equals the recorded order.
        let enqueue = || (self.conversation_queues.enqueue(&conversation_key(&from)), self.now());
        let ((queue_slot, received_at), load_permit) = match self.load.admit(channel, &delivery.payload, enqueue) {
            Ok(admitted) => admitted,
            // A known message is not refused for want of room.
            Err(_) if self.is_known(&delivery, &lookup).await? => return Ok(None),
            Err(open) => return Err(too_many_waiting(&channel.name, open)),
        };
        let queue_slot = queue_slot?;
        delivery.received_at = received_at;
        let hold = self.hold(new_id);
        let taken = self.store.take_delivery(delivery.row(self.now()), lookup).await;
        let hold = match taken.inspect_err(|error| self.tenure.observe(error))? {
            TakenDelivery::Stored => hold,
            TakenDelivery::Earlier(row) => {
                let Some(earlier_runs) = earlier_runs_of_reported(&row) else { return Ok(None) };
                // Its caller was told of the failure and tries again.
                delivery.payload.earlier_runs = earlier_runs.saturating_add(1);
                (delivery.id, delivery.key, delivery.received_at) = (row.id, row.key, row.received_at);
                let hold = self.hold(delivery.id);
                self.save(&delivery, Durability::Boundary).await?;
                hold
            }
        };
        Ok(Some(AcceptedDelivery { delivery, queue_slot, load_permit, is_recovered: false, hold }))
    }

    /// Whether the same delivery was accepted earlier, and its caller was not told of a failure.
    async fn is_known(&self, delivery: &OpenDelivery, lookup: &EarlierDelivery) -> Result<bool, BoardError> {
        let mut found = self.store.delivery(&delivery.channel.name, &delivery.key).await?;
        for key in &lookup.keys {
            let other = self.store.delivery(&delivery.channel.name, key).await?;
            let is_recent = |row: &DeliveryRow| lookup.not_before.is_none_or(|moment| row.received_at > moment);
            found = found.or(other.filter(is_recent));
        }
        Ok(found.is_some_and(|row| earlier_runs_of_reported(&row).is_none()))
    }

    /// Keeps a delivery from being taken over while this process works on it.
    pub(super) fn hold(self: &Arc<Self>, delivery: DeliveryId) -> DeliveryHold {
        self.held().insert(delivery);
        DeliveryHold { service: self.clone(), delivery }
    }

    pub(super) fn held(&self) -> MutexGuard<'_, HashSet<DeliveryId>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up the account's open deliveries, so that no more of them is recorded or sent, and returns them.
    pub(crate) async fn abandon(&self, owner: &MemoryOwner) -> Result<Vec<DeliveryId>, StoreError> {
        let open = self.store.open_deliveries().await?;
        let is_of_account = |row: &DeliveryRow| {
            let payload = record::decode_delivery_payload(&row.body);
            payload.is_ok_and(|payload| origin(&row.channel, &payload.message).memory_owner() == *owner)
        };
        let deliveries: Vec<_> = open.iter().filter(|row| is_of_account(row)).map(|row| row.id).collect();
        let held = self.held();
        self.abandoned().extend(deliveries.iter().filter(|delivery| held.contains(delivery)));
        Ok(deliveries)
    }

    /// Takes `abandon` back.
    pub(crate) fn resume_abandoned(&self, deliveries: &[DeliveryId]) {
        self.abandoned().retain(|delivery| !deliveries.contains(delivery));
    }

    pub(super) fn is_abandoned(&self, delivery: DeliveryId) -> bool {
        self.abandoned().contains(&delivery)
    }

    fn abandoned(&self) -> MutexGuard<'_, HashSet<DeliveryId>> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the current state of a delivery.
    pub(super) async fn save(&self, delivery: &OpenDelivery, durability: Durability) -> Result<(), StoreError> {
        if self.is_abandoned(delivery.id) {
            return Ok(());
        }
        let writes = vec![StoreWrite::Delivery(delivery.row(self.now()))];
        let batch = WriteBatch::new(durability, writes).of_tenure(self.tenure.id());
        self.store.commit(batch).await.inspect_err(|error| self.tenure.observe(error))
    }

    /// Like `save`, with retries.
    pub(super) async fn save_with_retry(&self, delivery: &OpenDelivery) -> Result<(), StoreError> {
        self.with_store_retry(|| self.save(delivery, Durability::Boundary)).await
    }

    /// Calls the store, with retries on transient errors.
    pub(super) async fn with_store_retry<T, Asked>(&self, ask: impl Fn() -> Asked) -> Result<T, StoreError>
    where
        Asked: Future<Output = Result<T, StoreError>>,
    {
        for pause in STORE_RETRY_PAUSES.retries() {
            match ask().await {
                Err(error) if is_transient(&error) => tracing::debug!(%error, "store operation failed; retrying soon"),
                answer => return answer,
            }
            tokio::time::sleep(pause).await;
        }
        for pause in LATE_STORE_RETRY_PAUSES.retries() {
            match ask().await {
                Err(error) if is_transient(&error) => {
                    tracing::warn!(%error, "store operation of a delivery failed; retrying later");
                }
                answer => return answer,
            }
            if !self.pause(pause).await {
                break;
            }
        }
        ask().await
    }

    /// Ends all waiting; work in progress continues.
    pub(crate) fn drain(&self) {
        self.draining.cancel();
    }

    pub(super) fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Sleeps; `false` if the server drains first.
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

    /// Blocks equal deliveries while this delivery's caller is told of the failure: until the failure is recorded, a
    /// retry would count as a duplicate. `None` if too many are waiting already.
    pub(super) async fn hold_duplicates(&self, delivery: &OpenDelivery) -> Option<SessionPermit> {
        self.wait_for_duplicates(&delivery.channel.name, dedup_key::shared_part(&delivery.key)).await.ok()
    }

    async fn wait_for_duplicates(&self, channel: &str, key: &str) -> Result<SessionPermit, BoardError> {
        let queue_slot = self.duplicate_queues.enqueue(&SessionKey::conversation("", channel, key, ""));
        queue_slot.map_err(|_| too_many_waiting(channel, MAX_WAITING_DUPLICATES))?.permit().await
    }

    /// The number of open deliveries of a channel, and the bytes of all channels.
    #[cfg(test)]
    pub(crate) fn open(&self, channel: &str) -> (usize, usize) {
        self.load.of(channel)
    }
}

/// The number of earlier runs of a failed delivery whose caller was told of the failure.
fn earlier_runs_of_reported(row: &DeliveryRow) -> Option<u32> {
    let payload = (row.state == DeliveryState::Failed).then(|| record::decode_delivery_payload(&row.body).ok())??;
    payload.is_failure_reported.then_some(payload.earlier_runs)
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
    // The key will also contain the agent's name; it is short, and the length is checked again then.
    if conversation_key(&from).as_str().len().max(others) > SessionKey::MAX_BYTES {
        return Err(BoardError::invalid("account, peer, guild or team is too long"));
    }
    Ok(())
}

fn is_transient(error: &StoreError) -> bool {
    match error {
        StoreError::Busy | StoreError::Full | StoreError::Failed { .. } => true,
        StoreError::Closed
        | StoreError::Fenced
        | StoreError::Conflict
        | StoreError::BadCursor
        | StoreError::Corrupt { .. } => false,
    }
}

fn unavailable(why: String) -> BoardError {
    BoardError::new(ErrorKind::Unavailable, why).retry(RetryHint::After(RETRY_AFTER))
}

fn too_many_waiting(channel: &str, open: usize) -> BoardError {
    let message = format!("too many messages of {channel} are waiting: {open}");
    BoardError::new(ErrorKind::Exhausted, message).retry(RetryHint::After(RETRY_AFTER))
}
