//! From evidence to confidence, and from confidence to a choice.

use std::sync::Arc;

use super::knobs::KNOBS;
use super::learned::Evidence;

/// The apps an utterance may be meant for, best first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    pub candidates: Vec<Candidate>,
    /// Places of those whose part of the utterance is clearly theirs; two or more, or none.
    several: Vec<usize>,
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

/// When to deliver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// The least confidence.
    pub threshold: f32,
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
    /// Rather asks than errs.
    pub const STRICT: Policy = Policy { threshold: 0.88, margin: 0.4, lone: 0.75, several: 0.9 };
    pub const BALANCED: Policy = Policy { threshold: 0.7, margin: 0.25, lone: 0.6, several: 0.8 };
    /// Rather errs than asks.
    pub const LOOSE: Policy = Policy { threshold: 0.45, margin: 0.1, lone: 0.5, several: 0.7 };
}

impl Default for Policy {
    fn default() -> Self {
        Self::BALANCED
    }
}

impl Ranking {
    pub(super) fn new(candidates: Vec<Candidate>, several: Vec<usize>) -> Self {
        Self { candidates, several }
    }

    pub fn choose(&self, policy: Policy) -> Choice {
        let confidence = |place: usize| self.candidates.get(place).map_or(0.0, |candidate| candidate.confidence);
        if self.several.len() > 1 && self.several.iter().all(|place| confidence(*place) >= policy.several) {
            return Choice::Deliver(self.several.clone());
        }
        let threshold = if self.candidates.len() == 1 { policy.lone } else { policy.threshold };
        let is_clear = confidence(0) >= threshold && confidence(0) - confidence(1) >= policy.margin;
        if is_clear && !self.candidates.is_empty() { Choice::Deliver(vec![0]) } else { Choice::Unsure }
    }
}

/// All evidence for one app in one number: the logarithm of its odds but for a constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fit(f32);

impl Fit {
    pub(super) fn all(common: impl Iterator<Item = f32>, evidence: &[Evidence]) -> Vec<Fit> {
        common
            .zip(evidence)
            .map(|(common, evidence)| {
                // By its own examples, so that one that comes late is not measured by what others have learned.
                let grown = |by: f32| evidence.examples / (evidence.examples + by);
                let cold = KNOBS.cold_scale * common * (1.0 - grown(KNOBS.cold_fade));
                let linear = KNOBS.linear * evidence.linear * grown(KNOBS.linear_grow);
                let near = evidence.near.powf(KNOBS.near_power) - KNOBS.near_usual;
                // What a person said once need not be said again.
                let same = if evidence.is_same { KNOBS.same } else { 0.0 };
                Fit(cold + linear + same + KNOBS.near * (near * grown(KNOBS.near_grow) - evidence.near_wrong))
            })
            .collect()
    }

    pub(super) fn add(&mut self, more: f32) {
        self.0 += more;
    }

    pub(super) fn score(self, evidence: &[Evidence]) -> f32 {
        let examples = mean_examples(evidence);
        1.0 / (1.0 + (sharpness(examples) * (none(examples) - self.0)).exp())
    }
}

/// The probability of each app, none of them being possible too.
pub(super) fn confidences(fits: &[Fit], evidence: &[Evidence]) -> Vec<f32> {
    let examples = mean_examples(evidence);
    let none = none(examples);
    let highest = fits.iter().map(|fit| fit.0).fold(none, f32::max);
    let odds = |fit: f32| (sharpness(examples) * (fit - highest)).exp();
    let all = fits.iter().map(|fit| odds(fit.0)).sum::<f32>() + odds(none);
    fits.iter().map(|fit| odds(fit.0) / all).collect()
}

/// What an app must reach to be as probable as none of them.
fn none(examples: f32) -> f32 {
    KNOBS.none + KNOBS.none_learned * examples / (examples + 10.0)
}

/// Descriptions alone are right more often than their small numbers say.
fn sharpness(examples: f32) -> f32 {
    1.0 + KNOBS.cold_sharpness * 5.0 / (5.0 + examples)
}

fn mean_examples(evidence: &[Evidence]) -> f32 {
    evidence.iter().map(|one| one.examples).sum::<f32>() / evidence.len().max(1) as f32
}

#[cfg(test)]
mod tests;
