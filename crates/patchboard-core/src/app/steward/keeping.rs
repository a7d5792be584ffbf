//! What is put on record, and what the user hears of it.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Closing, Work, store_pause};
use crate::app::hub::ahead;
use crate::app::message::{CHOOSE_WITH, Decision, End, MessageEvent, MessageReport, MessageState, Rest};
use crate::event::Event;
use crate::id::MessageId;
use crate::port::{Durability, MessageRow, Write};

impl Work {
    /// Waits, saying for what; once, however often it comes to the same.
    pub(super) async fn rest(&mut self, rest: Rest, reason: String, decision: Decision) -> Result<(), Closing> {
        let state = match rest {
            Rest::Queued => MessageState::Queued,
            Rest::Held => MessageState::Held,
        };
        let waits_already = self.is_resting() && self.report.state == state;
        let is_same = match rest {
            Rest::Queued => self.report.reason.as_deref() == Some(&*reason),
            // Who comes closest changes with every app that comes; the question to the user does not.
            Rest::Held => true,
        };
        if waits_already && is_same {
            return Ok(());
        }
        let (title, reason) = match rest {
            Rest::Queued => ("Message waits", reason),
            Rest::Held if self.report.refusals().is_empty() => {
                let closest = ahead(&decision.candidates).map(|candidate| &*candidate.app);
                ("Which app is this for?", reason + &choice(self.message, closest))
            }
            // Of those that are left none is any nearer for it.
            Rest::Held => ("No app took this message", reason + &choice(self.message, None)),
        };
        let said = format!("“{}”: {reason}", excerpt(&self.report.utterance.text));
        let mut events = Vec::new();
        // An app that is waited for was decided on before.
        if self.report.decisions.last().is_none_or(|last| **last != decision) {
            events.push(MessageEvent::Decided(Arc::new(decision)));
        }
        events.push(MessageEvent::Rested { rest, reason: reason.into() });
        self.record(events).await?;
        if !waits_already {
            self.hub.say(self.message, title, said);
        }
        Ok(())
    }

    pub(super) async fn end(&mut self, end: End, reason: String) -> Result<(), Closing> {
        let said = format!("“{}”: {reason}", excerpt(&self.report.utterance.text));
        self.record(vec![MessageEvent::Ended { end, reason: reason.into() }]).await?;
        match end {
            End::Refused => self.hub.say(self.message, "No app took this message", said),
            End::Expired => self.hub.say(self.message, "A message expired", said),
            End::Cancelled => {}
        }
        Ok(())
    }

    /// Puts it on record, however often that has to be tried: nothing may be told before, and nothing may be lost.
    pub(super) async fn record(&mut self, events: Vec<MessageEvent>) -> Result<(), Closing> {
        let mut failures = 0;
        let at = loop {
            let now = self.hub.now();
            let foreseen = self.after(&events, now);
            let submitted = (!self.is_stored).then(|| MessageEvent::Submitted(self.report.utterance.clone()));
            let entries: Vec<Event> = submitted.into_iter().chain(events.iter().cloned()).map(Event::Message).collect();
            match self.writer.append_at(entries, vec![row(&foreseen, now)], Durability::Boundary).await {
                Ok(at) => break at,
                Err(error) if !self.is_stored => {
                    // Nobody was told that it is taken, so nothing is lost.
                    if let Some(taken) = self.taken.take() {
                        drop(taken.send(Err(error)));
                    }
                    return Err(Closing);
                }
                Err(error) => {
                    if failures == 0 {
                        tracing::error!(message.id = %self.message, %error, cause = error.causes(), "a message's way cannot be stored; trying again");
                        // It is taken: whoever submitted it need not wait until it can go on.
                        self.tell_taken();
                    }
                    tokio::select! {
                        () = tokio::time::sleep(store_pause(failures)) => failures += 1,
                        () = self.hub.closing().cancelled() => return Err(Closing),
                    }
                }
            }
        };
        if !self.is_stored {
            self.is_stored = true;
            self.report.submitted_at = at;
        }
        self.report = self.after(&events, at);
        self.told.send_replace(Some(Arc::new(self.report.clone())));
        Ok(())
    }

    /// Puts the submission on record by itself, where what comes next may take its time.
    pub(super) async fn store_submission(&mut self) -> Result<(), Closing> {
        if self.is_stored { Ok(()) } else { self.record(Vec::new()).await }
    }

    /// The report with these events added.
    fn after(&self, events: &[MessageEvent], at: Timestamp) -> MessageReport {
        let mut report = self.report.clone();
        for event in events {
            report.apply(report.version.next(), at, event);
        }
        report
    }
}

pub(super) fn row(report: &MessageReport, changed_at: Timestamp) -> Write {
    Write::Message(MessageRow {
        message: report.id,
        state: report.state,
        submitted_at: report.submitted_at,
        changed_at,
    })
}

fn excerpt(text: &str) -> String {
    const LETTERS: usize = 80;
    let mut short: String = text.chars().take(LETTERS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn choice(message: MessageId, app: Option<&str>) -> String {
    format!("{CHOOSE_WITH}`patchboard hub route {message} {}`", app.unwrap_or("APP"))
}
