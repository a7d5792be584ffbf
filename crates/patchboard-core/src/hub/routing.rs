//! Decides which app an utterance is meant for. The pipeline, in order, each stage a unit of its own:
//!
//! 1. [`direct`]: the text begins with an app's name;
//! 2. [`follow_up`]: an app asked a question a moment ago;
//! 3. [`rules`]: the user's own aliases and rules;
//! 4. [`patchboard_matcher`]: words and training examples, with embeddings where an embedding model is configured;
//! 5. [`model_prompt`]: a language model with one tool per app;
//! 6. the catch-all app, or none: then a person is asked.
//!
//! Everything here is synchronous. Where a model's output is needed, the outcome says so, and the caller comes back
//! with it.

use std::sync::Arc;

use crate::app::AppProfile;
use crate::app::message::{RoutingDecision, RoutingStage, ScoredApp};
use patchboard_matcher::{AppRanking, ConfidencePolicy, EmbeddingSimilarity, Matcher, RankingChoice};

pub mod direct;
pub mod follow_up;
pub mod model_prompt;
pub mod rules;

pub use model_prompt::ModelPicks;
pub use rules::{HubRules, RoutingRule};

/// Candidates recorded in a decision.
const MAX_CANDIDATES: usize = 10;
/// How much better a disconnected app must score than the best connected one for the message to wait for it.
const WAIT_SCORE_FACTOR: f32 = 1.5;

/// Input of a routing decision.
#[derive(Debug, Clone)]
pub struct RoutingRequest<'a> {
    pub text: &'a str,
    /// The text without the name of the app it was addressed to, once that is known.
    pub stripped_text: Option<&'a str>,
    /// Connected apps that were not tried yet.
    pub untried: &'a [Arc<AppProfile>],
    /// Known apps that are disconnected but likely to reconnect.
    pub expected_back: &'a [Arc<AppProfile>],
    /// All known apps that are disconnected, whatever their age: the user may address them by name.
    pub disconnected: &'a [Arc<AppProfile>],
    /// The app whose question the user may be answering.
    pub follow_up: Option<&'a str>,
    /// Apps that refused the message and are not tried again. If there are any, no disconnected app is waited for.
    pub refused: &'a [Arc<AppProfile>],
    pub similarity: Option<&'a EmbeddingSimilarity>,
}

impl<'a> RoutingRequest<'a> {
    fn effective_text(&self) -> &'a str {
        self.stripped_text.unwrap_or(self.text)
    }

    fn has_refusals(&self) -> bool {
        !self.refused.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum LocalOutcome {
    Deliver(RoutingDecision),
    /// The message is meant for an app that is not connected.
    WaitFor(Arc<str>, RoutingDecision),
    /// The local stages are unsure; these apps came closest.
    Unsure(Vec<ScoredApp>),
}

/// The stages that need no model.
#[derive(Debug, Default)]
pub struct LocalRouter {
    pub rules: HubRules,
    pub catch_all: Option<Arc<str>>,
    pub policy: ConfidencePolicy,
}

impl LocalRouter {
    pub fn route(&self, request: &RoutingRequest<'_>, matcher: &Matcher) -> LocalOutcome {
        if let Some(outcome) = self.route_by_user_choice(request) {
            return outcome;
        }
        self.route_by_matcher(request, request.effective_text(), matcher)
    }

    /// Direct address, follow-up and the user's rules: everything that the user decided.
    fn route_by_user_choice(&self, request: &RoutingRequest<'_>) -> Option<LocalOutcome> {
        let text = request.text;
        if let Some((name, stripped_text)) = direct::split_address(text) {
            let decide = |profile: &Arc<AppProfile>| {
                let reason = format!("the message begins with the name of {}", profile.name);
                decision(RoutingStage::Direct, &profile.name, Some(stripped_text), reason)
            };
            if let Some(profile) = find(request.untried, name) {
                return Some(LocalOutcome::Deliver(decide(profile)));
            }
            if let Some(profile) = find(request.disconnected, name).filter(|_| !request.has_refusals()) {
                return Some(LocalOutcome::WaitFor(profile.name.clone(), decide(profile)));
            }
        }
        if let Some(profile) = request.follow_up.and_then(|app| find(request.untried, app)) {
            let reason = format!("{} asked something a moment ago", profile.name);
            return Some(LocalOutcome::Deliver(decision(RoutingStage::FollowUp, &profile.name, None, reason)));
        }
        let (stage, app, stripped_text, reason) = self.rules.apply(text)?;
        let decide = |profile: &Arc<AppProfile>| decision(stage, &profile.name, stripped_text, reason.clone());
        if let Some(profile) = find(request.untried, app) {
            return Some(LocalOutcome::Deliver(decide(profile)));
        }
        if request.has_refusals() {
            return None;
        }
        // The user's rule names the app, so the message waits for it even if it was never seen.
        let absent = find(request.disconnected, app).map_or_else(|| Arc::from(app), |profile| profile.name.clone());
        Some(LocalOutcome::WaitFor(absent.clone(), decision(stage, &absent, stripped_text, reason)))
    }

    fn route_by_matcher(&self, request: &RoutingRequest<'_>, text: &str, matcher: &Matcher) -> LocalOutcome {
        let stage = if request.similarity.is_some() { RoutingStage::Meaning } else { RoutingStage::Matcher };
        // Ranked together with the apps that refused, so that their share of the confidence does not go to the others.
        let all: Vec<&AppProfile> = request.untried.iter().chain(request.refused).map(|profile| &**profile).collect();
        let mut ranking = matcher.rank(text, &all, request.similarity);
        let stripped_text = request.stripped_text;
        let chosen = match ranking.choose_among(self.policy, |one| find(request.untried, &one.app).is_some()) {
            RankingChoice::Deliver(chosen) => chosen,
            RankingChoice::Unsure => Vec::new(),
        };
        // Similarities exist for connected apps only.
        let absent =
            if request.similarity.is_some() { None } else { self.better_disconnected(request, text, matcher, &chosen) };
        if let Some((app, scored)) = absent {
            let reason = format!("it fits {app} best, which is not connected");
            let apps = vec![app.clone()];
            let decision = RoutingDecision {
                stage,
                apps,
                text: stripped_text.map(Arc::from),
                reason: reason.into(),
                candidates: scored,
            };
            return LocalOutcome::WaitFor(app, decision);
        }
        if chosen.is_empty() {
            ranking.candidates.retain(|one| find(request.untried, &one.app).is_some());
            return LocalOutcome::Unsure(scored(&ranking));
        }
        let candidates = scored(&ranking);
        let apps: Vec<Arc<str>> =
            chosen.iter().filter_map(|&index| ranking.candidates.get(index)).map(|best| best.app.clone()).collect();
        let reason = reason_of(&ranking, &chosen);
        LocalOutcome::Deliver(RoutingDecision {
            stage,
            apps,
            text: stripped_text.map(Arc::from),
            reason: reason.into(),
            candidates,
        })
    }

    /// A disconnected app that clearly fits better than the connected ones.
    fn better_disconnected(
        &self,
        request: &RoutingRequest<'_>,
        text: &str,
        matcher: &Matcher,
        chosen: &[usize],
    ) -> Option<(Arc<str>, Vec<ScoredApp>)> {
        // A refused message is re-routed to connected apps only, and one absent recipient must not delay several others.
        if request.expected_back.is_empty() || request.has_refusals() || chosen.len() > 1 {
            return None;
        }
        let all: Vec<&AppProfile> =
            request.untried.iter().chain(request.expected_back).map(|profile| &**profile).collect();
        let ranking = matcher.rank(text, &all, None);
        let RankingChoice::Deliver(best) = ranking.choose(self.policy) else { return None };
        let best = ranking.candidates.get(*best.first()?)?;
        let is_absent = find(request.untried, &best.app).is_none();
        let open_score = ranking.candidates.iter().find(|other| find(request.untried, &other.app).is_some());
        let is_better = open_score.is_none_or(|open| best.score > open.score * WAIT_SCORE_FACTOR);
        (is_absent && is_better).then(|| (best.app.clone(), scored(&ranking)))
    }

    /// The catch-all decision, for when the local stages are unsure and no model decides. `None`: a person has to.
    pub fn fallback(&self, request: &RoutingRequest<'_>, closest: &[ScoredApp]) -> Option<RoutingDecision> {
        let stripped_text = request.stripped_text;
        if let Some(profile) = self.catch_all.as_deref().and_then(|name| find(request.untried, name)) {
            let reason = "nobody clearly fits, and this app gets what fits nobody".to_owned();
            let mut decision = decision(RoutingStage::CatchAll, &profile.name, stripped_text, reason);
            decision.candidates = closest.to_vec();
            return Some(decision);
        }
        None
    }

    /// The model's picks as a decision; `None` if it picked no app.
    pub fn decision_from_model(
        &self,
        request: &RoutingRequest<'_>,
        model_picks: &ModelPicks,
        closest: &[ScoredApp],
    ) -> Option<RoutingDecision> {
        let first = model_picks.picks.first()?;
        Some(RoutingDecision {
            stage: RoutingStage::Model,
            apps: model_picks.picks.iter().map(|pick| pick.app.clone()).collect(),
            text: request.stripped_text.map(Arc::from),
            reason: first.reason.clone().unwrap_or_else(|| "chosen by the model".into()),
            candidates: closest.to_vec(),
        })
    }
}

fn decision(stage: RoutingStage, app: &Arc<str>, stripped_text: Option<&str>, reason: String) -> RoutingDecision {
    RoutingDecision {
        stage,
        apps: vec![app.clone()],
        text: stripped_text.map(Arc::from),
        reason: reason.into(),
        candidates: Vec::new(),
    }
}

fn find<'a>(apps: &'a [Arc<AppProfile>], name: &str) -> Option<&'a Arc<AppProfile>> {
    apps.iter().find(|profile| profile.name.eq_ignore_ascii_case(name))
}

fn scored(ranking: &AppRanking) -> Vec<ScoredApp> {
    let best = ranking.candidates.iter().take(MAX_CANDIDATES);
    best.map(|candidate| ScoredApp {
        app: candidate.app.clone(),
        // JSON records cannot hold NaN or infinity.
        score: if candidate.score.is_finite() { candidate.score } else { 0.0 },
        confidence: if candidate.confidence.is_finite() { candidate.confidence } else { 0.0 },
        reasons: candidate.reasons.clone(),
    })
    .collect()
}

fn reason_of(ranking: &AppRanking, chosen: &[usize]) -> String {
    let reasons = chosen.iter().filter_map(|&index| ranking.candidates.get(index)).map(|candidate| {
        let percent = (candidate.confidence * 100.0).round();
        if candidate.reasons.is_empty() {
            format!("fits {} ({percent} % sure)", candidate.app)
        } else {
            format!("fits {} ({percent} % sure): {}", candidate.app, candidate.reasons.join("; "))
        }
    });
    reasons.collect::<Vec<_>>().join("; and ")
}

#[cfg(test)]
mod tests;
