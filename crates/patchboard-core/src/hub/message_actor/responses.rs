//! Responses of apps and requests of the user about a message, and the training labels that follow from them.

use std::sync::Arc;

use super::{ActorSuspended, MessageActor};
use crate::app::UserNotice;
use crate::app::message::{
    AppNotice, AppResponse, AttemptState, DeliveryAttempt, FinalState, MessageEvent, MessageState, RoutingStage,
};
use crate::error::{BoardError, ErrorKind};
use crate::hub::unknown_message;
use crate::id::Seq;
use patchboard_matcher::{LabelPolarity, LabelStrength};

/// Record count of one message past which notices, and then all responses, are refused. Far more than is ever read; an
/// app that exceeds it is faulty.
const MAX_RECORDS_FOR_NOTICES: Seq = Seq(1000);
const MAX_RECORDS_FOR_RESPONSES: Seq = Seq(2000);

impl MessageActor {
    /// A repeated response changes nothing and is not recorded again.
    pub(super) async fn on_response(
        &mut self,
        app: &Arc<str>,
        response: AppResponse,
    ) -> Result<Result<(), BoardError>, ActorSuspended> {
        let Some(attempt) = self.report.latest_attempt(app) else { return Ok(Err(unknown_message())) };
        let (state, stage) = (attempt.state, attempt.stage);
        let is_new = match &response {
            AppResponse::Ack => state != AttemptState::Delivered,
            AppResponse::Reject { .. } => state != AttemptState::Rejected,
            AppResponse::Notice(_) => true,
        };
        if !is_new {
            return Ok(Ok(()));
        }
        let max_records = match &response {
            AppResponse::Ack | AppResponse::Reject { .. } => MAX_RECORDS_FOR_RESPONSES,
            AppResponse::Notice(_) => MAX_RECORDS_FOR_NOTICES,
        };
        if self.report.version >= max_records {
            return Ok(Err(BoardError::new(ErrorKind::Exhausted, "too much was said about this message already")));
        }
        // Before the record is visible, so that the window is open before the user can have read the question.
        if let AppResponse::Notice(notice) = &response {
            self.hub.track_follow_up(&self.report, app, notice);
        }
        self.record(vec![MessageEvent::Answered { app: app.clone(), response: response.clone() }]).await?;
        self.pending_responses.retain(|pending| !pending.is_from(app));
        match response {
            AppResponse::Ack => self.learn_accepted(app, stage),
            AppResponse::Reject { .. } => {
                self.hub.learn(self.text_for(app), app, LabelPolarity::Negative, LabelStrength::Strong);
            }
            AppResponse::Notice(notice) => {
                if state == AttemptState::Sent {
                    self.learn_accepted(app, stage);
                }
                self.post_app_notice(app, &notice);
            }
        }
        Ok(Ok(()))
    }

    /// Learns that an app accepted the message. The weight depends on what chose the app: most apps acknowledge
    /// everything.
    fn learn_accepted(&self, app: &Arc<str>, stage: RoutingStage) {
        let strength = match stage {
            RoutingStage::Direct | RoutingStage::Alias => LabelStrength::Strong,
            // A person's choice, unless an agent called the app as a tool.
            RoutingStage::Manual if self.report.utterance.only_app.is_none() => LabelStrength::Strong,
            RoutingStage::Manual
            | RoutingStage::Rule
            | RoutingStage::Matcher
            | RoutingStage::Meaning
            | RoutingStage::Model
            | RoutingStage::NextBest => LabelStrength::Weak,
            // Not chosen by the words of the text.
            RoutingStage::FollowUp | RoutingStage::CatchAll | RoutingStage::Nobody => return,
        };
        self.hub.learn(self.text_for(app), app, LabelPolarity::Positive, strength);
    }

    fn post_app_notice(&self, app: &Arc<str>, notice: &AppNotice) {
        self.hub.post_notice(UserNotice {
            app: Some(app.clone()),
            title: notice.title.clone(),
            body: notice.body.clone(),
            priority: notice.priority,
            message: Some(self.message),
            at: self.hub.now(),
        });
    }

    /// Cancels the message, also after an app took it: then it is a negative example for that app.
    pub(super) async fn cancel(&mut self, by: &str) -> Result<(), ActorSuspended> {
        let is_over = match self.report.state {
            MessageState::Queued | MessageState::Sent | MessageState::Held => false,
            MessageState::Delivered => self.report.is_cancelled_after_delivery,
            MessageState::Refused | MessageState::Expired | MessageState::Cancelled => true,
        };
        if is_over {
            return Ok(());
        }
        self.pending_responses.clear();
        self.learn_cancelled();
        let apps: Vec<&str> = self.report.current_attempts().map(|attempt| &*attempt.app).collect();
        let apps = apps.join(" and ");
        let reason = if self.report.state == MessageState::Delivered {
            format!("given up by {by} after {apps} took it")
        } else if apps.is_empty() {
            format!("cancelled by {by}")
        } else {
            format!("cancelled by {by}; {apps} had it")
        };
        self.end(FinalState::Cancelled, reason).await
    }

    /// Where the user chose the app, a cancellation says nothing about the words.
    fn learn_cancelled(&self) {
        let was_matched = |attempt: &&DeliveryAttempt| match attempt.stage {
            RoutingStage::Matcher | RoutingStage::Meaning | RoutingStage::Model | RoutingStage::NextBest => true,
            RoutingStage::Direct
            | RoutingStage::FollowUp
            | RoutingStage::Alias
            | RoutingStage::Rule
            | RoutingStage::CatchAll
            | RoutingStage::Manual
            | RoutingStage::Nobody => false,
        };
        let apps: Vec<Arc<str>> =
            self.report.current_attempts().filter(was_matched).map(|attempt| attempt.app.clone()).collect();
        let was_asked = self.report.state == MessageState::Held && self.report.addressed_app.is_none();
        if self.report.pinned_app.is_none() && (was_asked || !apps.is_empty()) {
            self.hub.learn_cancelled(&self.report.utterance.text, &apps);
        }
    }

    /// Sends the message again on a person's request. Naming another app marks those that took it as wrong.
    pub(super) async fn reopen(&mut self, app: Option<Arc<str>>, by: Arc<str>) -> Result<(), ActorSuspended> {
        if let Some(correct_app) = &app {
            let wrong_attempts = self.report.attempts.iter().filter(|attempt| {
                attempt.state == AttemptState::Delivered
                    && !attempt.is_superseded
                    && !attempt.app.eq_ignore_ascii_case(correct_app)
            });
            let wrong_apps: Vec<Arc<str>> = wrong_attempts.map(|attempt| attempt.app.clone()).collect();
            for app in &wrong_apps {
                self.hub.learn(self.text_for(app), app, LabelPolarity::Negative, LabelStrength::Strong);
            }
        }
        self.pending_responses.clear();
        self.silent_connection = None;
        self.retry_at = None;
        self.models_allowed_at = None;
        self.unmatched_apps.clear();
        self.model_backoff.reset();
        self.record(vec![MessageEvent::Reopened { app, by }]).await
    }
}
