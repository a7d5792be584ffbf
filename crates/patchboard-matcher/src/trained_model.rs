//! The training data: utterances that an app took, and those it should not have had. Everything else is derived from
//! these, so that stored data is small, readable and complete, and forgotten data is gone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use super::classifier::{SoftmaxClassifier, TrainingSample};
use super::features::{FeatureHash, features};
use super::tokenizer::tokenize;
use super::vectors::{self, CompactVector};

mod neighbours;

use neighbours::{IndexSlot, NeighbourIndex, RarityWeighting};

/// Pseudo-app for messages that are for no app. No app can have this name.
pub const NO_APP: &str = "*";

/// Examples kept of each kind per app; the oldest are dropped first. Acknowledgements of our own choices are the least
/// valuable and most common, so they have their own limit and cannot displace what a person said.
const MAX_WEAK: usize = 200;
const MAX_STRONG: usize = 120;
const MAX_NEGATIVE: usize = 120;
/// Bytes of one example, cut between words: the app is usually named early.
const MAX_TEXT_BYTES: usize = 240;
/// Most apps with training data, so that names made up by a client cannot exhaust the memory; labels for further apps
/// are dropped.
const MAX_APPS: usize = 512;
/// A strong label weighs as much as this many acknowledgements.
const STRONG_WEIGHT: f32 = 4.0;
/// Upper bound on the total weight of one app's acknowledgements.
const MAX_WEAK_WEIGHT: f32 = 40.0;
/// Samples the classifier is trained with; of each app the newest.
const MAX_TRAINING_SAMPLES: usize = 4096;
/// Examples whose vectors an utterance is compared with; of each app the newest.
const MAX_COMPARED: usize = 16_384;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelPolarity {
    Positive,
    Negative,
}

/// The weight class of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelStrength {
    /// An app acknowledged what the matcher or a model had chosen; many apps acknowledge everything.
    Weak,
    /// A direct address, a correction by the user, or a rejection.
    Strong,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainingExample {
    /// The app's label count when this example was added, itself included.
    pub number: u64,
    /// Case-folded words joined by single spaces; all numbers are `0`.
    pub text: String,
    pub polarity: LabelPolarity,
    pub strength: LabelStrength,
}

/// All that is stored about one app.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrainingData {
    /// Labels ever given, kept or not.
    pub label_count: u64,
    /// Oldest first.
    pub examples: Vec<TrainingExample>,
}

/// The evidence of the examples for one app.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct AppEvidence {
    /// Number of utterances it took, those labelled by a person weighing more.
    pub(super) example_weight: f32,
    /// The classifier's score; 0 is neutral.
    pub(super) classifier_score: f32,
    /// The similarity (about 0 to 1) of the nearest utterances it took, and of the nearest it should not have had.
    pub(super) nearest_accepted: f32,
    pub(super) nearest_refused: f32,
    /// The same by vectors, -1 to 1: of the nearest utterances it took, and the mean over all.
    pub(super) nearest_vector: f32,
    pub(super) mean_vector: f32,
    /// Number of very similar utterances it took.
    pub(super) similar_count: u32,
    /// A person gave it exactly this text before.
    pub(super) is_same_text: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct TrainedModel {
    /// By name in lower case.
    apps: BTreeMap<Arc<str>, AppExamples>,
    accepted_index: NeighbourIndex,
    /// Separate, so that a refusal does not affect what other apps took.
    refused_index: NeighbourIndex,
    next_app: AppId,
    /// Trained from the settled examples on first use.
    classifier: OnceLock<AppClassifier>,
}

pub(super) type AppId = u32;

#[derive(Debug, Clone, Default)]
struct AppExamples {
    id: AppId,
    label_count: u64,
    examples: Vec<(TrainingExample, IndexSlot)>,
}

#[derive(Debug, Clone)]
struct AppClassifier {
    classes: Vec<AppId>,
    softmax: SoftmaxClassifier,
}

impl TrainedModel {
    pub(super) fn add(&mut self, app: &str, text: &str, polarity: LabelPolarity, strength: LabelStrength) {
        let text = normalized_text(text);
        let Some(app) = Some(app_key(app)).filter(|app| !text.is_empty() && self.is_known_or_new(app)) else { return };
        let count = {
            let known = self.apps.entry(app.as_str().into()).or_insert_with(|| {
                self.next_app += 1;
                AppExamples { id: self.next_app, ..AppExamples::default() }
            });
            known.label_count += 1;
            known.label_count
        };
        if polarity == LabelPolarity::Positive && app != NO_APP {
            // The text has an app after all.
            self.remove_example(NO_APP, &text);
        }
        self.push(&app, TrainingExample { number: count, text, polarity, strength });
        self.prune(&app);
    }

    fn remove_example(&mut self, app: &str, text: &str) {
        let Some(known) = self.apps.get_mut(app) else { return };
        let Some(at) = known.examples.iter().position(|(stored, _)| stored.text == text) else { return };
        let (example, slot) = known.examples.remove(at);
        self.index(example.polarity).remove(slot);
        self.classifier = OnceLock::new();
    }

    pub(super) fn train(&self) {
        self.classifier();
    }

    pub(super) fn example_count(&self) -> usize {
        self.apps.values().map(|app| app.examples.len()).sum()
    }

    fn is_known_or_new(&self, app: &str) -> bool {
        self.apps.len() < MAX_APPS || self.apps.contains_key(app)
    }

    fn index(&mut self, polarity: LabelPolarity) -> &mut NeighbourIndex {
        match polarity {
            LabelPolarity::Positive => &mut self.accepted_index,
            LabelPolarity::Negative => &mut self.refused_index,
        }
    }

    fn push(&mut self, app: &str, example: TrainingExample) {
        let Some(known) = self.apps.get_mut(app) else { return };
        let existing = known.examples.iter().position(|(stored, _)| stored.text == example.text);
        if let Some(at) = existing {
            let overrules = |stored: &TrainingExample| match (stored.strength, example.strength) {
                // Weak labels never replace strong ones; a repeated label changes nothing.
                (LabelStrength::Strong, LabelStrength::Weak) => false,
                (LabelStrength::Weak, LabelStrength::Weak) | (LabelStrength::Strong, LabelStrength::Strong) => {
                    stored.polarity != example.polarity
                }
                (LabelStrength::Weak, LabelStrength::Strong) => true,
            };
            if !known.examples.get(at).is_some_and(|(stored, _)| overrules(stored)) {
                self.settle_at(app);
                return;
            }
            let (stored, slot) = known.examples.remove(at);
            self.index(stored.polarity).remove(slot);
            self.classifier = OnceLock::new();
        }
        let words = tokenize(&example.text);
        let vector = vectors::text_vector(&words).map(|vector| CompactVector::new(&vector));
        let features = features(&words).into_boxed_slice();
        let Some(id) = self.apps.get(app).map(|known| known.id) else { return };
        let slot = self.index(example.polarity).add(id, example.strength, features, vector);
        let Some(known) = self.apps.get_mut(app) else { return };
        if example.is_settled(known.label_count) {
            self.classifier = OnceLock::new();
        }
        known.examples.push((example, slot));
        self.settle_at(app);
    }

    /// At a multiple of the settle step, all earlier examples become visible to the classifier.
    fn settle_at(&mut self, app: &str) {
        if self.apps.get(app).is_some_and(|known| settled(known.label_count) == known.label_count) {
            self.classifier = OnceLock::new();
        }
    }

    /// Runs only when the classifier is retrained anyway, so that it never knows examples that are no longer kept.
    fn prune(&mut self, app: &str) {
        let Some(known) = self.apps.get_mut(app).filter(|known| settled(known.label_count) == known.label_count) else {
            return;
        };
        for (class, limit) in [
            (RetentionClass::Weak, MAX_WEAK),
            (RetentionClass::Strong, MAX_STRONG),
            (RetentionClass::Negative, MAX_NEGATIVE),
        ] {
            let mut excess =
                known.examples.iter().filter(|(stored, _)| stored.class() == class).count().saturating_sub(limit);
            let index =
                if class == RetentionClass::Negative { &mut self.refused_index } else { &mut self.accepted_index };
            known.examples.retain(|(stored, slot)| {
                let is_dropped = excess > 0 && stored.class() == class;
                if is_dropped {
                    excess -= 1;
                    index.remove(*slot);
                }
                !is_dropped
            });
        }
    }

    pub(super) fn forget(&mut self, app: &str) {
        for (example, slot) in self.apps.remove(app_key(app).as_str()).into_iter().flat_map(|app| app.examples) {
            self.index(example.polarity).remove(slot);
        }
        self.classifier = OnceLock::new();
    }

    pub(super) fn label_count(&self, app: &str) -> u64 {
        self.apps.get(app_key(app).as_str()).map_or(0, |app| app.label_count)
    }

    pub(super) fn training_data(&self, app: &str) -> Option<TrainingData> {
        let app = self.apps.get(app_key(app).as_str())?;
        let examples = app.examples.iter().map(|(example, _)| example.clone()).collect();
        Some(TrainingData { label_count: app.label_count, examples })
    }

    /// Replaces the app's data. Examples past the bounds are dropped.
    pub(super) fn replace_training_data(&mut self, app: &str, data: TrainingData) {
        self.forget(app);
        let app = app_key(app);
        if !self.is_known_or_new(&app) {
            return;
        }
        self.next_app += 1;
        self.apps.insert(
            app.as_str().into(),
            AppExamples { id: self.next_app, label_count: data.label_count, examples: Vec::new() },
        );
        let limit = MAX_WEAK + MAX_STRONG + MAX_NEGATIVE + SETTLE_STEPS.last().map_or(0, |(_, step)| *step as usize);
        let excess = data.examples.len().saturating_sub(limit);
        for example in data.examples.into_iter().skip(excess) {
            let text = normalized_text(&example.text);
            if !text.is_empty() {
                self.push(&app, TrainingExample { text, ..example });
            }
        }
        self.prune(&app);
    }

    /// The evidence for each of these apps, in their order, and for "no app".
    pub(super) fn evidence(
        &self,
        features: &[FeatureHash],
        vector: Option<&CompactVector>,
        apps: &[&str],
    ) -> (Vec<AppEvidence>, AppEvidence) {
        let mut evidence = vec![AppEvidence::default(); apps.len() + 1];
        // The position of an app in `apps`, by its id.
        let mut positions: HashMap<AppId, usize> = HashMap::new();
        for (at, (name, evidence)) in apps.iter().chain(&[NO_APP]).zip(&mut evidence).enumerate() {
            if let Some(app) = self.apps.get(app_key(name).as_str()) {
                positions.insert(app.id, at);
                evidence.example_weight = app.example_weight();
                if let Some(vector) = vector {
                    self.compare_vectors(app, vector, evidence);
                }
            }
        }
        if positions.is_empty() {
            let none = evidence.pop().unwrap_or_default();
            return (evidence, none);
        }
        let classifier = self.classifier();
        for (class, score) in classifier.softmax.scores(features).into_iter().enumerate() {
            let at = classifier.classes.get(class).and_then(|id| positions.get(id));
            if let Some(evidence) = at.and_then(|at| evidence.get_mut(*at)) {
                evidence.classifier_score = score;
            }
        }
        let accepted =
            self.accepted_index.find_neighbours(features, &positions, evidence.len(), RarityWeighting::Applied);
        let refused =
            self.refused_index.find_neighbours(features, &positions, evidence.len(), RarityWeighting::Ignored);
        for ((evidence, found), refused) in evidence.iter_mut().zip(accepted).zip(refused) {
            evidence.nearest_accepted = found.nearest_blend;
            evidence.similar_count = found.similar_count;
            evidence.is_same_text = found.is_same_text;
            evidence.nearest_refused = refused.nearest;
        }
        let none = evidence.pop().unwrap_or_default();
        (evidence, none)
    }

    fn compare_vectors(&self, app: &AppExamples, vector: &CompactVector, evidence: &mut AppEvidence) {
        let limit = MAX_COMPARED / self.apps.len().max(1);
        let (mut sum, mut count, mut best) = (0.0, 0.0, [0.0f32; 3]);
        for (example, slot) in app.examples.iter().rev().take(limit) {
            if example.polarity == LabelPolarity::Negative {
                continue;
            }
            let Some(nearness) = self.accepted_index.vector(*slot).map(|other| vector.cosine(other)) else { continue };
            sum += nearness;
            count += 1.0;
            neighbours::insert(&mut best, nearness);
        }
        if count > 0.0 {
            evidence.mean_vector = sum / count;
            evidence.nearest_vector = neighbours::blend(best);
        }
    }

    fn classifier(&self) -> &AppClassifier {
        self.classifier.get_or_init(|| {
            let classes: Vec<AppId> = self.trained_apps().map(|app| app.id).collect();
            let samples = self.settled_samples();
            AppClassifier { softmax: SoftmaxClassifier::train(&samples, classes.len()), classes }
        })
    }

    /// Apps that took something: the others are no class of the classifier.
    fn trained_apps(&self) -> impl Iterator<Item = &AppExamples> {
        self.apps.values().filter(|app| app.settled().any(|one| is_positive(&one)))
    }

    fn settled_samples(&self) -> Vec<TrainingSample<'_>> {
        let mut apps_by_text: HashMap<&str, HashSet<AppId>> = HashMap::new();
        for app in self.apps.values() {
            for (example, _) in &app.examples {
                if (example.polarity, example.strength) == (LabelPolarity::Positive, LabelStrength::Strong) {
                    apps_by_text.entry(&example.text).or_default().insert(app.id);
                }
            }
        }
        // A person gave this text to another app, so an acknowledgement does not count.
        let is_overruled = |app: &AppExamples, example: &TrainingExample| {
            example.strength == LabelStrength::Weak
                && apps_by_text.get(example.text.as_str()).is_some_and(|apps| !apps.contains(&app.id))
        };
        // Only settled examples may count here, or the classifier would depend on when it was last trained.
        let counts: Vec<f32> =
            self.trained_apps().map(|app| app.settled().filter(is_positive).count() as f32).collect();
        let mean = counts.iter().sum::<f32>() / counts.len().max(1) as f32;
        let limit = MAX_TRAINING_SAMPLES / counts.len().max(1);
        let mut samples = Vec::new();
        for (class, (app, example_count)) in self.trained_apps().zip(counts).enumerate() {
            let example_count = example_count.max(1.0);
            let balance = (mean / example_count).clamp(0.5, 2.0);
            let weak = balance * (MAX_WEAK_WEIGHT / example_count).min(1.0);
            let strong = balance * STRONG_WEIGHT;
            let excess = app.settled().filter(is_positive).count().saturating_sub(limit);
            // Refusals count against the refusing app alone, by its nearest examples: as training samples they would
            // push such messages to the remaining apps.
            let retained = app.settled().filter(is_positive).skip(excess).filter(|(one, _)| !is_overruled(app, one));
            for (example, slot) in retained {
                let weight = match example.strength {
                    LabelStrength::Weak => weak,
                    LabelStrength::Strong => strong,
                };
                let features = self.accepted_index.features(*slot);
                samples.push(TrainingSample { features, class, weight });
            }
        }
        samples
    }
}

impl AppExamples {
    /// In units of acknowledgements.
    fn example_weight(&self) -> f32 {
        let weight = |(example, _): &(TrainingExample, IndexSlot)| match example.strength {
            LabelStrength::Weak => 1.0,
            LabelStrength::Strong => STRONG_WEIGHT,
        };
        self.examples.iter().filter(is_positive).map(weight).sum()
    }

    fn settled(&self) -> impl Iterator<Item = &(TrainingExample, IndexSlot)> {
        self.examples.iter().filter(|(example, _)| example.is_settled(self.label_count))
    }
}

fn is_positive((example, _): &&(TrainingExample, IndexSlot)) -> bool {
    example.polarity == LabelPolarity::Positive
}

/// The kinds of examples with separate limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetentionClass {
    Weak,
    Strong,
    Negative,
}

impl TrainingExample {
    fn class(&self) -> RetentionClass {
        match (self.polarity, self.strength) {
            (LabelPolarity::Positive, LabelStrength::Weak) => RetentionClass::Weak,
            (LabelPolarity::Positive, LabelStrength::Strong) => RetentionClass::Strong,
            (LabelPolarity::Negative, LabelStrength::Weak | LabelStrength::Strong) => RetentionClass::Negative,
        }
    }

    /// Strong labels are settled at once; acknowledgements in batches.
    fn is_settled(&self, count: u64) -> bool {
        self.strength == LabelStrength::Strong || self.number <= settled(count)
    }
}

/// Label counts and the batch sizes up to them in which acknowledgements reach the classifier.
const SETTLE_STEPS: &[(u64, u64)] = &[(8, 1), (16, 2), (48, 4), (128, 8), (u64::MAX, 16)];

fn settled(count: u64) -> u64 {
    let step = SETTLE_STEPS.iter().find(|(below, _)| count < *below).map_or(1, |(_, step)| *step);
    count - count % step
}

fn app_key(app: &str) -> String {
    app.to_ascii_lowercase()
}

fn normalized_text(text: &str) -> String {
    let mut normalized = String::new();
    for word in tokenize(text) {
        let text = if word.is_number() { "0" } else { word.text.as_str() };
        if normalized.len() + text.len() >= MAX_TEXT_BYTES {
            break;
        }
        if !normalized.is_empty() {
            normalized.push(' ');
        }
        normalized.push_str(text);
    }
    normalized
}

#[cfg(test)]
mod tests;
