//! Runs the routing stages and the models that they need: an embedding model, a language model.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Hub, check_text, lock};
use crate::app::AppProfile;
use crate::app::message::{AppNotice, MessageReport, RoutingDecision, RoutingStage, ScoredApp};
use crate::caller::{Caller, Principal, Surface};
use crate::error::{BoardError, ErrorKind};
use crate::hub::routing::{LocalOutcome, RoutingRequest};
use crate::id::MessageId;
use patchboard_matcher::EmbeddingSimilarity;

/// Past this, routing continues without embeddings.
const EMBEDDING_TIMEOUT: Duration = Duration::from_secs(3);
/// Description embeddings kept; past it the cache is cleared.
const MAX_DESCRIPTION_EMBEDDINGS: usize = 2000;

/// The state that routing a message depends on besides its text, at one moment.
#[derive(Debug)]
pub(crate) struct RoutingContext {
    /// Connected and not yet tried.
    pub(crate) untried: Vec<Arc<AppProfile>>,
    /// Apps that refused the message.
    refused: Vec<Arc<AppProfile>>,
    pub(crate) expected_back: Vec<Arc<AppProfile>>,
    disconnected: Vec<Arc<AppProfile>>,
    follow_up: Option<Arc<str>>,
}

#[derive(Debug)]
pub(crate) enum RoutingOutcome {
    Deliver(RoutingDecision),
    WaitFor(Arc<str>, RoutingDecision),
    /// No app clearly fits.
    NoMatch(RoutingDecision),
    /// The routing model is unavailable.
    ModelUnavailable(BoardError),
}

impl RoutingContext {
    /// All apps that the text is compared with, in the order of [`RoutingRequest`].
    fn candidates(&self) -> impl Iterator<Item = &Arc<AppProfile>> {
        self.untried.iter().chain(&self.refused)
    }
}

impl Hub {
    pub(crate) fn routing_context(&self, report: &MessageReport) -> RoutingContext {
        let user = user_key(&report.utterance.surface, &report.utterance.principal);
        // A message that was routed before predates the question, so it is no answer to it.
        let is_fresh = report.decisions.is_empty();
        let asked = lock(&self.0.follow_ups).open_question(&user, self.0.started.elapsed());
        let follow_up = asked.filter(|_| is_fresh);
        let now = self.0.clock.now();
        let roster = self.roster();
        let untried = roster.connected().iter().filter(|app| !report.has_tried(&app.profile.name));
        let open: Vec<Arc<AppProfile>> = untried.map(|app| app.profile.clone()).collect();
        let away = roster.disconnected();
        let connected = roster.connected().iter().map(|app| &app.profile);
        let named = |name: &str| connected.clone().chain(&away).find(|known| known.name.eq_ignore_ascii_case(name));
        // An app that disconnected and reconnected may get the message again.
        let is_open = |name: &str| open.iter().any(|profile| profile.name.eq_ignore_ascii_case(name));
        let refusals = report.refusals();
        let refused = refusals.iter().filter(|(app, _)| !is_open(app)).map(|(app, _)| {
            let gone =
                || AppProfile { name: app.clone(), description: "".into(), version: None, capabilities: Vec::new() };
            named(app).cloned().unwrap_or_else(|| Arc::new(gone()))
        });
        let refused = refused.collect();
        RoutingContext {
            untried: open,
            refused,
            expected_back: roster.expected_back(now),
            disconnected: away,
            follow_up,
        }
    }

    /// Runs only the local stages; the closest candidates as an error when they are unsure.
    pub(crate) fn route_locally(
        &self,
        text: &str,
        report: &MessageReport,
        view: &RoutingContext,
    ) -> Result<RoutingOutcome, Vec<ScoredApp>> {
        let question = question(text, report, view);
        match self.0.local_router.route(&question, &self.matcher()) {
            LocalOutcome::Deliver(decision) => Ok(RoutingOutcome::Deliver(decision)),
            LocalOutcome::WaitFor(app, decision) => Ok(RoutingOutcome::WaitFor(app, decision)),
            LocalOutcome::Unsure(closest) => Err(closest),
        }
    }

    /// Whether a model can be asked which app the message is for.
    pub(crate) fn can_ask_models(&self, view: &RoutingContext) -> bool {
        !view.untried.is_empty() && (self.0.embedder.is_some() || self.0.router.is_some())
    }

    /// Runs the stages that call models, then the fallback if they are unsure too.
    pub(crate) async fn route_with_models(
        &self,
        report: &MessageReport,
        view: &RoutingContext,
        mut closest: Vec<ScoredApp>,
        stop: &CancellationToken,
    ) -> RoutingOutcome {
        let text = &report.utterance.text;
        let meaning = self.embedding_similarity(text, view, stop).await;
        if let Some(meaning) = &meaning {
            let question = RoutingRequest { similarity: Some(meaning), ..question(text, report, view) };
            match self.0.local_router.route(&question, &self.matcher()) {
                LocalOutcome::Deliver(decision) => return RoutingOutcome::Deliver(decision),
                LocalOutcome::WaitFor(app, decision) => return RoutingOutcome::WaitFor(app, decision),
                LocalOutcome::Unsure(by_meaning) => closest = by_meaning,
            }
        }
        if let Some(router) = self.0.router.as_ref().filter(|_| !view.untried.is_empty()) {
            match router.choose_apps(text, &view.untried, &report.refusals(), submitting_key(report), stop).await {
                Ok(choice) => {
                    let question = question(text, report, view);
                    if let Some(decision) = self.0.local_router.decision_from_model(&question, &choice, &closest) {
                        return RoutingOutcome::Deliver(decision);
                    }
                }
                Err(error) => return RoutingOutcome::ModelUnavailable(error),
            }
        }
        self.fallback(report, view, closest)
    }

    pub(crate) fn fallback(
        &self,
        report: &MessageReport,
        view: &RoutingContext,
        closest: Vec<ScoredApp>,
    ) -> RoutingOutcome {
        let question = question(&report.utterance.text, report, view);
        match self.0.local_router.fallback(&question, &closest) {
            Some(decision) => RoutingOutcome::Deliver(decision),
            None => RoutingOutcome::NoMatch(no_match_decision(view, closest)),
        }
    }

    /// How a text would be routed now.
    pub(crate) async fn explain(
        &self,
        caller: &Caller,
        text: &Arc<str>,
        stop: &CancellationToken,
    ) -> Result<RoutingDecision, BoardError> {
        let report = self.imagined_message(text, "hub", caller.principal.text())?;
        let view = self.routing_context(&report);
        let routed = match self.route_locally(text, &report, &view) {
            Ok(routed) => routed,
            Err(closest) => {
                // In a task of its own, so that the cost of a model call is settled even if the caller disconnects.
                let hub = self.clone();
                let stop = stop.child_token();
                let withdrawn = stop.clone().drop_guard();
                let asking = self
                    .0
                    .foreground_tasks
                    .spawn(async move { hub.route_with_models(&report, &view, closest, &stop).await });
                let routed = asking.await;
                drop(withdrawn);
                routed.map_err(|_| BoardError::new(ErrorKind::Internal, "internal error in routing"))?
            }
        };
        match routed {
            RoutingOutcome::Deliver(decision)
            | RoutingOutcome::WaitFor(_, decision)
            | RoutingOutcome::NoMatch(decision) => Ok(decision),
            RoutingOutcome::ModelUnavailable(error) => Err(error),
        }
    }

    /// How a text of the caller would be routed now if no model could be asked. Costs nothing.
    pub(crate) fn explain_locally(&self, caller: &Caller, text: &Arc<str>) -> Result<RoutingDecision, BoardError> {
        let report = self.imagined_message(text, caller.surface.name(), caller.principal.text())?;
        let view = self.routing_context(&report);
        let routed = self.route_locally(text, &report, &view);
        match routed.unwrap_or_else(|closest| self.fallback(&report, &view, closest)) {
            RoutingOutcome::Deliver(decision)
            | RoutingOutcome::WaitFor(_, decision)
            | RoutingOutcome::NoMatch(decision) => Ok(decision),
            RoutingOutcome::ModelUnavailable(error) => Err(error),
        }
    }

    /// A message that is not stored and sent to nobody.
    fn imagined_message(
        &self,
        text: &Arc<str>,
        surface: &str,
        principal: Arc<str>,
    ) -> Result<MessageReport, BoardError> {
        check_text(text)?;
        let utterance = crate::app::message::Utterance {
            text: text.clone(),
            input: crate::app::InputMethod::Text,
            confidence: None,
            only_app: None,
            principal,
            surface: surface.into(),
            expires_at: self.0.clock.now(),
        };
        Ok(MessageReport::new(MessageId(self.0.ids.next()), Arc::new(utterance), self.0.clock.now()))
    }

    /// Opens a follow-up window if the app's notice asks a question.
    pub(crate) fn track_follow_up(&self, report: &MessageReport, app: &Arc<str>, notice: &AppNotice) {
        let user = user_key(&report.utterance.surface, &report.utterance.principal);
        lock(&self.0.follow_ups).record_notice(&user, app, notice, self.0.started.elapsed());
    }

    /// Closes the window once a message has gone to the app that asked.
    pub(crate) fn close_follow_up(&self, report: &MessageReport) {
        lock(&self.0.follow_ups).close_question(&user_key(&report.utterance.surface, &report.utterance.principal));
    }

    async fn embedding_similarity(
        &self,
        text: &str,
        view: &RoutingContext,
        stop: &CancellationToken,
    ) -> Option<EmbeddingSimilarity> {
        let embedder = self.0.embedder.as_ref()?;
        let words: Vec<Arc<str>> = view.candidates().map(|profile| profile.description.clone()).collect();
        let unknown: Vec<Arc<str>> = {
            let meanings = lock(&self.0.description_embeddings);
            words.iter().filter(|words| !meanings.contains_key(*words)).cloned().collect()
        };
        let mut texts = vec![text.to_owned()];
        texts.extend(unknown.iter().map(|words| words.to_string()));
        let vectors = tokio::time::timeout(EMBEDDING_TIMEOUT, embedder.embed(texts, stop.clone())).await;
        let mut vectors = match vectors {
            Ok(Ok(vectors)) if vectors.len() == unknown.len() + 1 => vectors,
            Ok(Ok(_)) => return None,
            Ok(Err(error)) => {
                tracing::debug!(%error, "routing without embeddings");
                return None;
            }
            Err(_elapsed) => return None,
        };
        let described = vectors.split_off(1);
        let asked = vectors.pop()?;
        let mut meanings = lock(&self.0.description_embeddings);
        if meanings.len() + unknown.len() > MAX_DESCRIPTION_EMBEDDINGS {
            meanings.clear();
        }
        meanings.extend(unknown.into_iter().zip(described.into_iter().map(Arc::from)));
        let similarity = |words: &Arc<str>| meanings.get(words).map_or(0.0, |vector| cosine(&asked, vector));
        Some(EmbeddingSimilarity { by_app: words.iter().map(similarity).collect() })
    }
}

fn question<'a>(text: &'a str, report: &'a MessageReport, view: &'a RoutingContext) -> RoutingRequest<'a> {
    RoutingRequest {
        text,
        stripped_text: report.stripped_text().map(|words| &**words),
        untried: &view.untried,
        expected_back: &view.expected_back,
        disconnected: &view.disconnected,
        follow_up: view.follow_up.as_deref(),
        refused: &view.refused,
        similarity: None,
    }
}

/// The best candidate if it leads by a margin; among equal candidates none is worth suggesting.
pub(crate) fn clear_leader(candidates: &[ScoredApp]) -> Option<&ScoredApp> {
    const MIN_LEAD: f32 = 0.02;
    let next = candidates.get(1).map_or(0.0, |next| next.confidence);
    candidates.first().filter(|best| best.confidence - next > MIN_LEAD)
}

fn no_match_decision(view: &RoutingContext, candidates: Vec<ScoredApp>) -> RoutingDecision {
    let reason = match (view.untried.is_empty(), clear_leader(&candidates)) {
        (true, _) => "no app that could take it is connected".to_owned(),
        (false, None) => "no connected app clearly fits".to_owned(),
        (false, Some(best)) => format!("no connected app clearly fits; {} comes closest", best.app),
    };
    RoutingDecision { stage: RoutingStage::Nobody, apps: Vec::new(), text: None, reason: reason.into(), candidates }
}

/// All local programs act for the one user of this machine, so they share a follow-up window.
/// The key of the client that submitted a message over the hub: it pays for the routing model.
fn submitting_key(report: &MessageReport) -> Option<Arc<str>> {
    let utterance = &report.utterance;
    // On other surfaces the text may be that of an account, which a client chooses.
    Principal::from(&*utterance.principal).key().filter(|_| &*utterance.surface == Surface::Hub.name()).cloned()
}

fn user_key(surface: &str, principal: &Arc<str>) -> Arc<str> {
    if surface == "hub" || surface == "cli" { "user".into() } else { principal.clone() }
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let dot: f32 = left.iter().zip(right).map(|(left, right)| left * right).sum();
    let length = |vector: &[f32]| vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    let lengths = length(left) * length(right);
    if lengths > 0.0 { (dot / lengths).clamp(0.0, 1.0) } else { 0.0 }
}
