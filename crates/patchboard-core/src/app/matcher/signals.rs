//! All that speaks for an app, or for none of them, as a few numbers. How much each of them counts was fitted to the
//! tuning files of `bench/routing` by `fit.py` there.

use std::sync::Arc;

use super::knobs::KNOBS;
use super::learned::Evidence;
use super::profile::Profile;
use super::query::Query;

/// What an utterance has in common with a description, before anything was learned.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Likeness {
    /// Words and concepts in common.
    pub(super) common: f32,
    /// The nearness of the whole to the whole, and of its words to the nearest ones.
    pub(super) whole: f32,
    pub(super) words: f32,
}

/// Apps that are compared with an utterance word by word: those that are nearest otherwise.
const MOST_COMPARED: usize = 32;

impl Likeness {
    pub(super) fn new(query: &Query, profile: &Profile) -> Likeness {
        let mut likeness = Likeness::at_a_glance(query, profile);
        likeness.compare(query, profile);
        likeness
    }

    /// Of all these descriptions, in their order.
    pub(super) fn all(query: &Query, profiles: &[Arc<Profile>]) -> Vec<Likeness> {
        let mut all: Vec<Likeness> = profiles.iter().map(|profile| Likeness::at_a_glance(query, profile)).collect();
        let mut order: Vec<usize> = (0..all.len()).collect();
        if order.len() > MOST_COMPARED {
            let glance = |at: &usize| all.get(*at).map_or(0.0, |one| one.common + one.whole);
            order.sort_by(|a, b| glance(b).total_cmp(&glance(a)));
            order.truncate(MOST_COMPARED);
        }
        for at in order {
            if let (Some(likeness), Some(profile)) = (all.get_mut(at), profiles.get(at)) {
                likeness.compare(query, profile);
            }
        }
        all
    }

    fn at_a_glance(query: &Query, profile: &Profile) -> Likeness {
        let length = (query.weight + KNOBS.length_floor).sqrt();
        Likeness { common: profile.common(query) / length, whole: profile.nearness(query), words: 0.0 }
    }

    fn compare(&mut self, query: &Query, profile: &Profile) {
        let compared: f32 = query.words.iter().map(|word| word.weight).sum();
        self.words = profile.word_nearness(query) / (compared + KNOBS.length_floor).sqrt();
    }
}

/// The numbers of one app. Those of what was learned grow with its examples, those of its description fade.
pub(super) const APP_SIGNALS: usize = 9;

pub(super) fn of_app(likeness: &Likeness, evidence: &Evidence) -> [f32; APP_SIGNALS] {
    let grown = |half: f32| evidence.examples / (evidence.examples + half);
    let cold = 1.0 - grown(KNOBS.cold_fade);
    let soon = grown(KNOBS.soon);
    let near = evidence.near.min(1.0).powf(KNOBS.near_power);
    [
        likeness.common * cold,
        likeness.whole,
        likeness.whole * cold,
        likeness.words * cold,
        evidence.linear * soon,
        near * soon,
        evidence.near_vector * soon,
        evidence.mean_vector * soon,
        soon,
    ]
}

/// The numbers of none of them.
pub(super) const NONE_SIGNALS: usize = 6;

pub(super) fn of_none(background: &Likeness, likenesses: &[Likeness], experience: f32) -> [f32; NONE_SIGNALS] {
    [
        1.0,
        experience,
        background.common,
        background.whole,
        background.words,
        // That some app has much in common with it says less about whether it is meant than about which one is.
        likenesses.iter().map(|one| one.common).fold(0.0, f32::max),
    ]
}

/// How much was learned for all of these apps together: 0 is nothing, 1 as much as helps.
pub(super) fn experience(evidence: &[Evidence]) -> f32 {
    let examples = evidence.iter().map(|one| one.examples).sum::<f32>() / evidence.len().max(1) as f32;
    examples / (examples + KNOBS.soon)
}
