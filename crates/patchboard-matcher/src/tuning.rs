//! The numbers of the matcher in one place. They were found by measurement over several sets of apps and utterances, with
//! others held back to see that they carry over; a little more or less of any of them changes little.

use super::signals::{APP_SIGNALS, NONE_SIGNALS};

#[derive(Debug)]
pub(super) struct Tuning {
    // What the parts of an utterance say.
    /// A phrase known as one, compared with a word's 1.
    pub(super) phrase_weight: f32,
    /// What is left of a word that is part of such a phrase.
    pub(super) inside_phrase: f32,
    /// A vague word that can mean something after all.
    pub(super) vague_known: f32,
    /// That the utterance is about the one it is said to.
    pub(super) self_reference: f32,

    // What the utterance and a description have in common, compared with the same word.
    pub(super) concept: f32,
    pub(super) topic: f32,
    pub(super) spelling: f32,
    /// Keeps utterances of one word from counting more than those of three.
    pub(super) length_floor: f32,

    // What the features of an utterance say, in the order of their classes.
    pub(super) class_weights: [f32; 7],
    pub(super) learning_rate: f32,

    // How all evidence adds up. What grows or fades does so by half at this many examples for each app.
    pub(super) description_half: f32,
    pub(super) experience_half: f32,
    pub(super) near_power: f32,
    /// What each signal of an app counts, in their order, and of none of them.
    pub(super) app_weights: [f32; APP_SIGNALS],
    pub(super) none_weights: [f32; NONE_SIGNALS],
    /// By how much an app is ahead of the others to which a person gave these very words.
    pub(super) same_text_lead: f32,
    pub(super) embedding_weight: f32,
    /// What embedding models say of unrelated texts.
    pub(super) usual_similarity: f32,
    /// That it is like what an app should not have had: against that app; and for none of them, like what was given up
    /// and what was refused and taken by nobody.
    pub(super) refused_penalty: f32,
    pub(super) none_near: f32,
    pub(super) none_refused: f32,

    /// From here on a part of an utterance can have an app of its own.
    pub(super) part_confidence: f32,
}

pub(super) const TUNING: Tuning = Tuning {
    phrase_weight: 1.5,
    inside_phrase: 0.8,
    vague_known: 0.45,
    self_reference: 1.0,
    concept: 0.78,
    topic: 0.6,
    spelling: 0.6,
    length_floor: 0.5,
    class_weights: [0.6, 0.75, 0.2, 0.55, 0.6, 0.45, 0.35],
    learning_rate: 0.25,
    description_half: 80.0,
    experience_half: 8.0,
    near_power: 0.8,
    app_weights: [3.87, 0.37, 5.55, 2.43, 0.62, 1.29, 4.86, 4.59, -0.56],
    none_weights: [0.28, 0.56, 3.07, 2.27, 0.64, 0.04],
    same_text_lead: 6.0,
    embedding_weight: 8.0,
    usual_similarity: 0.3,
    refused_penalty: 7.0,
    none_near: 6.0,
    none_refused: 1.0,
    part_confidence: 0.6,
};
