//! Every message that is not over has a steward; who it is, and how letters reach it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::Hub;
use crate::app::message::MessageReport;
use crate::error::{BoardError, ErrorKind, RetryHint};
use crate::hub::message_actor::{ActorInput, ActorMailbox, ActorStart, MAILBOX_CAPACITY, MessageActor};
use crate::id::MessageId;

/// Messages that are over and kept at hand, because apps go on reporting on what they acknowledged.
const MAX_IDLE: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct MessageActors {
    pub(super) by_message: HashMap<MessageId, ActorHandle>,
    idle: usize,
}

/// Where a message's steward can be reached.
#[derive(Debug)]
pub(super) struct ActorHandle {
    mailbox: mpsc::Sender<ActorInput>,
    /// Set when there was no room in it for an app that came or went.
    missed_app_change: Arc<AtomicBool>,
    /// `None` until it is read back from the store.
    pub(super) report: watch::Receiver<Option<Arc<MessageReport>>>,
}

impl ActorHandle {
    /// `false`: nobody is at work on it any more.
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
                        let message = "too much is said about this message at once; say it again in a moment";
                        let retry = RetryHint::After(Duration::from_secs(1));
                        input.refuse(&BoardError::new(ErrorKind::Exhausted, message).retry(retry));
                    }
                }
                true
            }
        }
    }
}

/// Clears the desk of a steward that panicked, so that the next letter calls another one.
struct PanicCleanup {
    hub: Hub,
    message: MessageId,
}

impl Drop for PanicCleanup {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(message.id = %self.message, "a message's steward panicked; the message waits for the next word about it");
            self.hub.actors().by_message.remove(&self.message);
        }
    }
}

impl Hub {
    /// Gives the message to a steward of its own.
    pub(super) fn spawn_actor(&self, message: MessageId, begin: ActorStart) {
        let mut stewards = self.actors();
        self.spawn_actor_locked(&mut stewards, message, begin);
    }

    fn spawn_actor_locked(&self, stewards: &mut MessageActors, message: MessageId, begin: ActorStart) {
        let (mailbox, letters) = mpsc::channel(MAILBOX_CAPACITY);
        let (told, report) = watch::channel(None);
        let missed = Arc::<AtomicBool>::default();
        stewards.by_message.insert(message, ActorHandle { mailbox, missed_app_change: missed.clone(), report });
        let steward = MessageActor::new(
            self.clone(),
            message,
            told,
            ActorMailbox { receiver: letters, missed_app_change: missed },
        );
        let vacated = PanicCleanup { hub: self.clone(), message };
        self.0.foreground_tasks.spawn(async move {
            steward.run(begin).await;
            drop(vacated);
        });
    }

    /// Goes on with a message that is on record.
    pub(super) fn resume_actor(&self, message: MessageId) {
        let mut stewards = self.actors();
        if !stewards.by_message.contains_key(&message) {
            self.spawn_actor_locked(&mut stewards, message, ActorStart::Stored);
        }
    }

    /// Leaves a letter for the message's steward, calling one if nobody is at work on it.
    pub(super) fn send_to_actor(&self, message: MessageId, input: ActorInput) {
        let mut stewards = self.actors();
        if !stewards.by_message.contains_key(&message) {
            self.spawn_actor_locked(&mut stewards, message, ActorStart::Stored);
        }
        if let Some(desk) = stewards.by_message.get(&message) {
            // The steward takes itself off the list under the same lock, and only with an empty mailbox.
            desk.send(input);
        }
    }

    /// The same only if somebody is at work on it.
    pub(super) fn send_if_running(&self, message: MessageId, input: ActorInput) -> bool {
        self.actors().by_message.get(&message).is_some_and(|desk| desk.send(input))
    }

    pub(super) fn broadcast_to_actors(&self, input: impl Fn() -> ActorInput) {
        for desk in self.actors().by_message.values() {
            desk.send(input());
        }
    }

    /// A steward has nothing left to do. `false`: there is mail.
    pub(in crate::hub) fn remove_actor(
        &self,
        message: MessageId,
        letters: &mpsc::Receiver<ActorInput>,
        lingered: bool,
    ) -> bool {
        let mut stewards = self.actors();
        if !letters.is_empty() {
            return false;
        }
        stewards.by_message.remove(&message);
        stewards.idle = stewards.idle.saturating_sub(usize::from(lingered));
        true
    }

    /// May a message that is over stay at hand for a while?
    pub(in crate::hub) fn reserve_idle(&self) -> bool {
        let mut stewards = self.actors();
        let may = stewards.idle < MAX_IDLE;
        stewards.idle += usize::from(may);
        may
    }

    pub(in crate::hub) fn release_idle(&self) {
        let mut stewards = self.actors();
        stewards.idle = stewards.idle.saturating_sub(1);
    }
}
