//! Writes the events of a message to the log and posts the notices that go with them.

use std::sync::Arc;

use jiff::Timestamp;

use super::{ActorSuspended, MessageActor, STORE_PAUSES};
use crate::app::message::{
    CHOOSE_HINT, FinalState, MessageEvent, MessageReport, MessageState, ParkedState, RoutingDecision,
};
use crate::event::Event;
use crate::hub::clear_leader;

use crate::id::MessageId;
use crate::store::{Durability, MessageRow, StoreWrite};
use crate::text::cut_chars;

/// Longest excerpt of the utterance in a notice.
const MAX_EXCERPT_CHARS: usize = 80;

impl MessageActor {
    /// Parks the message with a reason. A repeated park for the same reason is not recorded again.
    pub(super) async fn park(
        &mut self,
        parked_state: ParkedState,
        reason: String,
        decision: RoutingDecision,
    ) -> Result<(), ActorSuspended> {
        let state = match parked_state {
            ParkedState::Queued => MessageState::Queued,
            ParkedState::Held => MessageState::Held,
        };
        let is_already_parked = self.is_parked() && self.report.state == state;
        let is_same = match parked_state {
            ParkedState::Queued => self.report.reason.as_deref() == Some(&*reason),
            // The closest app changes whenever an app registers; the question to the user does not.
            ParkedState::Held => true,
        };
        if is_already_parked && is_same {
            return Ok(());
        }
        let (title, reason) = match parked_state {
            ParkedState::Queued => ("Message waits", reason),
            ParkedState::Held if self.report.refusals().is_empty() => {
                let closest = clear_leader(&decision.candidates).map(|candidate| &*candidate.app);
                ("Which app is this for?", reason + &choose_hint(self.message, closest))
            }
            // After refusals, the scores do not make any of the remaining apps a suggestion.
            ParkedState::Held => ("No app took this message", reason + &choose_hint(self.message, None)),
        };
        let body = format!("“{}”: {reason}", cut_chars(&self.report.utterance.text, MAX_EXCERPT_CHARS));
        let mut events = Vec::new();
        // When waiting for a known app, its decision is already recorded.
        if self.report.decisions.last().is_none_or(|last| **last != decision) {
            events.push(MessageEvent::Decided(Arc::new(decision)));
        }
        events.push(MessageEvent::Parked { state: parked_state, reason: reason.into() });
        self.record(events).await?;
        if !is_already_parked {
            self.hub.notify_user(self.message, title, body);
        }
        Ok(())
    }

    pub(super) async fn end(&mut self, final_state: FinalState, reason: String) -> Result<(), ActorSuspended> {
        let body = format!("“{}”: {reason}", cut_chars(&self.report.utterance.text, MAX_EXCERPT_CHARS));
        self.record(vec![MessageEvent::Ended { final_state, reason: reason.into() }]).await?;
        match final_state {
            FinalState::Refused => self.hub.notify_user(self.message, "No app took this message", body),
            FinalState::Expired => self.hub.notify_user(self.message, "A message expired", body),
            FinalState::Cancelled => {}
        }
        Ok(())
    }

    /// Records the events and retries until it succeeds: nothing may be announced before it is stored, and nothing may
    /// be lost.
    pub(super) async fn record(&mut self, events: Vec<MessageEvent>) -> Result<(), ActorSuspended> {
        let mut failures = 0;
        let at = loop {
            let now = self.hub.now();
            let projected = self.projected_report(&events, now);
            let submitted = (!self.is_stored).then(|| MessageEvent::Submitted(self.report.utterance.clone()));
            let entries: Vec<Event> = submitted.into_iter().chain(events.iter().cloned()).map(Event::Message).collect();
            match self.writer.append_returning_time(entries, vec![row(&projected, now)], Durability::Boundary).await {
                Ok(at) => break at,
                Err(error) if !self.is_stored => {
                    // The submission was not confirmed yet, so an error reply loses nothing.
                    if let Some(submit_reply) = self.submit_reply.take() {
                        drop(submit_reply.send(Err(error)));
                    }
                    return Err(ActorSuspended);
                }
                Err(error) => {
                    if failures == 0 {
                        tracing::error!(message.id = %self.message, %error, cause = error.source_chain(), "a message's events cannot be stored; trying again");
                        // The message is stored: the submitter need not wait until the store recovers.
                        self.reply_to_waiters();
                    }
                    tokio::select! {
                        () = tokio::time::sleep(STORE_PAUSES.delay(failures)) => failures += 1,
                        () = self.hub.shutdown().cancelled() => return Err(ActorSuspended),
                    }
                }
            }
        };
        if !self.is_stored {
            self.is_stored = true;
            self.report.submitted_at = at;
        }
        self.report = self.projected_report(&events, at);
        self.report_sender.send_replace(Some(Arc::new(self.report.clone())));
        Ok(())
    }

    /// Stores the submission by itself, for when the next event may take long.
    pub(super) async fn store_submission(&mut self) -> Result<(), ActorSuspended> {
        if self.is_stored { Ok(()) } else { self.record(Vec::new()).await }
    }

    /// The report with these events applied.
    fn projected_report(&self, events: &[MessageEvent], at: Timestamp) -> MessageReport {
        let mut report = self.report.clone();
        for event in events {
            report.apply(report.version.next(), at, event);
        }
        report
    }
}

pub(super) fn row(report: &MessageReport, changed_at: Timestamp) -> StoreWrite {
    StoreWrite::Message(MessageRow {
        message: report.id,
        state: report.state,
        submitted_at: report.submitted_at,
        changed_at,
    })
}

fn choose_hint(message: MessageId, app: Option<&str>) -> String {
    format!("{CHOOSE_HINT}`patchboard hub route {message} {}`", app.unwrap_or("APP"))
}
