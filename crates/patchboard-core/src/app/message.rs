//! One utterance on its way: what is recorded of it, and what the records add up to. Pure; the same fold serves the
//! living message, the restart and every question about it.

use std::sync::Arc;

use jiff::Timestamp;

use super::{InputMethod, NoticePriority};
use crate::id::{MessageId, Seq};

/// What a user said, as it was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Utterance {
    /// The user's own words.
    pub text: Arc<str>,
    pub input: InputMethod,
    /// How sure the speech recognition was, 0 to 1; voice only.
    pub confidence: Option<f32>,
    /// Meant for this app and no other: not routed, not re-routed.
    pub only_app: Option<Arc<str>>,
    pub principal: Arc<str>,
    /// The surface it came in by.
    pub surface: Arc<str>,
    pub expires_at: Timestamp,
}

/// One record of a message's log.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageEvent {
    Submitted(Arc<Utterance>),
    /// Where it is to go and why, or why nowhere.
    Decided(Arc<RoutingDecision>),
    /// Handed to the app, for the first time or again.
    Sent {
        app: Arc<str>,
    },
    Answered {
        app: Arc<str>,
        response: AppResponse,
    },
    /// No answer will come of this attempt.
    Failed {
        app: Arc<str>,
        failure: AttemptFailure,
    },
    /// It waits, and for what.
    Parked {
        state: ParkedState,
        reason: Arc<str>,
    },
    Ended {
        final_state: FinalState,
        reason: Arc<str>,
    },
    /// A person sent it again, to the app they named or to whoever fits. All apps may be tried anew.
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

/// What an app wants the user to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppNotice {
    /// As it is shown: the app's name stands in for a title it did not give.
    pub title: Arc<str>,
    pub body: Arc<str>,
    pub priority: NoticePriority,
    pub expects_reply: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptFailure {
    Timeout,
    Disconnected,
    /// The server stopped while the app had it, and the app has not come back since.
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
    /// Goes on by itself when an app registers or the model can be asked again.
    Queued,
    /// Nobody clearly fits, or the app it is addressed to refused it: a person decides, or an app that fits registers.
    Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalState {
    /// Everyone it could go to refused it.
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

    /// Nothing more happens to it by itself.
    pub fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Sent | Self::Held => false,
            Self::Delivered | Self::Refused | Self::Expired | Self::Cancelled => true,
        }
    }
}

/// How one message was routed once.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutingDecision {
    pub stage: RoutingStage,
    /// Who gets it; empty when it has to wait.
    pub apps: Vec<Arc<str>>,
    /// What they get, where that is not the whole text: the words without the name they were addressed by.
    pub text: Option<Arc<str>>,
    /// Why, in words for people.
    pub reason: Arc<str>,
    /// Who else was considered, best first.
    pub candidates: Vec<ScoredApp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ScoredApp {
    pub app: Arc<str>,
    pub score: f32,
    /// How likely it is meant, 0 to 1.
    pub confidence: f32,
    pub reasons: Vec<Arc<str>>,
}

/// Which part of the pipeline decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RoutingStage {
    /// The text begins with the app's name.
    Direct,
    /// The app asked a question a moment ago.
    FollowUp,
    Alias,
    Rule,
    /// The local matcher, by words and by what it learned.
    Matcher,
    /// The same with the help of an embedding model.
    Meaning,
    Model,
    /// Somebody else refused it, and of those left this one came closest. Only in records of earlier versions: today
    /// the next app has to fit as well as a first one.
    NextBest,
    CatchAll,
    /// A person said so, or whoever sent it named the app.
    Manual,
    /// Nobody was found.
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

    /// Did the user name the app in the text itself?
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
    /// Made before a person sent the message again: does not count any more.
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

/// Everything there is to know of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageReport {
    pub id: MessageId,
    pub utterance: Arc<Utterance>,
    pub submitted_at: Timestamp,
    /// When a person last sent it again; its time to find an app began anew then.
    pub reopened_at: Option<Timestamp>,
    pub state: MessageState,
    /// Why it is in that state.
    pub reason: Option<Arc<str>>,
    pub attempts: Vec<DeliveryAttempt>,
    pub notices: Vec<(Arc<str>, AppNotice)>,
    pub decisions: Vec<Arc<RoutingDecision>>,
    /// The one app it is for: whoever sent it, or a person since, said so.
    pub pinned_app: Option<Arc<str>>,
    /// The app whose name or alias the text begins with, once that is found out.
    pub addressed_app: Option<Arc<str>>,
    /// The user gave it up after an app had taken it.
    pub is_cancelled_after_delivery: bool,
    /// The last record that is part of this report.
    pub version: Seq,
}

/// Notices kept per message in memory, and what they may weigh together; the log has all of them.
const MAX_NOTICES: usize = 200;
const MAX_NOTICE_BYTES: usize = 1024 * 1024;
/// An app that goes away, or says nothing, this often with the same message is not given it again.
const MAX_UNANSWERED: usize = 3;
/// The reason of a held message ends with this and the command, in backticks, that sends it on.
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

    /// What all records of a topic add up to; `None` when they do not begin as a message does.
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
                // Whoever reports on it has taken it, said so or not; a refusal stands.
                if self.latest_attempt(app).is_some_and(|attempt| attempt.state != AttemptState::Rejected) {
                    self.mark_delivered(app);
                }
                let weight = |notice: &AppNotice| notice.title.len() + notice.body.len();
                let kept: usize = self.notices.iter().map(|(_, notice)| weight(notice)).sum();
                if self.notices.len() < MAX_NOTICES && kept + weight(notice) <= MAX_NOTICE_BYTES {
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
            MessageEvent::Parked { state: rest, reason } => {
                self.state = match rest {
                    ParkedState::Queued => MessageState::Queued,
                    ParkedState::Held => MessageState::Held,
                };
                self.reason = Some(reason.clone());
            }
            MessageEvent::Ended { final_state: end, reason } => {
                self.state = match end {
                    FinalState::Refused => MessageState::Refused,
                    FinalState::Expired => MessageState::Expired,
                    // What an app has taken cannot be taken back; that the user did not want it is kept.
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

    /// When it has had its time.
    pub fn expires_at(&self) -> Timestamp {
        let expiry = self.utterance.expires_at;
        let Some(reopened_at) = self.reopened_at else { return expiry };
        reopened_at.checked_add(expiry.duration_since(self.submitted_at)).unwrap_or(Timestamp::MAX)
    }

    /// What was said without the name of the app it was addressed to, where that was found out.
    pub fn stripped_text(&self) -> Option<&Arc<str>> {
        self.decisions.iter().rev().find(|decision| decision.stage.is_direct())?.text.as_ref()
    }

    /// The newest attempt with that app.
    pub fn latest_attempt(&self, app: &str) -> Option<&DeliveryAttempt> {
        self.attempts.iter().rev().find(|attempt| attempt.is_to_app(app))
    }

    /// Apps that have it and are still expected to answer.
    pub fn pending(&self) -> impl Iterator<Item = &DeliveryAttempt> {
        let is_expected = match self.state {
            MessageState::Queued | MessageState::Sent | MessageState::Delivered | MessageState::Held => true,
            MessageState::Refused | MessageState::Expired | MessageState::Cancelled => false,
        };
        let sent = |attempt: &&DeliveryAttempt| attempt.state == AttemptState::Sent && !attempt.is_superseded;
        self.attempts.iter().filter(move |attempt| is_expected && sent(attempt))
    }

    /// Is it of no use to send it to that app (again)? Whoever merely went away may have it when it is back.
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

    /// Why that app refused it, if it did.
    pub fn refusal_of(&self, app: &str) -> Option<&Arc<str>> {
        let refused = |attempt: &&DeliveryAttempt| attempt.state == AttemptState::Rejected && attempt.is_to_app(app);
        self.current_attempts().rev().find(refused)?.reason.as_ref()
    }

    /// Was that app given it so often without an answer that it is not given it again?
    pub fn is_unanswered_by(&self, app: &str) -> bool {
        let unanswered = |attempt: &&DeliveryAttempt| match attempt.state {
            AttemptState::TimedOut | AttemptState::Disconnected => attempt.is_to_app(app),
            AttemptState::Sent | AttemptState::Delivered | AttemptState::Rejected => false,
        };
        self.current_attempts().filter(unanswered).count() >= MAX_UNANSWERED
    }

    /// How many apps refused it.
    pub fn rejections(&self) -> usize {
        self.current_attempts().filter(|attempt| attempt.state == AttemptState::Rejected).count()
    }

    /// The attempts since it was last sent by a person.
    pub fn current_attempts(&self) -> impl DoubleEndedIterator<Item = &DeliveryAttempt> {
        self.attempts.iter().filter(|attempt| !attempt.is_superseded)
    }

    /// Who refused it since it was last sent by a person, and why.
    pub fn refusals(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let refused = self.current_attempts().filter(|attempt| match attempt.state {
            AttemptState::Rejected | AttemptState::TimedOut | AttemptState::Disconnected => true,
            AttemptState::Sent | AttemptState::Delivered => false,
        });
        refused.map(|attempt| (attempt.app.clone(), attempt.reason.clone().unwrap_or_else(|| "".into()))).collect()
    }

    /// An app has it, by its word or by its deeds.
    fn mark_delivered(&mut self, app: &str) {
        // What a person has sent to another app since is still on its way there.
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

    /// The state that follows from the attempts that count.
    fn derive_state(&mut self) {
        let has = |state| self.attempts.iter().any(|attempt| attempt.state == state && !attempt.is_superseded);
        self.state = if has(AttemptState::Delivered) {
            MessageState::Delivered
        } else if self.is_cancelled_after_delivery {
            // Nobody wants it any more: it goes to no other app.
            MessageState::Cancelled
        } else {
            match self.state {
                // Only an app that has it after all undoes an end.
                MessageState::Refused | MessageState::Expired | MessageState::Cancelled => return,
                MessageState::Queued | MessageState::Sent | MessageState::Delivered | MessageState::Held
                    if has(AttemptState::Sent) =>
                {
                    MessageState::Sent
                }
                // A late refusal changes nothing about what it waits for.
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
    /// Names are the same whatever the case of their letters: an app may come back spelling its own another way.
    fn is_to_app(&self, app: &str) -> bool {
        self.app.eq_ignore_ascii_case(app)
    }
}

#[cfg(test)]
mod tests;
