//! Every message that is not over has a steward; who it is, and how letters reach it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::Hub;
use crate::app::message::MessageReport;
use crate::app::steward::{Begin, Input, MAILBOX, Mail, Steward};
use crate::error::{BoardError, ErrorKind, Retry};
use crate::id::MessageId;

/// Messages that are over and kept at hand, because apps go on reporting on what they acknowledged.
const MAX_LINGERING: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Stewards {
    pub(super) by_message: HashMap<MessageId, Desk>,
    lingering: usize,
}

/// Where a message's steward can be reached.
#[derive(Debug)]
pub(super) struct Desk {
    mailbox: mpsc::Sender<Input>,
    /// Set when there was no room in it for an app that came or went.
    missed: Arc<AtomicBool>,
    /// `None` until it is read back from the store.
    pub(super) report: watch::Receiver<Option<Arc<MessageReport>>>,
}

impl Desk {
    /// `false`: nobody is at work on it any more.
    fn put(&self, input: Input) -> bool {
        match self.mailbox.try_send(input) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(input)) => {
                match input {
                    Input::Joined { .. } | Input::Left { .. } => self.missed.store(true, Ordering::Relaxed),
                    input @ (Input::Answer { .. } | Input::Resend { .. } | Input::Cancel { .. }) => {
                        let message = "too much is said about this message at once; say it again in a moment";
                        let retry = Retry::After(Duration::from_secs(1));
                        input.refuse(&BoardError::new(ErrorKind::Exhausted, message).retry(retry));
                    }
                }
                true
            }
        }
    }
}

/// Clears the desk of a steward that panicked, so that the next letter calls another one.
struct Vacated {
    hub: Hub,
    message: MessageId,
}

impl Drop for Vacated {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(message.id = %self.message, "a message's steward panicked; the message waits for the next word about it");
            self.hub.stewards().by_message.remove(&self.message);
        }
    }
}

impl Hub {
    /// Gives the message to a steward of its own.
    pub(super) fn employ(&self, message: MessageId, begin: Begin) {
        let mut stewards = self.stewards();
        self.employ_in(&mut stewards, message, begin);
    }

    fn employ_in(&self, stewards: &mut Stewards, message: MessageId, begin: Begin) {
        let (mailbox, letters) = mpsc::channel(MAILBOX);
        let (told, report) = watch::channel(None);
        let missed = Arc::<AtomicBool>::default();
        stewards.by_message.insert(message, Desk { mailbox, missed: missed.clone(), report });
        let steward = Steward::new(self.clone(), message, told, Mail { letters, missed });
        let vacated = Vacated { hub: self.clone(), message };
        self.0.tracker.spawn(async move {
            steward.work(begin).await;
            drop(vacated);
        });
    }

    /// Goes on with a message that is on record.
    pub(super) fn take_up(&self, message: MessageId) {
        let mut stewards = self.stewards();
        if !stewards.by_message.contains_key(&message) {
            self.employ_in(&mut stewards, message, Begin::Stored);
        }
    }

    /// Leaves a letter for the message's steward, calling one if nobody is at work on it.
    pub(super) fn tell(&self, message: MessageId, input: Input) {
        let mut stewards = self.stewards();
        if !stewards.by_message.contains_key(&message) {
            self.employ_in(&mut stewards, message, Begin::Stored);
        }
        if let Some(desk) = stewards.by_message.get(&message) {
            // The steward takes itself off the list under the same lock, and only with an empty mailbox.
            desk.put(input);
        }
    }

    /// The same only if somebody is at work on it.
    pub(super) fn tell_if_open(&self, message: MessageId, input: Input) -> bool {
        self.stewards().by_message.get(&message).is_some_and(|desk| desk.put(input))
    }

    pub(super) fn tell_all(&self, input: impl Fn() -> Input) {
        for desk in self.stewards().by_message.values() {
            desk.put(input());
        }
    }

    /// A steward has nothing left to do. `false`: there is mail.
    pub(in crate::app) fn dismiss(&self, message: MessageId, letters: &mpsc::Receiver<Input>, lingered: bool) -> bool {
        let mut stewards = self.stewards();
        if !letters.is_empty() {
            return false;
        }
        stewards.by_message.remove(&message);
        stewards.lingering = stewards.lingering.saturating_sub(usize::from(lingered));
        true
    }

    /// May a message that is over stay at hand for a while?
    pub(in crate::app) fn may_linger(&self) -> bool {
        let mut stewards = self.stewards();
        let may = stewards.lingering < MAX_LINGERING;
        stewards.lingering += usize::from(may);
        may
    }

    pub(in crate::app) fn stop_lingering(&self) {
        let mut stewards = self.stewards();
        stewards.lingering = stewards.lingering.saturating_sub(1);
    }
}
