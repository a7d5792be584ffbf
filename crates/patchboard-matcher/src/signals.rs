//! All evidence for an app, or for "no app", as a few numbers. Their weights were fitted to the tuning files of
//! `bench/routing` by its `fit.py`.

use std::sync::Arc;

use super::profile::CompiledProfile;
use super::query::Query;
use super::trained_model::AppEvidence;
use super::tuning::{APP_SIGNALS, NONE_SIGNALS, TUNING};

/// Similarity of an utterance and a description, before training.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct DescriptionSimilarity {
    /// Overlap of words and concepts.
    pub(super) shared_terms: f32,
    /// Similarity of the whole texts, and of each word to its nearest one.
    pub(super) whole_text: f32,
    pub(super) word_by_word: f32,
}

/// Apps compared word by word: those that score best otherwise.
const MAX_COMPARED: usize = 32;

impl DescriptionSimilarity {
    pub(super) fn new(query: &Query, profile: &CompiledProfile) -> DescriptionSimilarity {
        let mut similarity = DescriptionSimilarity::quick(query, profile);
        similarity.add_word_similarity(query, profile);
        similarity
    }

    /// The similarities to all these profiles, in their order.
    pub(super) fn all(query: &Query, profiles: &[Arc<CompiledProfile>]) -> Vec<DescriptionSimilarity> {
        let mut all: Vec<DescriptionSimilarity> =
            profiles.iter().map(|profile| DescriptionSimilarity::quick(query, profile)).collect();
        let mut order: Vec<usize> = (0..all.len()).collect();
        if order.len() > MAX_COMPARED {
            let quick_score = |at: &usize| all.get(*at).map_or(0.0, |one| one.shared_terms + one.whole_text);
            order.sort_by(|a, b| quick_score(b).total_cmp(&quick_score(a)));
            order.truncate(MAX_COMPARED);
        }
        for at in order {
            if let (Some(similarity), Some(profile)) = (all.get_mut(at), profiles.get(at)) {
                similarity.add_word_similarity(query, profile);
            }
        }
        all
    }

    fn quick(query: &Query, profile: &CompiledProfile) -> DescriptionSimilarity {
        let length = (query.weight + TUNING.length_floor).sqrt();
        DescriptionSimilarity {
            shared_terms: profile.overlap(query) / length,
            whole_text: profile.similarity_to_query(query),
            word_by_word: 0.0,
        }
    }

    fn add_word_similarity(&mut self, query: &Query, profile: &CompiledProfile) {
        let compared_weight: f32 = query.words.iter().map(|word| word.weight).sum();
        self.word_by_word = profile.word_similarity(query) / (compared_weight + TUNING.length_floor).sqrt();
    }
}

pub(super) fn app_signals(similarity: &DescriptionSimilarity, evidence: &AppEvidence) -> [f32; APP_SIGNALS] {
    let growth = |half: f32| evidence.example_weight / (evidence.example_weight + half);
    let description_weight = 1.0 - growth(TUNING.description_half);
    let experience_weight = growth(TUNING.experience_half);
    let near = evidence.nearest_accepted.min(1.0).powf(TUNING.near_power);
    [
        similarity.shared_terms * description_weight,
        similarity.whole_text,
        similarity.whole_text * description_weight,
        similarity.word_by_word * description_weight,
        evidence.classifier_score * experience_weight,
        near * experience_weight,
        evidence.nearest_vector * experience_weight,
        evidence.mean_vector * experience_weight,
        experience_weight,
    ]
}

pub(super) fn none_signals(
    background: &DescriptionSimilarity,
    similarities: &[DescriptionSimilarity],
    experience: f32,
) -> [f32; NONE_SIGNALS] {
    [
        1.0,
        experience,
        background.shared_terms,
        background.whole_text,
        background.word_by_word,
        // A high overlap says less about whether an app is meant than about which one.
        similarities.iter().map(|one| one.shared_terms).fold(0.0, f32::max),
    ]
}

/// How much was learned for all of these apps together: 0 is nothing, 1 the maximum that helps.
pub(super) fn experience(evidence: &[AppEvidence]) -> f32 {
    let examples = evidence.iter().map(|one| one.example_weight).sum::<f32>() / evidence.len().max(1) as f32;
    examples / (examples + TUNING.experience_half)
}
