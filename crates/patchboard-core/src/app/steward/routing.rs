//! Whom the message goes to next, and what they are given.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Closing, Input, MAILBOX, Work};
use crate::app::Delivery;
use crate::app::hub::{Routed, View};
use crate::app::message::{AttemptState, Decision, End, MessageEvent, MessageState, Rest, Scored, Stage};
use crate::app::route::direct;
use crate::error::BoardError;

/// Pauses between tries to ask a model that cannot be reached; the last one repeats.
const MODEL_PAUSES: [Duration; 4] =
    [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(300)];
/// A message that so many apps refused is most likely for none of them: it goes to no other by itself.
const MAX_REJECTIONS: usize = 3;
/// Apps remembered as asked about; with more, the models are asked again.
const MAX_ASKED: usize = 1000;

impl Work {
    /// Whatever can be done now: nobody has the message, and it is not over.
    pub(super) async fn advance(&mut self) -> Result<(), Closing> {
        while !self.report.state.is_final() && self.with.is_empty() {
            if self.left().is_zero() {
                return self.end(End::Expired, "nobody took it in time".to_owned()).await;
            }
            if self.retry_at.is_some() {
                return Ok(());
            }
            let before = self.report.version;
            self.step().await?;
            // Nothing happened that could lead on.
            if self.report.version == before || self.is_resting() {
                return Ok(());
            }
        }
        Ok(())
    }

    pub(super) fn is_resting(&self) -> bool {
        match self.report.state {
            MessageState::Held => true,
            MessageState::Queued => self.report.reason.is_some(),
            MessageState::Sent
            | MessageState::Delivered
            | MessageState::Refused
            | MessageState::Expired
            | MessageState::Cancelled => false,
        }
    }

    async fn step(&mut self) -> Result<(), Closing> {
        if let Some(app) = self.meant_for() {
            return self.bring_to(&app).await;
        }
        let view = self.hub.view(&self.report);
        let text = self.report.utterance.text.clone();
        let routed = match self.hub.route_here(&text, &self.report, &view) {
            _ if self.report.rejections() >= MAX_REJECTIONS => self.hub.last_resort(&self.report, &view, Vec::new()),
            Ok(routed) => routed,
            Err(closest) if self.hub.can_ask(&view) && !self.has_asked(&view) => {
                if let Some(from) = self.ask_from.filter(|from| *from > Instant::now()) {
                    self.retry_at = Some(from);
                    return Ok(());
                }
                self.store_submission().await?;
                self.tell_taken();
                let Some(routed) = self.ask_around(&view, closest).await? else { return Ok(()) };
                routed
            }
            Err(closest) => self.hub.last_resort(&self.report, &view, closest),
        };
        match routed {
            Routed::To(decision) => self.send(decision).await,
            Routed::WaitFor(app, decision) => {
                let reason = format!("waiting for {app}, which is not connected");
                self.rest(Rest::Queued, reason, decision).await
            }
            Routed::Nobody(decision) => self.nobody(decision, &view).await,
            Routed::NoModel(error) => self.no_model(&error).await,
        }
    }

    /// Have the models said already that none of these fits?
    fn has_asked(&self, view: &View) -> bool {
        view.open.iter().all(|profile| self.asked.contains(profile))
    }

    /// Asks the models, while letters keep coming. `None`: a letter made the question pointless.
    async fn ask_around(&mut self, view: &View, closest: Vec<Scored>) -> Result<Option<Routed>, Closing> {
        let stop = CancellationToken::new();
        let hub = self.hub.clone();
        let report = self.report.clone();
        let asking = hub.route_on(&report, view, closest, &stop);
        tokio::pin!(asking);
        let mut pointless = false;
        let routed = loop {
            tokio::select! {
                biased;
                () = self.hub.closing().cancelled() => {
                    stop.cancel();
                    // What the call has cost so far is still to be settled.
                    asking.await;
                    return Err(Closing);
                }
                routed = &mut asking => break routed,
                // What does not fit any more waits in the mailbox.
                letter = self.letters.recv(), if !pointless && self.unread.len() < MAILBOX => {
                    let mut letter = letter.ok_or(Closing)?;
                    // Nobody who waits shall wait for a model.
                    if let Input::Joined { heard, .. } = &mut letter {
                        *heard = None;
                    }
                    pointless = match &letter {
                        Input::Cancel { .. } | Input::Resend { .. } | Input::Answer { .. } => true,
                        Input::Joined { .. } | Input::Left { .. } => false,
                    };
                    if pointless {
                        // Before whoever came meanwhile, or the same would be asked again for nothing.
                        self.unread.push_front(letter);
                        stop.cancel();
                    } else {
                        self.unread.push_back(letter);
                    }
                }
            }
        };
        if pointless {
            return Ok(None);
        }
        if !matches!(routed, Routed::NoModel(_)) {
            self.model_failures = 0;
            self.ask_from = None;
            if self.asked.len() + view.open.len() > MAX_ASKED {
                self.asked.clear();
            }
            self.asked.extend(view.open.iter().cloned());
        }
        Ok(Some(routed))
    }

    async fn no_model(&mut self, error: &BoardError) -> Result<(), Closing> {
        let pause = MODEL_PAUSES.get(self.model_failures.min(MODEL_PAUSES.len() - 1)).copied().unwrap_or_default();
        self.model_failures += 1;
        self.ask_from = Some(Instant::now() + pause);
        self.retry_at = self.ask_from;
        if self.report.state == MessageState::Held {
            // A person has been asked already.
            return Ok(());
        }
        let reason = format!("the model that routes cannot be asked: {error}");
        let decision = nowhere(&reason);
        self.rest(Rest::Queued, reason, decision).await
    }

    /// The one app it is for, if there is only one.
    fn meant_for(&self) -> Option<Arc<str>> {
        if let Some(app) = &self.report.pinned {
            return Some(app.clone());
        }
        self.report.addressed.clone().filter(|_| !self.hub.options().reroute_direct)
    }

    async fn bring_to(&mut self, app: &Arc<str>) -> Result<(), Closing> {
        let connection = self.hub.connection_of(app);
        let decision = self.chosen(app);
        if self.is_only(app) {
            // Whoever called the app as a tool is told that it is not there, and does not expect it to act later.
            if connection.is_some() && !self.report.has_tried(app) {
                return self.send(decision).await;
            }
            let refusals = self.refusals();
            let reason = if refusals.is_empty() { format!("{app} is not connected") } else { refusals };
            return self.end(End::Refused, reason).await;
        }
        if let Some(why) = self.report.refusal_of(app) {
            let reason = format!("{app} refused it: {why}");
            return self.hold(reason).await;
        }
        if self.report.is_unanswered_by(app) {
            let reason = format!("{app} was given it several times and never answered");
            return self.hold(reason).await;
        }
        match connection {
            Some(connection) if self.silent != Some(connection) => self.send(decision).await,
            // It may still answer; what it does not answer it may still be busy with, so it is not given it twice.
            Some(_) => {
                let reason = format!("{app} did not answer in time; waiting for its answer, or for it to come back");
                self.rest(Rest::Queued, reason, decision).await
            }
            None => {
                let reason = format!("waiting for {app}, which is not connected");
                self.rest(Rest::Queued, reason, decision).await
            }
        }
    }

    /// Nobody gets it until a person decides.
    async fn hold(&mut self, reason: String) -> Result<(), Closing> {
        let decision = nowhere(&reason);
        self.rest(Rest::Held, reason, decision).await
    }

    /// Why the one app it is for gets it.
    fn chosen(&self, app: &Arc<str>) -> Decision {
        let addressed = self.report.decisions.iter().rev().find(|decision| decision.stage.is_direct());
        match addressed {
            Some(decision) if self.report.pinned.is_none() => (**decision).clone(),
            Some(_) | None => self.manual(app),
        }
    }

    /// Was it for that app from the beginning, and for no other?
    fn is_only(&self, app: &str) -> bool {
        self.report.utterance.only.as_ref().is_some_and(|only| only.eq_ignore_ascii_case(app))
    }

    fn manual(&self, app: &Arc<str>) -> Decision {
        let is_tool_call = self.is_only(app);
        let addressed = direct::split(&self.report.utterance.text).filter(|(name, _)| app.eq_ignore_ascii_case(name));
        // A tool's text is the text; a person's may begin with a name.
        let text = match addressed {
            _ if is_tool_call => None,
            Some((_, rest)) => Some(rest.into()),
            None => self.report.words().cloned(),
        };
        let reason = if is_tool_call { format!("sent to {app} alone") } else { format!("a person chose {app}") };
        Decision { stage: Stage::Manual, apps: vec![app.clone()], text, reason: reason.into(), candidates: Vec::new() }
    }

    /// Nobody fits, or nobody is left.
    async fn nobody(&mut self, decision: Decision, view: &View) -> Result<(), Closing> {
        let refusals = self.refusals();
        if !view.open.is_empty() || self.report.state == MessageState::Held {
            let reason = match refusals.is_empty() {
                true => decision.reason.to_string(),
                false => format!("{refusals}; no other app clearly fits"),
            };
            return self.rest(Rest::Held, reason, decision).await;
        }
        let away = self.report.attempts.iter().rev().find(|attempt| {
            !attempt.is_past && attempt.state == AttemptState::Disconnected && !self.report.has_tried(&attempt.app)
        });
        if let Some(away) = away {
            let reason = format!("waiting for {} to come back", away.app);
            return self.rest(Rest::Queued, reason, decision).await;
        }
        if refusals.is_empty() {
            return self.rest(Rest::Queued, "no app is connected".to_owned(), decision).await;
        }
        if let Some(until) = self.patience.filter(|until| *until > Instant::now()) {
            self.retry_at = Some(until);
            return self.rest(Rest::Queued, "waiting for apps to come back".to_owned(), decision).await;
        }
        self.end(End::Refused, refusals).await
    }

    fn refusals(&self) -> String {
        let refusals = self.report.refusals();
        refusals.iter().map(|(app, reason)| format!("{app}: {reason}")).collect::<Vec<_>>().join("; ")
    }

    async fn send(&mut self, decision: Decision) -> Result<(), Closing> {
        let apps = decision.apps.clone();
        let stage = decision.stage;
        self.asked.clear();
        let mut events = vec![MessageEvent::Decided(Arc::new(decision))];
        events.extend(apps.iter().map(|app| MessageEvent::Sent { app: app.clone() }));
        self.record(events).await?;
        crate::telemetry::message_routed(stage.name());
        if stage == Stage::FollowUp {
            self.hub.followed_up(&self.report);
        }
        for app in &apps {
            self.hand_over(app).await?;
        }
        Ok(())
    }

    pub(super) fn delivery(&self, app: &Arc<str>) -> Delivery {
        let utterance = &self.report.utterance;
        let decision = self.decision_for(app);
        let stage = decision.map_or(Stage::Manual, |decision| decision.stage);
        let explains = match stage {
            Stage::Direct | Stage::Alias => false,
            Stage::FollowUp
            | Stage::Rule
            | Stage::Matcher
            | Stage::Meaning
            | Stage::Model
            | Stage::NextBest
            | Stage::CatchAll
            | Stage::Manual
            | Stage::Nobody => true,
        };
        Delivery {
            message: self.message,
            text: self.text_for(app),
            at: self.hub.now(),
            input: utterance.input,
            confidence: utterance.confidence,
            is_direct: stage.is_direct(),
            routing_reason: decision.filter(|_| explains).map(|decision| decision.reason.clone()),
        }
    }

    fn decision_for(&self, app: &str) -> Option<&Arc<Decision>> {
        let names = |decision: &&Arc<Decision>| decision.apps.iter().any(|chosen| chosen.eq_ignore_ascii_case(app));
        self.report.decisions.iter().rev().find(names)
    }

    /// What that app is given to read.
    pub(super) fn text_for(&self, app: &str) -> Arc<str> {
        let stripped = self.decision_for(app).and_then(|decision| decision.text.clone());
        stripped.unwrap_or_else(|| self.report.utterance.text.clone())
    }
}

fn nowhere(reason: &str) -> Decision {
    let reason = reason.into();
    Decision { stage: Stage::Nobody, apps: Vec::new(), text: None, reason, candidates: Vec::new() }
}
