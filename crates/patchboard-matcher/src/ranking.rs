//! From evidence to confidence, and from confidence to a choice.

use std::sync::Arc;

use super::query::Query;
use super::signals::{self, DescriptionSimilarity};
use super::trained_model::AppEvidence;
use super::tuning::TUNING;

/// The apps an utterance may be meant for, best first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AppRanking {
    pub candidates: Vec<RankedApp>,
    /// Places of those whose part of the utterance is clearly theirs; two or more, or none.
    clause_winners: Vec<usize>,
    /// How much was learned for these apps, 0 to 1.
    experience: f32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RankedApp {
    pub app: Arc<str>,
    /// How well it fits by itself, 0 to 1, whoever else fits.
    pub score: f32,
    /// How probable it is that this app is meant. All together are at most 1, the rest being none of them, unless the
    /// utterance has parts for several.
    pub confidence: f32,
    /// Short evidence for people to read.
    pub reasons: Vec<Arc<str>>,
}

/// When to deliver: how sure the matcher has to be. The more was learned the more is delivered, and the surer each
/// delivery has to be for the wrong ones to stay as few.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfidencePolicy {
    /// The least confidence before anything was learned.
    pub min_untrained: f32,
    /// The least confidence when much was learned.
    pub min_trained: f32,
    /// By how much it must be above that of the next.
    pub margin: f32,
    /// The least confidence when there is only one app: nobody else could have been meant.
    pub min_single_app: f32,
    /// The least confidence of each of several.
    pub min_each_of_several: f32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankingChoice {
    /// Places among the candidates; more than one only when several are clearly meant.
    Deliver(Vec<usize>),
    Unsure,
}

impl ConfidencePolicy {
    /// About one message in a hundred goes to a wrong app. Like the others it was read from the tuning files, each judged by
    /// weights that were fitted to the rest, and all but that of a bank, whose apps are close to each other, keep to it.
    pub const CAREFUL: ConfidencePolicy = ConfidencePolicy {
        min_untrained: 0.96,
        min_trained: 0.98,
        margin: 0.1,
        min_single_app: 0.6,
        min_each_of_several: 0.9,
    };
    /// About three.
    pub const BALANCED: ConfidencePolicy = ConfidencePolicy {
        min_untrained: 0.82,
        min_trained: 0.95,
        margin: 0.1,
        min_single_app: 0.38,
        min_each_of_several: 0.8,
    };
    /// About eight.
    pub const EAGER: ConfidencePolicy = ConfidencePolicy {
        min_untrained: 0.58,
        min_trained: 0.69,
        margin: 0.1,
        min_single_app: 0.25,
        min_each_of_several: 0.65,
    };

    fn threshold(self, experience: f32) -> f32 {
        self.min_untrained + (self.min_trained - self.min_untrained) * experience
    }
}

impl Default for ConfidencePolicy {
    fn default() -> Self {
        Self::BALANCED
    }
}

impl AppRanking {
    pub(super) fn new(candidates: Vec<RankedApp>, several: Vec<usize>, experience: f32) -> Self {
        Self { candidates, clause_winners: several, experience }
    }

    /// The least confidence with which an app is delivered to.
    pub fn threshold(&self, policy: ConfidencePolicy) -> f32 {
        let threshold = policy.threshold(self.experience);
        if self.candidates.len() == 1 { threshold.min(policy.min_single_app) } else { threshold }
    }

    pub fn choose(&self, policy: ConfidencePolicy) -> RankingChoice {
        self.choose_among(policy, |_| true)
    }

    /// The others keep their share of the confidence: that they cannot have it makes nobody else more probable.
    pub fn choose_among(&self, policy: ConfidencePolicy, is_open: impl Fn(&RankedApp) -> bool) -> RankingChoice {
        let confidence = |place: usize| self.candidates.get(place).map_or(0.0, |candidate| candidate.confidence);
        let open: Vec<usize> =
            self.candidates.iter().enumerate().filter(|(_, one)| is_open(one)).map(|(place, _)| place).collect();
        let are_open = self.clause_winners.iter().all(|place| open.contains(place));
        if self.clause_winners.len() > 1
            && are_open
            && self.clause_winners.iter().all(|place| confidence(*place) >= policy.min_each_of_several)
        {
            return RankingChoice::Deliver(self.clause_winners.clone());
        }
        let next = open.get(1).map_or(0.0, |place| confidence(*place));
        let is_clear = |best: f32| best >= self.threshold(policy) && best - next >= policy.margin;
        match open.first() {
            Some(&best) if is_clear(confidence(best)) => RankingChoice::Deliver(vec![best]),
            _ => RankingChoice::Unsure,
        }
    }
}

/// How well each app fits an utterance, and none of them: logarithms of odds, but for a constant.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct OddsTable {
    apps: Vec<AppOdds>,
    none_log_odds: f32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct AppOdds {
    log_odds: f32,
    /// How much what it refused speaks against it.
    refusal_penalty: f32,
}

impl OddsTable {
    pub(super) fn new(
        query: &Query,
        background: &DescriptionSimilarity,
        likenesses: &[DescriptionSimilarity],
        evidence: &[AppEvidence],
        none: &AppEvidence,
    ) -> OddsTable {
        let apps = likenesses.iter().zip(evidence).map(|(likeness, evidence)| {
            let is_strange = query.vector.is_none() && likeness.shared_terms <= 0.0 && evidence.nearest_accepted <= 0.0;
            let odds = if is_strange {
                // Words that nobody knows speak for nobody.
                f32::NEG_INFINITY
            } else {
                weighted(&signals::app_signals(likeness, evidence), &TUNING.app_weights)
            };
            AppOdds { log_odds: odds, refusal_penalty: TUNING.refused_penalty * evidence.nearest_refused }
        });
        let of_none = signals::none_signals(background, likenesses, signals::experience(evidence));
        let refused = evidence.iter().map(|one| one.nearest_refused).fold(0.0, f32::max);
        let taken = evidence.iter().map(|one| one.nearest_accepted).fold(0.0, f32::max);
        let refused = if refused > taken { refused } else { 0.0 };
        let learned = TUNING.none_near * none.nearest_accepted + TUNING.none_refused * refused;
        let mut fits =
            OddsTable { apps: apps.collect(), none_log_odds: weighted(&of_none, &TUNING.none_weights) + learned };
        // What a person said once need not be said again, whatever else the words are like.
        let highest = fits.highest() + TUNING.same_text_lead;
        if none.is_same_text {
            fits.none_log_odds = highest;
        }
        for (fit, _) in fits.apps.iter_mut().zip(evidence).filter(|(_, evidence)| evidence.is_same_text) {
            fit.log_odds = highest;
        }
        fits
    }

    fn highest(&self) -> f32 {
        self.apps.iter().map(|fit| fit.log_odds).fold(self.none_log_odds, f32::max)
    }

    /// What an embedding model says, in the order of the apps.
    pub(super) fn add(&mut self, more: impl Iterator<Item = f32>) {
        self.apps.iter_mut().zip(more).for_each(|(fit, more)| fit.log_odds += more);
    }

    /// 0 to 1, whoever else fits.
    pub(super) fn score(&self, app: usize) -> f32 {
        let fit = self.apps.get(app).map_or(f32::NEG_INFINITY, |fit| fit.log_odds - fit.refusal_penalty);
        1.0 / (1.0 + (self.none_log_odds - fit).exp())
    }

    /// The probability of each app, none of them being possible too. What is taken from an app because of what it
    /// refused goes to none of them: nobody else becomes more probable by it.
    pub(super) fn confidences(&self) -> Vec<f32> {
        let highest = self.highest();
        let all = self.apps.iter().map(|fit| (fit.log_odds - highest).exp()).sum::<f32>()
            + (self.none_log_odds - highest).exp();
        self.apps.iter().map(|fit| (fit.log_odds - highest - fit.refusal_penalty).exp() / all).collect()
    }
}

fn weighted(signals: &[f32], weights: &[f32]) -> f32 {
    signals.iter().zip(weights).map(|(signal, weight)| signal * weight).sum()
}

#[cfg(test)]
mod tests;
