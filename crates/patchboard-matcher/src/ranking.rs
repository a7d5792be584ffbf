//! Turns evidence into confidence, and confidence into a choice.

use std::sync::Arc;

use super::query::Query;
use super::signals::{self, DescriptionSimilarity};
use super::trained_model::AppEvidence;
use super::tuning::TUNING;

/// The apps an utterance may be meant for, best first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AppRanking {
    pub candidates: Vec<RankedApp>,
    /// Indices of candidates that clearly match a clause of their own; two or more, or none.
    clause_winners: Vec<usize>,
    /// How much was learned for these apps, 0 to 1.
    experience: f32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RankedApp {
    pub app: Arc<str>,
    /// How well the app fits by itself, 0 to 1, whatever the others score.
    pub score: f32,
    /// The probability that this app is meant. All together are at most 1, the rest being "no app", unless the
    /// utterance has clauses for several.
    pub confidence: f32,
    /// Short evidence for people to read.
    pub reasons: Vec<Arc<str>>,
}

/// The confidence required for a delivery. The more was learned the more is delivered, so each delivery needs a higher
/// confidence to keep the number of wrong ones low.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfidencePolicy {
    /// Least confidence before any training.
    pub min_untrained: f32,
    /// Least confidence after much training.
    pub min_trained: f32,
    /// Least lead over the next candidate.
    pub margin: f32,
    /// Least confidence when there is only one app: no other could be meant.
    pub min_single_app: f32,
    /// Least confidence of each of several recipients.
    pub min_each_of_several: f32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankingChoice {
    /// Indices of candidates; more than one only when several are clearly meant.
    Deliver(Vec<usize>),
    Unsure,
}

impl ConfidencePolicy {
    /// About 1 % of messages go to a wrong app. Like the other levels, chosen on the tuning files, each scored with
    /// weights fitted to the others; all sets keep to it but that of a bank, whose apps resemble each other.
    pub const CAREFUL: ConfidencePolicy = ConfidencePolicy {
        min_untrained: 0.96,
        min_trained: 0.98,
        margin: 0.1,
        min_single_app: 0.6,
        min_each_of_several: 0.9,
    };
    /// About 3 %.
    pub const BALANCED: ConfidencePolicy = ConfidencePolicy {
        min_untrained: 0.82,
        min_trained: 0.95,
        margin: 0.1,
        min_single_app: 0.38,
        min_each_of_several: 0.8,
    };
    /// About 8 %.
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

    /// Chooses among the open candidates. The others keep their share of the confidence: that they are excluded makes
    /// no other app more probable.
    pub fn choose_among(&self, policy: ConfidencePolicy, is_open: impl Fn(&RankedApp) -> bool) -> RankingChoice {
        let confidence = |index: usize| self.candidates.get(index).map_or(0.0, |candidate| candidate.confidence);
        let open: Vec<usize> =
            self.candidates.iter().enumerate().filter(|(_, one)| is_open(one)).map(|(index, _)| index).collect();
        let are_open = self.clause_winners.iter().all(|index| open.contains(index));
        if self.clause_winners.len() > 1
            && are_open
            && self.clause_winners.iter().all(|index| confidence(*index) >= policy.min_each_of_several)
        {
            return RankingChoice::Deliver(self.clause_winners.clone());
        }
        let next = open.get(1).map_or(0.0, |index| confidence(*index));
        let is_clear = |best: f32| best >= self.threshold(policy) && best - next >= policy.margin;
        match open.first() {
            Some(&best) if is_clear(confidence(best)) => RankingChoice::Deliver(vec![best]),
            _ => RankingChoice::Unsure,
        }
    }
}

/// Log-odds of each app and of "no app", up to a constant.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct OddsTable {
    apps: Vec<AppOdds>,
    none_log_odds: f32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct AppOdds {
    log_odds: f32,
    /// Subtracted for similarity to messages that the app refused.
    refusal_penalty: f32,
}

impl OddsTable {
    pub(super) fn new(
        query: &Query,
        background: &DescriptionSimilarity,
        similarities: &[DescriptionSimilarity],
        evidence: &[AppEvidence],
        none: &AppEvidence,
    ) -> OddsTable {
        let apps = similarities.iter().zip(evidence).map(|(similarity, evidence)| {
            let is_unknown_text =
                query.vector.is_none() && similarity.shared_terms <= 0.0 && evidence.nearest_accepted <= 0.0;
            let log_odds = if is_unknown_text {
                // A text without any known word is no evidence for any app.
                f32::NEG_INFINITY
            } else {
                weighted(&signals::app_signals(similarity, evidence), &TUNING.app_weights)
            };
            AppOdds { log_odds, refusal_penalty: TUNING.refused_penalty * evidence.nearest_refused }
        });
        let none_signals = signals::none_signals(background, similarities, signals::experience(evidence));
        let refused = evidence.iter().map(|one| one.nearest_refused).fold(0.0, f32::max);
        let accepted = evidence.iter().map(|one| one.nearest_accepted).fold(0.0, f32::max);
        let refused = if refused > accepted { refused } else { 0.0 };
        let learned = TUNING.none_near * none.nearest_accepted + TUNING.none_refused * refused;
        let mut odds =
            OddsTable { apps: apps.collect(), none_log_odds: weighted(&none_signals, &TUNING.none_weights) + learned };
        // A person's label for exactly this text outranks all other evidence.
        let highest = odds.highest() + TUNING.same_text_lead;
        if none.is_same_text {
            odds.none_log_odds = highest;
        }
        for (app, _) in odds.apps.iter_mut().zip(evidence).filter(|(_, evidence)| evidence.is_same_text) {
            app.log_odds = highest;
        }
        odds
    }

    fn highest(&self) -> f32 {
        self.apps.iter().map(|app| app.log_odds).fold(self.none_log_odds, f32::max)
    }

    /// Adds log-odds from an embedding model, in the order of the apps.
    pub(super) fn add(&mut self, more: impl Iterator<Item = f32>) {
        self.apps.iter_mut().zip(more).for_each(|(app, more)| app.log_odds += more);
    }

    /// 0 to 1, independent of the other apps.
    pub(super) fn score(&self, app: usize) -> f32 {
        let log_odds = self.apps.get(app).map_or(f32::NEG_INFINITY, |odds| odds.log_odds - odds.refusal_penalty);
        1.0 / (1.0 + (self.none_log_odds - log_odds).exp())
    }

    /// The probability of each app; the rest up to 1 is "no app". A refusal penalty moves probability to "no app", not
    /// to the other apps.
    pub(super) fn confidences(&self) -> Vec<f32> {
        let highest = self.highest();
        let all = self.apps.iter().map(|app| (app.log_odds - highest).exp()).sum::<f32>()
            + (self.none_log_odds - highest).exp();
        self.apps.iter().map(|app| (app.log_odds - highest - app.refusal_penalty).exp() / all).collect()
    }
}

fn weighted(signals: &[f32], weights: &[f32]) -> f32 {
    signals.iter().zip(weights).map(|(signal, weight)| signal * weight).sum()
}

#[cfg(test)]
mod tests;
