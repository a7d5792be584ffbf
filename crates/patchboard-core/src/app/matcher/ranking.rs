//! From evidence to confidence, and from confidence to a choice.

use std::sync::Arc;

use super::knobs::KNOBS;
use super::learned::Evidence;
use super::query::Query;
use super::signals::{self, Likeness};

/// The apps an utterance may be meant for, best first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    pub candidates: Vec<Candidate>,
    /// Places of those whose part of the utterance is clearly theirs; two or more, or none.
    several: Vec<usize>,
    /// How much was learned for these apps, 0 to 1.
    experience: f32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub app: Arc<str>,
    /// How well it fits by itself, 0 to 1, whoever else fits.
    pub score: f32,
    /// How probable it is that this app is meant. All together are at most 1, the rest being none of them, unless the
    /// utterance has parts for several.
    pub confidence: f32,
    /// Short evidence for people to read.
    pub why: Vec<Arc<str>>,
}

/// When to deliver: how sure the matcher has to be. The more was learned the more is delivered, and the surer each
/// delivery has to be for the wrong ones to stay as few.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// The least confidence before anything was learned.
    pub untaught: f32,
    /// The least confidence when much was learned.
    pub taught: f32,
    /// By how much it must be above that of the next.
    pub margin: f32,
    /// The least confidence when there is only one app: nobody else could have been meant.
    pub lone: f32,
    /// The least confidence of each of several.
    pub several: f32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Places among the candidates; more than one only when several are clearly meant.
    Deliver(Vec<usize>),
    Unsure,
}

impl Policy {
    /// About one message in a hundred goes to a wrong app. Like the others it was read from the tuning files, each judged by
    /// weights that were fitted to the rest, and all but that of a bank, whose apps are close to each other, keep to it.
    pub const CAREFUL: Policy = Policy { untaught: 0.96, taught: 0.98, margin: 0.1, lone: 0.6, several: 0.9 };
    /// About three.
    pub const BALANCED: Policy = Policy { untaught: 0.82, taught: 0.95, margin: 0.1, lone: 0.38, several: 0.8 };
    /// About eight.
    pub const EAGER: Policy = Policy { untaught: 0.58, taught: 0.69, margin: 0.1, lone: 0.25, several: 0.65 };

    fn threshold(self, experience: f32) -> f32 {
        self.untaught + (self.taught - self.untaught) * experience
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::BALANCED
    }
}

impl Ranking {
    pub(super) fn new(candidates: Vec<Candidate>, several: Vec<usize>, experience: f32) -> Self {
        Self { candidates, several, experience }
    }

    /// The least confidence with which an app is delivered to.
    pub fn threshold(&self, policy: Policy) -> f32 {
        let threshold = policy.threshold(self.experience);
        if self.candidates.len() == 1 { threshold.min(policy.lone) } else { threshold }
    }

    pub fn choose(&self, policy: Policy) -> Choice {
        self.choose_from(policy, |_| true)
    }

    /// The others keep their share of the confidence: that they cannot have it makes nobody else more probable.
    pub fn choose_from(&self, policy: Policy, is_open: impl Fn(&Candidate) -> bool) -> Choice {
        let confidence = |place: usize| self.candidates.get(place).map_or(0.0, |candidate| candidate.confidence);
        let open: Vec<usize> =
            self.candidates.iter().enumerate().filter(|(_, one)| is_open(one)).map(|(place, _)| place).collect();
        let are_open = self.several.iter().all(|place| open.contains(place));
        if self.several.len() > 1 && are_open && self.several.iter().all(|place| confidence(*place) >= policy.several) {
            return Choice::Deliver(self.several.clone());
        }
        let next = open.get(1).map_or(0.0, |place| confidence(*place));
        let is_clear = |best: f32| best >= self.threshold(policy) && best - next >= policy.margin;
        match open.first() {
            Some(&best) if is_clear(confidence(best)) => Choice::Deliver(vec![best]),
            _ => Choice::Unsure,
        }
    }
}

/// How well each app fits an utterance, and none of them: logarithms of odds, but for a constant.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Fits {
    apps: Vec<Fit>,
    none: f32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Fit {
    odds: f32,
    /// How much what it refused speaks against it.
    refused: f32,
}

impl Fits {
    pub(super) fn new(
        query: &Query,
        background: &Likeness,
        likenesses: &[Likeness],
        evidence: &[Evidence],
        none: &Evidence,
    ) -> Fits {
        let apps = likenesses.iter().zip(evidence).map(|(likeness, evidence)| {
            let is_strange = query.vector.is_none() && likeness.common <= 0.0 && evidence.near <= 0.0;
            let odds = if is_strange {
                // Words that nobody knows speak for nobody.
                f32::NEG_INFINITY
            } else {
                weighted(&signals::of_app(likeness, evidence), &KNOBS.app_weights)
            };
            Fit { odds, refused: KNOBS.refused * evidence.near_wrong }
        });
        let of_none = signals::of_none(background, likenesses, signals::experience(evidence));
        let refused = evidence.iter().map(|one| one.near_wrong).fold(0.0, f32::max);
        let taken = evidence.iter().map(|one| one.near).fold(0.0, f32::max);
        let refused = if refused > taken { refused } else { 0.0 };
        let learned = KNOBS.none_near * none.near + KNOBS.none_refused * refused;
        let mut fits = Fits { apps: apps.collect(), none: weighted(&of_none, &KNOBS.none_weights) + learned };
        // What a person said once need not be said again, whatever else the words are like.
        let highest = fits.highest() + KNOBS.same;
        if none.is_same {
            fits.none = highest;
        }
        for (fit, _) in fits.apps.iter_mut().zip(evidence).filter(|(_, evidence)| evidence.is_same) {
            fit.odds = highest;
        }
        fits
    }

    fn highest(&self) -> f32 {
        self.apps.iter().map(|fit| fit.odds).fold(self.none, f32::max)
    }

    /// What an embedding model says, in the order of the apps.
    pub(super) fn add(&mut self, more: impl Iterator<Item = f32>) {
        self.apps.iter_mut().zip(more).for_each(|(fit, more)| fit.odds += more);
    }

    /// 0 to 1, whoever else fits.
    pub(super) fn score(&self, app: usize) -> f32 {
        let fit = self.apps.get(app).map_or(f32::NEG_INFINITY, |fit| fit.odds - fit.refused);
        1.0 / (1.0 + (self.none - fit).exp())
    }

    /// The probability of each app, none of them being possible too. What is taken from an app because of what it
    /// refused goes to none of them: nobody else becomes more probable by it.
    pub(super) fn confidences(&self) -> Vec<f32> {
        let highest = self.highest();
        let all = self.apps.iter().map(|fit| (fit.odds - highest).exp()).sum::<f32>() + (self.none - highest).exp();
        self.apps.iter().map(|fit| (fit.odds - highest - fit.refused).exp() / all).collect()
    }
}

fn weighted(signals: &[f32], weights: &[f32]) -> f32 {
    signals.iter().zip(weights).map(|(signal, weight)| signal * weight).sum()
}

#[cfg(test)]
mod tests;
