//! Which app an utterance is meant for. The pipeline, in order, each stage a unit of its own:
//!
//! 1. [`direct`]: the text begins with an app's name;
//! 2. [`follow_up`]: an app asked something a moment ago;
//! 3. [`rules`]: the user's own aliases and rules;
//! 4. [`super::matcher`]: words, and what was learned from earlier messages; with an embedding model's help where there
//!    is one;
//! 5. [`model`]: a language model with one tool per app;
//! 6. the catch-all app, or nobody: then a person is asked.
//!
//! Everything here is synchronous. What needs somebody else (an embedding, a model) is said as such, and the asker comes
//! back with the answer.

use std::sync::Arc;

use super::AppProfile;
use super::matcher::{Choice, Matcher, Meaning, Policy, Ranking};
use super::message::{Decision, Scored, Stage};

pub mod direct;
pub mod follow_up;
pub mod model;
pub mod rules;

pub use model::ModelChoice;
pub use rules::{HubRules, Rule};

/// Candidates a decision remembers.
const MAX_CANDIDATES: usize = 10;
/// How much better an app that is not connected must fit than one that is, for the message to wait for it.
const WORTH_WAITING: f32 = 1.5;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    pub text: &'a str,
    /// The text without the name of the app it was addressed to, once that is found out.
    pub words: Option<&'a str>,
    /// Connected, and it has not been tried with them.
    pub open: &'a [Arc<AppProfile>],
    /// Known from before and not connected now: expected back soon.
    pub absent: &'a [Arc<AppProfile>],
    /// The same, however long ago they were here: the user may name them.
    pub away: &'a [Arc<AppProfile>],
    /// Whose question the user may be answering.
    pub follow_up: Option<&'a str>,
    /// Those that have refused it, who get no second try: nobody who is absent is waited for then.
    pub refused: &'a [Arc<AppProfile>],
    pub meaning: Option<&'a Meaning>,
}

impl<'a> Question<'a> {
    fn words(&self) -> &'a str {
        self.words.unwrap_or(self.text)
    }

    fn is_refused(&self) -> bool {
        !self.refused.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Go(Decision),
    /// It is meant for an app that is not connected.
    WaitFor(Arc<str>, Decision),
    /// The local stages do not know; these came closest.
    Unsure(Vec<Scored>),
}

/// The stages that need nobody else.
#[derive(Debug, Default)]
pub struct Pipeline {
    pub rules: HubRules,
    pub catch_all: Option<Arc<str>>,
    pub policy: Policy,
}

impl Pipeline {
    pub fn route(&self, question: &Question<'_>, matcher: &Matcher) -> Answer {
        if let Some(answer) = self.addressed(question) {
            return answer;
        }
        self.matched(question, question.words(), matcher)
    }

    /// Names, questions and rules: everything the user decided.
    fn addressed(&self, question: &Question<'_>) -> Option<Answer> {
        let text = question.text;
        if let Some((name, rest)) = direct::split(text) {
            let decide = |profile: &Arc<AppProfile>| {
                let reason = format!("the message begins with the name of {}", profile.name);
                decision(Stage::Direct, &profile.name, Some(rest), reason)
            };
            if let Some(profile) = find(question.open, name) {
                return Some(Answer::Go(decide(profile)));
            }
            if let Some(profile) = find(question.away, name).filter(|_| !question.is_refused()) {
                return Some(Answer::WaitFor(profile.name.clone(), decide(profile)));
            }
        }
        if let Some(profile) = question.follow_up.and_then(|app| find(question.open, app)) {
            let reason = format!("{} asked something a moment ago", profile.name);
            return Some(Answer::Go(decision(Stage::FollowUp, &profile.name, None, reason)));
        }
        let (stage, app, rest, reason) = self.rules.apply(text)?;
        let decide = |profile: &Arc<AppProfile>| decision(stage, &profile.name, rest, reason.clone());
        if let Some(profile) = find(question.open, app) {
            return Some(Answer::Go(decide(profile)));
        }
        if question.is_refused() {
            return None;
        }
        // The user's rule names it, so it is waited for even if it was never seen.
        let absent = find(question.away, app).map_or_else(|| Arc::from(app), |profile| profile.name.clone());
        Some(Answer::WaitFor(absent.clone(), decision(stage, &absent, rest, reason)))
    }

    fn matched(&self, question: &Question<'_>, text: &str, matcher: &Matcher) -> Answer {
        let stage = if question.meaning.is_some() { Stage::Meaning } else { Stage::Matcher };
        // With those that refused it: what they had of the confidence is not for whoever is left.
        let all: Vec<&AppProfile> = question.open.iter().chain(question.refused).map(|profile| &**profile).collect();
        let mut ranking = matcher.rank(text, &all, question.meaning);
        let rest = question.words;
        let chosen = match ranking.choose_from(self.policy, |one| find(question.open, &one.app).is_some()) {
            Choice::Deliver(chosen) => chosen,
            Choice::Unsure => Vec::new(),
        };
        // Similarities were asked for those that are there only.
        let absent =
            if question.meaning.is_some() { None } else { self.better_absent(question, text, matcher, &chosen) };
        if let Some((app, scored)) = absent {
            let reason = format!("it fits {app} best, which is not connected");
            let apps = vec![app.clone()];
            let decision =
                Decision { stage, apps, text: rest.map(Arc::from), reason: reason.into(), candidates: scored };
            return Answer::WaitFor(app, decision);
        }
        if chosen.is_empty() {
            ranking.candidates.retain(|one| find(question.open, &one.app).is_some());
            return Answer::Unsure(scored(&ranking));
        }
        let candidates = scored(&ranking);
        let apps: Vec<Arc<str>> =
            chosen.iter().filter_map(|&index| ranking.candidates.get(index)).map(|best| best.app.clone()).collect();
        let reason = reason_of(&ranking, &chosen);
        Answer::Go(Decision { stage, apps, text: rest.map(Arc::from), reason: reason.into(), candidates })
    }

    /// An app that is not connected and clearly fits better than whoever is.
    fn better_absent(
        &self,
        question: &Question<'_>,
        text: &str,
        matcher: &Matcher,
        chosen: &[usize],
    ) -> Option<(Arc<str>, Vec<Scored>)> {
        // A refused message goes on to those who are there; several recipients are not held up by one.
        if question.absent.is_empty() || question.is_refused() || chosen.len() > 1 {
            return None;
        }
        let all: Vec<&AppProfile> = question.open.iter().chain(question.absent).map(|profile| &**profile).collect();
        let ranking = matcher.rank(text, &all, None);
        let Choice::Deliver(best) = ranking.choose(self.policy) else { return None };
        let best = ranking.candidates.get(*best.first()?)?;
        let is_absent = find(question.open, &best.app).is_none();
        let open_score = ranking.candidates.iter().find(|other| find(question.open, &other.app).is_some());
        let is_better = open_score.is_none_or(|open| best.score > open.score * WORTH_WAITING);
        (is_absent && is_better).then(|| (best.app.clone(), scored(&ranking)))
    }

    /// What is left when the local stages are unsure and no model decides otherwise. `None`: a person has to.
    pub fn last_resort(&self, question: &Question<'_>, closest: &[Scored]) -> Option<Decision> {
        let rest = question.words;
        if let Some(profile) = self.catch_all.as_deref().and_then(|name| find(question.open, name)) {
            let reason = "nobody clearly fits, and this app gets what fits nobody".to_owned();
            let mut decision = decision(Stage::CatchAll, &profile.name, rest, reason);
            decision.candidates = closest.to_vec();
            return Some(decision);
        }
        None
    }

    /// What the model said, as a decision; `None` when it chose nobody.
    pub fn by_model(&self, question: &Question<'_>, choice: &ModelChoice, closest: &[Scored]) -> Option<Decision> {
        let first = choice.picks.first()?;
        Some(Decision {
            stage: Stage::Model,
            apps: choice.picks.iter().map(|pick| pick.app.clone()).collect(),
            text: question.words.map(Arc::from),
            reason: first.reason.clone().unwrap_or_else(|| "chosen by the model".into()),
            candidates: closest.to_vec(),
        })
    }
}

fn decision(stage: Stage, app: &Arc<str>, rest: Option<&str>, reason: String) -> Decision {
    Decision {
        stage,
        apps: vec![app.clone()],
        text: rest.map(Arc::from),
        reason: reason.into(),
        candidates: Vec::new(),
    }
}

fn find<'a>(apps: &'a [Arc<AppProfile>], name: &str) -> Option<&'a Arc<AppProfile>> {
    apps.iter().find(|profile| profile.name.eq_ignore_ascii_case(name))
}

fn scored(ranking: &Ranking) -> Vec<Scored> {
    let best = ranking.candidates.iter().take(MAX_CANDIDATES);
    best.map(|candidate| Scored {
        app: candidate.app.clone(),
        // What is put on record has to be a number.
        score: if candidate.score.is_finite() { candidate.score } else { 0.0 },
        confidence: if candidate.confidence.is_finite() { candidate.confidence } else { 0.0 },
        why: candidate.why.clone(),
    })
    .collect()
}

fn reason_of(ranking: &Ranking, chosen: &[usize]) -> String {
    let reasons = chosen.iter().filter_map(|&index| ranking.candidates.get(index)).map(|candidate| {
        let percent = (candidate.confidence * 100.0).round();
        if candidate.why.is_empty() {
            format!("fits {} ({percent} % sure)", candidate.app)
        } else {
            format!("fits {} ({percent} % sure): {}", candidate.app, candidate.why.join("; "))
        }
    });
    reasons.collect::<Vec<_>>().join("; and ")
}

#[cfg(test)]
mod tests;
