//! The table of message actors: one per unfinished message, and how inputs reach its mailbox.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::Hub;
use crate::app::message::MessageReport;
use crate::error::{BoardError, ErrorKind, RetryHint};
use crate::hub::message_actor::{ActorInput, ActorMailbox, ActorStart, MAILBOX_CAPACITY, UnloadedActor};
use crate::id::MessageId;

/// Actors of ended messages that stay in memory, because apps go on reporting on what they acknowledged.
const MAX_IDLE: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct MessageActors {
    pub(super) by_message: HashMap<MessageId, ActorHandle>,
    idle: usize,
}

/// The sending side of a message actor.
#[derive(Debug)]
pub(super) struct ActorHandle {
    mailbox: mpsc::Sender<ActorInput>,
    /// Set when the mailbox had no room for an `AppJoined` or `AppLeft`.
    missed_app_change: Arc<AtomicBool>,
    /// `None` until the report is read back from the store.
    pub(super) report: watch::Receiver<Option<Arc<MessageReport>>>,
}

impl ActorHandle {
    /// `false` if the actor has stopped.
    fn send(&self, input: ActorInput) -> bool {
        match self.mailbox.try_send(input) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(input)) => {
                match input {
                    ActorInput::AppJoined { .. } | ActorInput::AppLeft { .. } => {
                        self.missed_app_change.store(true, Ordering::Relaxed);
                    }
                    input @ (ActorInput::Response { .. } | ActorInput::Resend { .. } | ActorInput::Cancel { .. }) => {
                        let message = "too many inputs for this message at once; retry in a moment";
                        let retry = RetryHint::After(Duration::from_secs(1));
                        input.refuse(&BoardError::new(ErrorKind::Exhausted, message).retry(retry));
                    }
                }
                true
            }
        }
    }
}

/// Removes the table entry of an actor that panicked, so that the next input spawns a new one.
struct PanicCleanup {
    hub: Hub,
    message: MessageId,
}

impl Drop for PanicCleanup {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(message.id = %self.message, "a message actor panicked; the message waits for its next input");
            self.hub.actors().by_message.remove(&self.message);
        }
    }
}

impl Hub {
    /// Spawns the message's actor.
    pub(super) fn spawn_actor(&self, message: MessageId, start: ActorStart) {
        let mut actors = self.actors();
        self.spawn_actor_locked(&mut actors, message, start);
    }

    fn spawn_actor_locked(&self, actors: &mut MessageActors, message: MessageId, start: ActorStart) {
        let (mailbox, receiver) = mpsc::channel(MAILBOX_CAPACITY);
        let (report_sender, report) = watch::channel(None);
        let missed = Arc::<AtomicBool>::default();
        actors.by_message.insert(message, ActorHandle { mailbox, missed_app_change: missed.clone(), report });
        let actor = UnloadedActor::new(
            self.clone(),
            message,
            report_sender,
            ActorMailbox { receiver, missed_app_change: missed },
        );
        let cleanup = PanicCleanup { hub: self.clone(), message };
        self.0.foreground_tasks.spawn(async move {
            actor.run(start).await;
            drop(cleanup);
        });
    }

    /// Spawns an actor for a stored message unless one is running; returns whether it did.
    pub(super) fn resume_actor(&self, message: MessageId) -> bool {
        let mut actors = self.actors();
        let is_missing = !actors.by_message.contains_key(&message);
        if is_missing {
            self.spawn_actor_locked(&mut actors, message, ActorStart::Stored);
        }
        is_missing
    }

    /// Sends an input to the message's actor, spawning one if none is running.
    pub(super) fn send_to_actor(&self, message: MessageId, input: ActorInput) {
        let mut actors = self.actors();
        if !actors.by_message.contains_key(&message) {
            self.spawn_actor_locked(&mut actors, message, ActorStart::Stored);
        }
        if let Some(handle) = actors.by_message.get(&message) {
            // Cannot be lost: an actor removes itself under the same lock, and only with an empty mailbox.
            handle.send(input);
        }
    }

    /// Sends an input only if an actor is running; returns whether it was sent.
    pub(super) fn send_if_running(&self, message: MessageId, input: ActorInput) -> bool {
        self.actors().by_message.get(&message).is_some_and(|handle| handle.send(input))
    }

    pub(super) fn broadcast_to_actors(&self, input: impl Fn() -> ActorInput) {
        for handle in self.actors().by_message.values() {
            handle.send(input());
        }
    }

    /// Removes an idle actor. Returns `false`, and keeps it, if its mailbox is not empty.
    pub(in crate::hub) fn remove_actor(
        &self,
        message: MessageId,
        mailbox: &mpsc::Receiver<ActorInput>,
        had_idle_slot: bool,
    ) -> bool {
        let mut actors = self.actors();
        if !mailbox.is_empty() {
            return false;
        }
        actors.by_message.remove(&message);
        actors.idle = actors.idle.saturating_sub(usize::from(had_idle_slot));
        true
    }

    /// Reserves one of the [`MAX_IDLE`] slots for an ended message; `false` if none is free.
    pub(in crate::hub) fn reserve_idle(&self) -> bool {
        let mut actors = self.actors();
        let is_free = actors.idle < MAX_IDLE;
        actors.idle += usize::from(is_free);
        is_free
    }

    pub(in crate::hub) fn release_idle(&self) {
        let mut actors = self.actors();
        actors.idle = actors.idle.saturating_sub(1);
    }
}
