//! All constants of the matcher. Found by measurement over several sets of apps and utterances, with others held out to
//! check that they generalise; small changes of any of them have little effect.

/// Number of signals of an app. Those from training grow with its examples, those from its description fade.
pub(super) const APP_SIGNALS: usize = 9;
/// Number of signals of "no app".
pub(super) const NONE_SIGNALS: usize = 6;

#[derive(Debug)]
pub(super) struct Tuning {
    // Weights of the parts of an utterance.
    /// A known phrase, relative to 1 for a word.
    pub(super) phrase_weight: f32,
    /// Factor for a word inside such a phrase.
    pub(super) inside_phrase: f32,
    /// A vague word that the lexicon knows.
    pub(super) vague_known: f32,
    /// The weight of addressing the assistant itself.
    pub(super) self_reference: f32,

    // Weights of matches between utterance and description, relative to a match of the same word.
    pub(super) concept: f32,
    pub(super) topic: f32,
    pub(super) spelling: f32,
    /// Keeps one-word utterances from scoring higher than those of three words.
    pub(super) length_floor: f32,

    // Weights of feature classes, in the order of [`FeatureClass`](super::features::FeatureClass).
    pub(super) class_weights: [f32; 7],
    pub(super) learning_rate: f32,

    // Combination of all evidence. The `_half` values are the examples per app at which a weight has grown or faded by
    // half.
    pub(super) description_half: f32,
    pub(super) experience_half: f32,
    pub(super) near_power: f32,
    /// Weights of the signals of an app, and of "no app", in signal order.
    pub(super) app_weights: [f32; APP_SIGNALS],
    pub(super) none_weights: [f32; NONE_SIGNALS],
    /// Lead over the others of an app to which a person gave exactly this text.
    pub(super) same_text_lead: f32,
    pub(super) embedding_weight: f32,
    /// Typical embedding similarity of unrelated texts.
    pub(super) usual_similarity: f32,
    /// Weights of similarity to refused messages: against the refusing app, and for "no app" where the text is like
    /// cancelled messages, or like messages that were refused and not taken by another app.
    pub(super) refused_penalty: f32,
    pub(super) none_near: f32,
    pub(super) none_refused: f32,

    /// Least confidence with which a clause gets an app of its own.
    pub(super) clause_confidence: f32,
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
    clause_confidence: 0.6,
};
