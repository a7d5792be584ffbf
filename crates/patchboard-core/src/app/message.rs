//! Event log of one utterance and the report derived from it. Pure: the same fold serves running message actors,
//! recovery and queries.

use std::sync::Arc;

use jiff::Timestamp;

use super::{InputMethod, NoticePriority};
use crate::id::{MessageId, Seq};

/// A user's utterance, as submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Utterance {
    /// The user's words, unchanged.
    pub text: Arc<str>,
    pub input: InputMethod,
    /// Confidence of the speech recognition, 0 to 1; voice only.
    pub confidence: Option<f32>,
    /// Only for this app: neither routed nor re-routed.
    pub only_app: Option<Arc<str>>,
    pub principal: Arc<str>,
    /// The surface it was submitted through.
    pub surface: Arc<str>,
    pub expires_at: Timestamp,
}

/// One record of a message's log.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageEvent {
    Submitted(Arc<Utterance>),
    /// A routing decision: the chosen apps or none, with the reason.
    Decided(Arc<RoutingDecision>),
    /// Delivered to the app, for the first time or again.
    Sent {
        app: Arc<str>,
    },
    Answered {
        app: Arc<str>,
        response: AppResponse,
    },
    /// The delivery attempt ended without a response.
    Failed {
        app: Arc<str>,
        failure: AttemptFailure,
    },
    /// The message waits; the state says for what.
    Parked {
        state: ParkedState,
        reason: Arc<str>,
    },
    Ended {
        final_state: FinalState,
        reason: Arc<str>,
    },
    /// A person sent it again, to a named app or through routing. Every app may be tried again.
    Reopened {
        app: Option<Arc<str>>,
        by: Arc<str>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum AppResponse {
    Ack,
    Reject { reason: Option<Arc<str>> },
    Notice(AppNotice),
}

/// A notice from an app to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppNotice {
    /// As displayed: the app's name if the app gave no title.
    pub title: Arc<str>,
    pub body: Arc<str>,
    pub priority: NoticePriority,
    pub expects_reply: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptFailure {
    Timeout,
    Disconnected,
    /// The server stopped while the delivery was pending, and the app has not reconnected since.
    Interrupted,
}

impl AttemptFailure {
    pub fn reason(self) -> &'static str {
        match self {
            Self::Timeout => "Response timeout",
            Self::Disconnected => "Client disconnected",
            Self::Interrupted => "Server restarted before an answer came",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParkedState {
    /// Continues by itself when an app registers or the model router can be called again.
    Queued,
    /// No app clearly fits, or the addressed app refused it: waits for a person's decision or for an app that fits to
    /// register.
    Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalState {
    /// Every app it could be sent to refused it.
    Refused,
    Expired,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageState {
    Queued,
    Sent,
    /// An app acknowledged it.
    Delivered,
    Held,
    Refused,
    Expired,
    Cancelled,
}

impl MessageState {
    pub const ALL: [Self; 7] =
        [Self::Queued, Self::Sent, Self::Delivered, Self::Held, Self::Refused, Self::Expired, Self::Cancelled];

    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Held => "held",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// No further change without a new request or a late response.
    pub fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Sent | Self::Held => false,
            Self::Delivered | Self::Refused | Self::Expired | Self::Cancelled => true,
        }
    }
}

/// The result of one routing pass.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutingDecision {
    pub stage: RoutingStage,
    /// The chosen apps; empty when the message has to wait.
    pub apps: Vec<Arc<str>>,
    /// The text to deliver if it differs from the utterance: without the name of the addressed app.
    pub text: Option<Arc<str>>,
    /// The reason, for people.
    pub reason: Arc<str>,
    /// Other apps that were considered, best first.
    pub candidates: Vec<ScoredApp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ScoredApp {
    pub app: Arc<str>,
    pub score: f32,
    /// The probability that it is meant, 0 to 1.
    pub confidence: f32,
    pub reasons: Vec<Arc<str>>,
}

/// The part of the pipeline that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RoutingStage {
    /// The text begins with the app's name.
    Direct,
    /// The app asked a question recently.
    FollowUp,
    Alias,
    Rule,
    /// The local matcher: words and training data.
    Matcher,
    /// The local matcher with embeddings.
    Meaning,
    Model,
    /// Another app refused it, and of the remaining ones this one scored highest. Only in records of earlier versions:
    /// now the next app must pass the same threshold as a first one.
    NextBest,
    CatchAll,
    /// A person named the app, when submitting or later.
    Manual,
    /// No app was found.
    Nobody,
}

impl RoutingStage {
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::FollowUp => "follow-up",
            Self::Alias => "alias",
            Self::Rule => "rule",
            Self::Matcher => "matcher",
            Self::Meaning => "meaning",
            Self::Model => "model",
            Self::NextBest => "next-best",
            Self::CatchAll => "catch-all",
            Self::Manual => "manual",
            Self::Nobody => "nobody",
        }
    }

    /// Whether the text itself names the app.
    pub fn is_direct(self) -> bool {
        matches!(self, Self::Direct | Self::Alias)
    }
}

/// One delivery to one app.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryAttempt {
    pub app: Arc<str>,
    pub state: AttemptState,
    pub reason: Option<Arc<str>>,
    pub sent_at: Timestamp,
    pub stage: RoutingStage,
    /// Made before a person sent the message again; no longer counts.
    pub is_superseded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptState {
    Sent,
    Delivered,
    Rejected,
    TimedOut,
    Disconnected,
}

impl AttemptState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Rejected => "rejected",
            Self::TimedOut => "timeout",
            Self::Disconnected => "disconnected",
        }
    }
}

/// The full state of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageReport {
    pub id: MessageId,
    pub utterance: Arc<Utterance>,
    pub submitted_at: Timestamp,
    /// When a person last sent it again; the expiry is counted from then.
    pub reopened_at: Option<Timestamp>,
    pub state: MessageState,
    /// The reason for the state.
    pub reason: Option<Arc<str>>,
    pub attempts: Vec<DeliveryAttempt>,
    pub notices: Vec<(Arc<str>, AppNotice)>,
    pub decisions: Vec<Arc<RoutingDecision>>,
    /// The only app it may go to, named by the sender or later by a person.
    pub pinned_app: Option<Arc<str>>,
    /// The app whose name or alias the text begins with, once routing has found that out.
    pub addressed_app: Option<Arc<str>>,
    /// The user cancelled it after an app had accepted it.
    pub is_cancelled_after_delivery: bool,
    /// The sequence number of the last record in this report.
    pub version: Seq,
}

/// Bounds of the notices held in memory per message, by number and by bytes; the log has all of them.
const MAX_NOTICES: usize = 200;
const MAX_NOTICE_BYTES: usize = 1024 * 1024;
/// Timeouts and disconnects after which an app is no longer sent the same message.
const MAX_UNANSWERED: usize = 3;
/// Ends the reason of a held message, before the command, in backticks, that sends it on.
pub const CHOOSE_HINT: &str = ". Choose with ";

impl MessageReport {
    pub fn new(id: MessageId, utterance: Arc<Utterance>, at: Timestamp) -> Self {
        Self {
            id,
            pinned_app: utterance.only_app.clone(),
            addressed_app: None,
            is_cancelled_after_delivery: false,
            utterance,
            submitted_at: at,
            reopened_at: None,
            state: MessageState::Queued,
            reason: None,
            attempts: Vec::new(),
            notices: Vec::new(),
            decisions: Vec::new(),
            version: Seq::FIRST,
        }
    }

    /// Builds a report from all records of a topic; `None` if the first record is no `Submitted`.
    pub fn replay<'a>(
        id: MessageId,
        records: impl IntoIterator<Item = (Seq, Timestamp, &'a MessageEvent)>,
    ) -> Option<Self> {
        let mut records = records.into_iter();
        let (_, at, MessageEvent::Submitted(utterance)) = records.next()? else { return None };
        let mut report = Self::new(id, utterance.clone(), at);
        for (seq, at, event) in records {
            report.apply(seq, at, event);
        }
        Some(report)
    }

    pub fn apply(&mut self, seq: Seq, at: Timestamp, event: &MessageEvent) {
        self.version = seq;
        match event {
            MessageEvent::Submitted(_) => {}
            MessageEvent::Decided(decision) => {
                if decision.stage.is_direct() {
                    self.addressed_app = decision.apps.first().cloned();
                }
                self.decisions.push(decision.clone());
            }
            MessageEvent::Sent { app } => {
                let stage = self.decisions.last().map_or(RoutingStage::Manual, |decision| decision.stage);
                self.attempts.push(DeliveryAttempt {
                    app: app.clone(),
                    state: AttemptState::Sent,
                    reason: None,
                    sent_at: at,
                    stage,
                    is_superseded: false,
                });
                self.derive_state();
            }
            MessageEvent::Answered { app, response: AppResponse::Ack } => self.mark_delivered(app),
            MessageEvent::Answered { app, response: AppResponse::Reject { reason } } => {
                let reason = reason.clone().unwrap_or_else(|| "No reason provided".into());
                self.set_attempt_state(app, AttemptState::Rejected, Some(reason));
            }
            MessageEvent::Answered { app, response: AppResponse::Notice(notice) } => {
                // A notice implies acceptance, acknowledged or not; a refusal stands.
                if self.latest_attempt(app).is_some_and(|attempt| attempt.state != AttemptState::Rejected) {
                    self.mark_delivered(app);
                }
                let weight = |notice: &AppNotice| notice.title.len() + notice.body.len();
                let total: usize = self.notices.iter().map(|(_, notice)| weight(notice)).sum();
                if self.notices.len() < MAX_NOTICES && total + weight(notice) <= MAX_NOTICE_BYTES {
                    self.notices.push((app.clone(), notice.clone()));
                }
            }
            MessageEvent::Failed { app, failure } => {
                let state = match failure {
                    AttemptFailure::Timeout => AttemptState::TimedOut,
                    AttemptFailure::Disconnected | AttemptFailure::Interrupted => AttemptState::Disconnected,
                };
                self.set_attempt_state(app, state, Some(failure.reason().into()));
            }
            MessageEvent::Parked { state: parked, reason } => {
                self.state = match parked {
                    ParkedState::Queued => MessageState::Queued,
                    ParkedState::Held => MessageState::Held,
                };
                self.reason = Some(reason.clone());
            }
            MessageEvent::Ended { final_state, reason } => {
                self.state = match final_state {
                    FinalState::Refused => MessageState::Refused,
                    FinalState::Expired => MessageState::Expired,
                    // An app's acceptance cannot be undone; the cancellation is recorded beside it.
                    FinalState::Cancelled if self.state == MessageState::Delivered => {
                        self.is_cancelled_after_delivery = true;
                        MessageState::Delivered
                    }
                    FinalState::Cancelled => MessageState::Cancelled,
                };
                self.reason = Some(reason.clone());
            }
            MessageEvent::Reopened { app, .. } => {
                self.pinned_app = app.clone().or_else(|| self.utterance.only_app.clone());
                self.addressed_app = None;
                self.is_cancelled_after_delivery = false;
                self.reopened_at = Some(at);
                for attempt in &mut self.attempts {
                    attempt.is_superseded = true;
                }
                self.state = MessageState::Queued;
                self.reason = None;
            }
        }
    }

    /// When the message expires.
    pub fn expires_at(&self) -> Timestamp {
        let expiry = self.utterance.expires_at;
        let Some(reopened_at) = self.reopened_at else { return expiry };
        reopened_at.checked_add(expiry.duration_since(self.submitted_at)).unwrap_or(Timestamp::MAX)
    }

    /// The text without the name of the addressed app, if routing found such a name.
    pub fn stripped_text(&self) -> Option<&Arc<str>> {
        self.decisions.iter().rev().find(|decision| decision.stage.is_direct())?.text.as_ref()
    }

    /// The newest attempt to deliver to that app.
    pub fn latest_attempt(&self, app: &str) -> Option<&DeliveryAttempt> {
        self.attempts.iter().rev().find(|attempt| attempt.is_to_app(app))
    }

    /// Attempts whose response is still expected.
    pub fn pending(&self) -> impl Iterator<Item = &DeliveryAttempt> {
        let is_expected = match self.state {
            MessageState::Queued | MessageState::Sent | MessageState::Delivered | MessageState::Held => true,
            MessageState::Refused | MessageState::Expired | MessageState::Cancelled => false,
        };
        let sent = |attempt: &&DeliveryAttempt| attempt.state == AttemptState::Sent && !attempt.is_superseded;
        self.attempts.iter().filter(move |attempt| is_expected && sent(attempt))
    }

    /// Whether sending it to that app (again) is useless. An app that merely disconnected may have it when it is back.
    pub fn has_tried(&self, app: &str) -> bool {
        let mut disconnects = 0;
        self.attempts.iter().filter(|attempt| !attempt.is_superseded && attempt.is_to_app(app)).any(|attempt| {
            match attempt.state {
                AttemptState::Sent | AttemptState::Delivered | AttemptState::Rejected | AttemptState::TimedOut => true,
                AttemptState::Disconnected => {
                    disconnects += 1;
                    disconnects >= MAX_UNANSWERED
                }
            }
        })
    }

    /// The reason of that app's refusal, if it refused.
    pub fn refusal_of(&self, app: &str) -> Option<&Arc<str>> {
        let refused = |attempt: &&DeliveryAttempt| attempt.state == AttemptState::Rejected && attempt.is_to_app(app);
        self.current_attempts().rev().find(refused)?.reason.as_ref()
    }

    /// Whether attempts with that app ended without a response so often that it is not sent the message again.
    pub fn is_unanswered_by(&self, app: &str) -> bool {
        let unanswered = |attempt: &&DeliveryAttempt| match attempt.state {
            AttemptState::TimedOut | AttemptState::Disconnected => attempt.is_to_app(app),
            AttemptState::Sent | AttemptState::Delivered | AttemptState::Rejected => false,
        };
        self.current_attempts().filter(unanswered).count() >= MAX_UNANSWERED
    }

    /// Number of apps that refused it.
    pub fn rejections(&self) -> usize {
        self.current_attempts().filter(|attempt| attempt.state == AttemptState::Rejected).count()
    }

    /// The attempts since a person last sent it.
    pub fn current_attempts(&self) -> impl DoubleEndedIterator<Item = &DeliveryAttempt> {
        self.attempts.iter().filter(|attempt| !attempt.is_superseded)
    }

    /// The apps that refused or failed since a person last sent it, with reasons.
    pub fn refusals(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let refused = self.current_attempts().filter(|attempt| match attempt.state {
            AttemptState::Rejected | AttemptState::TimedOut | AttemptState::Disconnected => true,
            AttemptState::Sent | AttemptState::Delivered => false,
        });
        refused.map(|attempt| (attempt.app.clone(), attempt.reason.clone().unwrap_or_else(|| "".into()))).collect()
    }

    /// An app accepted it, by an acknowledgement or by a notice.
    fn mark_delivered(&mut self, app: &str) {
        // A message that a person has since sent to another app is still pending there.
        let is_elsewhere = self.pinned_app.as_ref().is_some_and(|pinned| !pinned.eq_ignore_ascii_case(app));
        if let Some(attempt) = self.attempts.iter_mut().rev().find(|attempt| attempt.is_to_app(app))
            && attempt.state != AttemptState::Delivered
            && !is_elsewhere
        {
            attempt.is_superseded = false;
        }
        self.set_attempt_state(app, AttemptState::Delivered, None);
    }

    fn set_attempt_state(&mut self, app: &str, state: AttemptState, reason: Option<Arc<str>>) {
        let Some(attempt) = self.attempts.iter_mut().rev().find(|attempt| attempt.is_to_app(app)) else { return };
        attempt.state = state;
        attempt.reason = reason;
        if !attempt.is_superseded {
            self.derive_state();
        }
    }

    /// Recomputes the state from the attempts that count.
    fn derive_state(&mut self) {
        let has = |state| self.attempts.iter().any(|attempt| attempt.state == state && !attempt.is_superseded);
        self.state = if has(AttemptState::Delivered) {
            MessageState::Delivered
        } else if self.is_cancelled_after_delivery {
            // The user cancelled it: it goes to no other app.
            MessageState::Cancelled
        } else {
            match self.state {
                // Only a late acceptance undoes a final state.
                MessageState::Refused | MessageState::Expired | MessageState::Cancelled => return,
                MessageState::Queued | MessageState::Sent | MessageState::Delivered | MessageState::Held
                    if has(AttemptState::Sent) =>
                {
                    MessageState::Sent
                }
                // A late refusal does not change what it waits for.
                MessageState::Queued | MessageState::Held => return,
                MessageState::Sent | MessageState::Delivered => MessageState::Queued,
            }
        };
        if !self.is_cancelled_after_delivery {
            self.reason = None;
        }
    }
}

impl DeliveryAttempt {
    /// Names are compared without case: an app may reconnect with another spelling.
    fn is_to_app(&self, app: &str) -> bool {
        self.app.eq_ignore_ascii_case(app)
    }
}

#[cfg(test)]
mod tests;
