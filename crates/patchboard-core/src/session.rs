//! One turn at a time: each session has a queue, and permits are granted in the order of `enqueue` calls.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::error::{BoardError, ErrorKind, RetryHint};
use crate::id::SessionKey;

type WaitingPermits = Arc<Mutex<HashMap<SessionKey, VecDeque<oneshot::Sender<SessionPermit>>>>>;

/// Queues of the sessions in use. An idle session takes no memory.
#[derive(Debug, Clone)]
pub struct SessionQueues {
    busy: WaitingPermits,
    max_waiting: Arc<AtomicUsize>,
}

/// The permit to run in a session. Dropping it passes it to the next waiter.
#[derive(Debug)]
pub struct SessionPermit {
    /// `None` in a permit that could not be delivered.
    queues: Option<SessionQueues>,
    session: SessionKey,
}

/// A position in the queue, assigned at once; the permit may come later.
#[derive(Debug)]
pub enum QueueSlot {
    Ready(SessionPermit),
    Waiting(oneshot::Receiver<SessionPermit>),
}

impl SessionQueues {
    /// At most `max_waiting` requests wait for one session; further ones are refused.
    pub fn new(max_waiting: usize) -> Self {
        Self { busy: WaitingPermits::default(), max_waiting: Arc::new(max_waiting.into()) }
    }

    /// Applies to future requests; those already queued stay.
    pub fn set_max_waiting(&self, max_waiting: usize) {
        self.max_waiting.store(max_waiting, Ordering::Relaxed);
    }

    /// Takes the next position in the session's queue. Synchronous, so that the order of calls is the order of turns.
    pub fn enqueue(&self, session: &SessionKey) -> Result<QueueSlot, BoardError> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = busy.get_mut(session) else {
            busy.insert(session.clone(), VecDeque::new());
            return Ok(QueueSlot::Ready(SessionPermit { queues: Some(self.clone()), session: session.clone() }));
        };
        // Waiters that gave up must not count against the limit.
        waiting.retain(|sender| !sender.is_closed());
        if waiting.len() >= self.max_waiting.load(Ordering::Relaxed) {
            let message = format!("session busy: {} requests are waiting for it", waiting.len());
            return Err(BoardError::new(ErrorKind::Exhausted, message).retry(RetryHint::Now));
        }
        let (sender, receiver) = oneshot::channel();
        waiting.push_back(sender);
        Ok(QueueSlot::Waiting(receiver))
    }

    /// Is a request waiting for the session, besides the one that holds the permit?
    pub fn has_waiters(&self, session: &SessionKey) -> bool {
        let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.get(session).is_some_and(|waiting| waiting.iter().any(|sender| !sender.is_closed()))
    }

    fn release_to_next(&self, session: &SessionKey) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = busy.get_mut(session) else { return };
        while let Some(next) = waiting.pop_front() {
            let permit = SessionPermit { queues: Some(self.clone()), session: session.clone() };
            match next.send(permit) {
                Ok(()) => return,
                // The waiter gave up. The undelivered permit is disarmed, since dropping it would lock `busy` again and
                // deadlock.
                Err(mut permit) => permit.queues = None,
            }
        }
        busy.remove(session);
    }
}

impl QueueSlot {
    pub async fn permit(self) -> Result<SessionPermit, BoardError> {
        match self {
            Self::Ready(permit) => Ok(permit),
            Self::Waiting(receiver) => receiver.await.map_err(|_| BoardError::shutting_down()),
        }
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        if let Some(queues) = self.queues.take() {
            queues.release_to_next(&self.session);
        }
    }
}

#[cfg(test)]
mod tests;
