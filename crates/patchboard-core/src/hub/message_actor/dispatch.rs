//! Chooses the next recipients of a message and builds their deliveries.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{ActorInput, ActorSuspended, MAILBOX_CAPACITY, MessageActor};
use crate::app::AppDelivery;
use crate::app::message::{
    AttemptState, FinalState, MessageEvent, MessageState, ParkedState, RoutingDecision, RoutingStage, ScoredApp,
};
use crate::backoff::BackoffSchedule;
use crate::error::BoardError;
use crate::hub::routing::direct;

use crate::hub::{RoutingContext, RoutingOutcome};

/// Pauses between tries to ask a model that cannot be reached; the last one repeats.
pub(super) const MODEL_PAUSES: BackoffSchedule = BackoffSchedule::listed(&[
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(300),
]);
/// A message that so many apps refused is most likely for none of them: it goes to no other by itself.
const MAX_REJECTIONS: usize = 3;
/// Apps remembered as unmatched by the models; past it the list is cleared and the models are asked again.
const MAX_UNMATCHED_APPS: usize = 1000;

impl MessageActor {
    /// Routes until the message is sent, parked or ended; does nothing while a response is pending.
    pub(super) async fn advance(&mut self) -> Result<(), ActorSuspended> {
        while !self.report.state.is_final() && self.pending_responses.is_empty() {
            if self.time_to_expiry().is_zero() {
                return self.end(FinalState::Expired, "nobody took it in time".to_owned()).await;
            }
            if self.retry_at.is_some() {
                return Ok(());
            }
            let before = self.report.version;
            self.route_once().await?;
            // No progress was made.
            if self.report.version == before || self.is_parked() {
                return Ok(());
            }
        }
        Ok(())
    }

    pub(super) fn is_parked(&self) -> bool {
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

    async fn route_once(&mut self) -> Result<(), ActorSuspended> {
        if let Some(app) = self.required_app() {
            return self.deliver_to_required(&app).await;
        }
        let context = self.hub.routing_context(&self.report);
        let text = self.report.utterance.text.clone();
        let outcome = match self.hub.route_locally(&text, &self.report, &context) {
            _ if self.report.rejections() >= MAX_REJECTIONS => self.hub.fallback(&self.report, &context, Vec::new()),
            Ok(outcome) => outcome,
            Err(closest) if self.hub.can_ask_models(&context) && !self.has_asked_models(&context) => {
                if let Some(from) = self.models_allowed_at.filter(|from| *from > Instant::now()) {
                    self.retry_at = Some(from);
                    return Ok(());
                }
                self.store_submission().await?;
                self.reply_to_waiters();
                let Some(outcome) = self.ask_models(&context, closest).await? else { return Ok(()) };
                outcome
            }
            Err(closest) => self.hub.fallback(&self.report, &context, closest),
        };
        match outcome {
            RoutingOutcome::Deliver(decision) => self.send(decision).await,
            RoutingOutcome::WaitFor(app, decision) => {
                let reason = format!("waiting for {app}, which is not connected");
                self.park(ParkedState::Queued, reason, decision).await
            }
            RoutingOutcome::NoMatch(decision) => self.park_unmatched(decision, &context).await,
            RoutingOutcome::ModelUnavailable(error) => self.back_off_models(&error).await,
        }
    }

    /// Whether the models have already matched none of these apps.
    fn has_asked_models(&self, context: &RoutingContext) -> bool {
        context.untried.iter().all(|profile| self.unmatched_apps.contains(profile))
    }

    /// Asks the models while inputs keep arriving. `None`: an input made the question pointless.
    async fn ask_models(
        &mut self,
        context: &RoutingContext,
        closest: Vec<ScoredApp>,
    ) -> Result<Option<RoutingOutcome>, ActorSuspended> {
        let stop = CancellationToken::new();
        let hub = self.hub.clone();
        let report = self.report.clone();
        let routing = hub.route_with_models(&report, context, closest, &stop);
        tokio::pin!(routing);
        let mut is_superseded = false;
        let outcome = loop {
            tokio::select! {
                biased;
                () = self.hub.shutdown().cancelled() => {
                    stop.cancel();
                    // Wait for the call to end, so that its cost is settled.
                    routing.await;
                    return Err(ActorSuspended);
                }
                outcome = &mut routing => break outcome,
                // Past the capacity, inputs stay in the mailbox.
                input = self.mailbox.recv(), if !is_superseded && self.deferred_inputs.len() < MAILBOX_CAPACITY => {
                    let mut input = input.ok_or(ActorSuspended)?;
                    // The registration must not wait for a model call.
                    if let ActorInput::AppJoined { ack, .. } = &mut input {
                        *ack = None;
                    }
                    is_superseded = match &input {
                        ActorInput::Cancel { .. } | ActorInput::Resend { .. } | ActorInput::Response { .. } => true,
                        ActorInput::AppJoined { .. } | ActorInput::AppLeft { .. } => false,
                    };
                    if is_superseded {
                        // Ahead of the inputs deferred meanwhile, or the models would be asked the same question again.
                        self.deferred_inputs.push_front(input);
                        stop.cancel();
                    } else {
                        self.deferred_inputs.push_back(input);
                    }
                }
            }
        };
        if is_superseded {
            return Ok(None);
        }
        if !matches!(outcome, RoutingOutcome::ModelUnavailable(_)) {
            self.model_backoff.reset();
            self.models_allowed_at = None;
            if self.unmatched_apps.len() + context.untried.len() > MAX_UNMATCHED_APPS {
                self.unmatched_apps.clear();
            }
            self.unmatched_apps.extend(context.untried.iter().cloned());
        }
        Ok(Some(outcome))
    }

    async fn back_off_models(&mut self, error: &BoardError) -> Result<(), ActorSuspended> {
        self.models_allowed_at = Some(Instant::now() + self.model_backoff.next_delay());
        self.retry_at = self.models_allowed_at;
        if self.report.state == MessageState::Held {
            // The user has already been asked to choose.
            return Ok(());
        }
        let reason = format!("the model that routes cannot be asked: {error}");
        let decision = no_recipient(&reason);
        self.park(ParkedState::Queued, reason, decision).await
    }

    /// The app that the message is restricted to, if any.
    fn required_app(&self) -> Option<Arc<str>> {
        if let Some(app) = &self.report.pinned_app {
            return Some(app.clone());
        }
        self.report.addressed_app.clone().filter(|_| !self.hub.options().reroute_direct)
    }

    async fn deliver_to_required(&mut self, app: &Arc<str>) -> Result<(), ActorSuspended> {
        let connection = self.hub.connection_of(app);
        let decision = self.required_decision(app);
        if self.is_exclusive_to(app) {
            // The caller used the app as a tool: it gets the refusal now, and the app must not act on the message
            // later.
            if connection.is_some() && !self.report.has_tried(app) {
                return self.send(decision).await;
            }
            let refusals = self.refusals();
            let reason = if refusals.is_empty() { format!("{app} is not connected") } else { refusals };
            return self.end(FinalState::Refused, reason).await;
        }
        if let Some(refusal) = self.report.refusal_of(app) {
            let reason = format!("{app} refused it: {refusal}");
            return self.hold(reason).await;
        }
        if self.report.is_unanswered_by(app) {
            let reason = format!("{app} was given it several times and never answered");
            return self.hold(reason).await;
        }
        match connection {
            Some(connection) if self.silent_connection != Some(connection) => self.send(decision).await,
            // The app may still respond, and may still be processing the message, so it is not sent twice.
            Some(_) => {
                let reason = format!("{app} did not answer in time; waiting for its answer, or for it to come back");
                self.park(ParkedState::Queued, reason, decision).await
            }
            None => {
                let reason = format!("waiting for {app}, which is not connected");
                self.park(ParkedState::Queued, reason, decision).await
            }
        }
    }

    /// Holds the message until a person decides.
    async fn hold(&mut self, reason: String) -> Result<(), ActorSuspended> {
        let decision = no_recipient(&reason);
        self.park(ParkedState::Held, reason, decision).await
    }

    /// The decision recorded with a delivery to the required app.
    fn required_decision(&self, app: &Arc<str>) -> RoutingDecision {
        let addressed = self.report.decisions.iter().rev().find(|decision| decision.stage.is_direct());
        match addressed {
            Some(decision) if self.report.pinned_app.is_none() => (**decision).clone(),
            Some(_) | None => self.manual_decision(app),
        }
    }

    /// Whether the submitter restricted the message to this app.
    fn is_exclusive_to(&self, app: &str) -> bool {
        self.report.utterance.only_app.as_ref().is_some_and(|only| only.eq_ignore_ascii_case(app))
    }

    fn manual_decision(&self, app: &Arc<str>) -> RoutingDecision {
        let is_tool_call = self.is_exclusive_to(app);
        let addressed =
            direct::split_address(&self.report.utterance.text).filter(|(name, _)| app.eq_ignore_ascii_case(name));
        // The text of a tool call is passed on as it is; a person's text may begin with an app's name.
        let text = match addressed {
            _ if is_tool_call => None,
            Some((_, rest)) => Some(rest.into()),
            None => self.report.stripped_text().cloned(),
        };
        let reason = if is_tool_call { format!("sent to {app} alone") } else { format!("a person chose {app}") };
        RoutingDecision {
            stage: RoutingStage::Manual,
            apps: vec![app.clone()],
            text,
            reason: reason.into(),
            candidates: Vec::new(),
        }
    }

    /// Parks or ends a message that no app fits or that all apps have refused.
    async fn park_unmatched(
        &mut self,
        decision: RoutingDecision,
        context: &RoutingContext,
    ) -> Result<(), ActorSuspended> {
        let refusals = self.refusals();
        if !context.untried.is_empty() || self.report.state == MessageState::Held {
            let reason = match refusals.is_empty() {
                true => decision.reason.to_string(),
                false => format!("{refusals}; no other app clearly fits"),
            };
            return self.park(ParkedState::Held, reason, decision).await;
        }
        let disconnected = self.report.attempts.iter().rev().find(|attempt| {
            !attempt.is_superseded
                && attempt.state == AttemptState::Disconnected
                && !self.report.has_tried(&attempt.app)
        });
        if let Some(disconnected) = disconnected {
            let reason = format!("waiting for {} to come back", disconnected.app);
            return self.park(ParkedState::Queued, reason, decision).await;
        }
        if refusals.is_empty() {
            return self.park(ParkedState::Queued, "no app is connected".to_owned(), decision).await;
        }
        if let Some(until) = self.reconnect_deadline.filter(|until| *until > Instant::now()) {
            self.retry_at = Some(until);
            return self.park(ParkedState::Queued, "waiting for apps to come back".to_owned(), decision).await;
        }
        self.end(FinalState::Refused, refusals).await
    }

    fn refusals(&self) -> String {
        let refusals = self.report.refusals();
        refusals.iter().map(|(app, reason)| format!("{app}: {reason}")).collect::<Vec<_>>().join("; ")
    }

    async fn send(&mut self, decision: RoutingDecision) -> Result<(), ActorSuspended> {
        let apps = decision.apps.clone();
        let stage = decision.stage;
        self.unmatched_apps.clear();
        let mut events = vec![MessageEvent::Decided(Arc::new(decision))];
        events.extend(apps.iter().map(|app| MessageEvent::Sent { app: app.clone() }));
        self.record(events).await?;
        crate::telemetry::message_routed(stage.name());
        if stage == RoutingStage::FollowUp {
            self.hub.close_follow_up(&self.report);
        }
        for app in &apps {
            self.deliver_to(app).await?;
        }
        Ok(())
    }

    pub(super) fn delivery(&self, app: &Arc<str>) -> AppDelivery {
        let utterance = &self.report.utterance;
        let decision = self.decision_for(app);
        let stage = decision.map_or(RoutingStage::Manual, |decision| decision.stage);
        let includes_reason = match stage {
            RoutingStage::Direct | RoutingStage::Alias => false,
            RoutingStage::FollowUp
            | RoutingStage::Rule
            | RoutingStage::Matcher
            | RoutingStage::Meaning
            | RoutingStage::Model
            | RoutingStage::NextBest
            | RoutingStage::CatchAll
            | RoutingStage::Manual
            | RoutingStage::Nobody => true,
        };
        AppDelivery {
            message: self.message,
            text: self.text_for(app),
            at: self.hub.now(),
            input: utterance.input,
            confidence: utterance.confidence,
            is_direct: stage.is_direct(),
            routing_reason: decision.filter(|_| includes_reason).map(|decision| decision.reason.clone()),
        }
    }

    fn decision_for(&self, app: &str) -> Option<&Arc<RoutingDecision>> {
        let includes_app =
            |decision: &&Arc<RoutingDecision>| decision.apps.iter().any(|chosen| chosen.eq_ignore_ascii_case(app));
        self.report.decisions.iter().rev().find(includes_app)
    }

    /// The text that this app is given.
    pub(super) fn text_for(&self, app: &str) -> Arc<str> {
        let stripped = self.decision_for(app).and_then(|decision| decision.text.clone());
        stripped.unwrap_or_else(|| self.report.utterance.text.clone())
    }
}

fn no_recipient(reason: &str) -> RoutingDecision {
    let reason = reason.into();
    RoutingDecision { stage: RoutingStage::Nobody, apps: Vec::new(), text: None, reason, candidates: Vec::new() }
}
