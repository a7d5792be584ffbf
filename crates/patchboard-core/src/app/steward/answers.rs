//! What apps and people say about a message, and what is learned from it.

use std::sync::Arc;

use super::{Closing, Work};
use crate::app::Notice;
use crate::app::hub::unknown_message;
use crate::app::matcher::{Strength, Verdict};
use crate::app::message::{AppNotice, Attempt, AttemptState, End, MessageEvent, MessageState, Response, Stage};
use crate::error::{BoardError, ErrorKind};
use crate::id::Seq;
use crate::reply::Reply;

/// Records of one message after which no notices are taken, and after which no answers at all. Far more than anybody
/// reads; an app that goes on is at fault.
const MAX_NOTICED: Seq = Seq(1000);
const MAX_ANSWERED: Seq = Seq(2000);

impl Work {
    /// Repeated answers change nothing and are not put on record again.
    pub(super) async fn answer(
        &mut self,
        app: &Arc<str>,
        response: Response,
    ) -> Result<Result<Reply, BoardError>, Closing> {
        let Some(attempt) = self.report.attempt(app) else { return Ok(Err(unknown_message())) };
        let (state, stage) = (attempt.state, attempt.stage);
        let is_news = match &response {
            Response::Ack => state != AttemptState::Delivered,
            Response::Reject { .. } => state != AttemptState::Rejected,
            Response::Notice(_) => true,
        };
        if !is_news {
            return Ok(Ok(Reply::Done));
        }
        let most = match &response {
            Response::Ack | Response::Reject { .. } => MAX_ANSWERED,
            Response::Notice(_) => MAX_NOTICED,
        };
        if self.report.version >= most {
            return Ok(Err(BoardError::new(ErrorKind::Exhausted, "too much was said about this message already")));
        }
        // Before anybody can have read the question, the answer to it is expected.
        if let Response::Notice(notice) = &response {
            self.hub.noticed(&self.report, app, notice);
        }
        self.record(vec![MessageEvent::Answered { app: app.clone(), response: response.clone() }]).await?;
        self.with.retain(|owing| !owing.is(app));
        match response {
            Response::Ack => self.taken_by(app, stage),
            Response::Reject { .. } => {
                self.hub.learn(self.text_for(app), app, Verdict::Wrong, Strength::Strong);
            }
            Response::Notice(notice) => {
                if state == AttemptState::Sent {
                    self.taken_by(app, stage);
                }
                self.notice(app, &notice);
            }
        }
        Ok(Ok(Reply::Done))
    }

    /// An app took it. How much that says depends on who chose the app: most apps acknowledge everything.
    fn taken_by(&self, app: &Arc<str>, stage: Stage) {
        let strength = match stage {
            Stage::Direct | Stage::Alias => Strength::Strong,
            // A person's choice, unless an agent called the app as a tool.
            Stage::Manual if self.report.utterance.only.is_none() => Strength::Strong,
            Stage::Manual | Stage::Rule | Stage::Matcher | Stage::Meaning | Stage::Model | Stage::NextBest => {
                Strength::Weak
            }
            // The words alone did not lead there.
            Stage::FollowUp | Stage::CatchAll | Stage::Nobody => return,
        };
        self.hub.learn(self.text_for(app), app, Verdict::Right, strength);
    }

    fn notice(&self, app: &Arc<str>, notice: &AppNotice) {
        self.hub.post(Notice {
            app: Some(app.clone()),
            title: notice.title.clone(),
            body: notice.body.clone(),
            priority: notice.priority,
            message: Some(self.message),
            at: self.hub.now(),
        });
    }

    /// The user gives it up, also after an app took it: then it teaches whom it was not for.
    pub(super) async fn cancel(&mut self, by: &str) -> Result<(), Closing> {
        let is_over = match self.report.state {
            MessageState::Queued | MessageState::Sent | MessageState::Held => false,
            MessageState::Delivered => self.report.is_disowned,
            MessageState::Refused | MessageState::Expired | MessageState::Cancelled => true,
        };
        if is_over {
            return Ok(());
        }
        self.with.clear();
        self.teach_given_up();
        let had: Vec<&str> = self.report.current().map(|attempt| &*attempt.app).collect();
        let had = had.join(" and ");
        let reason = if self.report.state == MessageState::Delivered {
            format!("given up by {by} after {had} took it")
        } else if had.is_empty() {
            format!("cancelled by {by}")
        } else {
            format!("cancelled by {by}; {had} had it")
        };
        self.end(End::Cancelled, reason).await
    }

    /// Where the user chose the app, that they changed their mind says nothing about the words.
    fn teach_given_up(&self) {
        let was_found = |attempt: &&Attempt| match attempt.stage {
            Stage::Matcher | Stage::Meaning | Stage::Model | Stage::NextBest => true,
            Stage::Direct
            | Stage::FollowUp
            | Stage::Alias
            | Stage::Rule
            | Stage::CatchAll
            | Stage::Manual
            | Stage::Nobody => false,
        };
        let had: Vec<Arc<str>> = self.report.current().filter(was_found).map(|attempt| attempt.app.clone()).collect();
        let was_asked = self.report.state == MessageState::Held && self.report.addressed.is_none();
        if self.report.pinned.is_none() && (was_asked || !had.is_empty()) {
            self.hub.learn_given_up(&self.report.utterance.text, &had);
        }
    }

    /// A person sends it again. Naming another app says that those who took it were the wrong ones.
    pub(super) async fn reopen(&mut self, app: Option<Arc<str>>, by: Arc<str>) -> Result<(), Closing> {
        if let Some(right) = &app {
            let wrong = self.report.attempts.iter().filter(|attempt| {
                attempt.state == AttemptState::Delivered && !attempt.is_past && !attempt.app.eq_ignore_ascii_case(right)
            });
            let wrong: Vec<Arc<str>> = wrong.map(|attempt| attempt.app.clone()).collect();
            for app in &wrong {
                self.hub.learn(self.text_for(app), app, Verdict::Wrong, Strength::Strong);
            }
        }
        self.with.clear();
        self.silent = None;
        self.retry_at = None;
        self.ask_from = None;
        self.asked.clear();
        self.model_failures = 0;
        self.record(vec![MessageEvent::Reopened { app, by }]).await
    }
}
