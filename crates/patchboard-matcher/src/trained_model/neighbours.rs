//! Finds the examples most similar to an utterance, by shared features.

use std::collections::HashMap;

use super::{AppId, LabelStrength};
use crate::features::FeatureHash;
use crate::vectors::CompactVector;

/// A feature in more examples than this, and in more than this fraction of all, is not used to find candidates.
const MAX_POSTINGS: usize = 64;
const COMMON_FRACTION: usize = 6;
/// Factor for the similarity of an example labelled by a person.
const STRONG_BONUS: f32 = 1.3;
/// Similarity from which two utterances count as similar.
const SIMILAR_FROM: f32 = 0.5;
/// Similarity from which two utterances count as the same.
const IDENTICAL_FROM: f32 = 0.98;

/// Added to the number of examples without a feature: three examples do not make a word common.
const RARITY_SMOOTHING: f32 = 50.0;

pub(super) type IndexSlot = u32;

#[derive(Debug, Clone, Default)]
pub(super) struct NeighbourIndex {
    /// The examples that have a feature.
    slots_by_feature: HashMap<FeatureHash, Vec<IndexSlot>>,
    slots: Vec<Option<IndexedExample>>,
    free: Vec<IndexSlot>,
}

#[derive(Debug, Clone)]
struct IndexedExample {
    app: AppId,
    strength: LabelStrength,
    features: Box<[FeatureHash]>,
    vector: Option<CompactVector>,
    size: f32,
}

impl NeighbourIndex {
    pub(super) fn add(
        &mut self,
        app: AppId,
        strength: LabelStrength,
        features: Box<[FeatureHash]>,
        vector: Option<CompactVector>,
    ) -> IndexSlot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as IndexSlot
        });
        for feature in &features {
            self.slots_by_feature.entry(*feature).or_default().push(slot);
        }
        let size = size(&features);
        if let Some(entry) = self.slots.get_mut(slot as usize) {
            *entry = Some(IndexedExample { app, strength, features, vector, size });
        }
        slot
    }

    pub(super) fn remove(&mut self, slot: IndexSlot) {
        let Some(entry) = self.slots.get_mut(slot as usize).and_then(Option::take) else { return };
        self.free.push(slot);
        for feature in &entry.features {
            if let Some(postings) = self.slots_by_feature.get_mut(feature) {
                postings.retain(|posting| *posting != slot);
                if postings.is_empty() {
                    self.slots_by_feature.remove(feature);
                }
            }
        }
    }

    pub(super) fn features(&self, slot: IndexSlot) -> &[FeatureHash] {
        self.slots.get(slot as usize).and_then(Option::as_ref).map_or(&[], |entry| &entry.features)
    }

    pub(super) fn vector(&self, slot: IndexSlot) -> Option<&CompactVector> {
        self.slots.get(slot as usize)?.as_ref()?.vector.as_ref()
    }

    /// The scores of the most similar examples, for each of `count` apps.
    pub(super) fn find_neighbours(
        &self,
        features: &[FeatureHash],
        positions: &HashMap<AppId, usize>,
        count: usize,
        rarity: RarityWeighting,
    ) -> Vec<NeighbourScores> {
        let mut result = vec![NeighbourScores::default(); count];
        let example_count = self.slots.len() - self.free.len();
        let mut shared = vec![0.0f32; self.slots.len()];
        let mut found: Vec<IndexSlot> = Vec::new();
        let mut query_weight = f32::MIN_POSITIVE;
        for feature in features {
            let postings = self.slots_by_feature.get(feature).map_or(&[][..], Vec::as_slice);
            let rare = match rarity {
                RarityWeighting::Applied => {
                    ((example_count as f32 + RARITY_SMOOTHING) / (postings.len() as f32 + 0.5)).ln().max(0.1)
                }
                RarityWeighting::Ignored => 1.0,
            };
            let rarity = feature.weight() * rare;
            query_weight += rarity * rarity;
            if postings.len() > MAX_POSTINGS && postings.len() > example_count / COMMON_FRACTION {
                continue;
            }
            for slot in postings {
                if let Some(shared) = shared.get_mut(*slot as usize) {
                    if *shared == 0.0 {
                        found.push(*slot);
                    }
                    *shared += rarity * rarity;
                }
            }
        }
        let mut best = vec![[0.0f32; 3]; count];
        let size = size(features);
        for slot in found {
            let Some(Some(entry)) = self.slots.get(slot as usize) else { continue };
            let Some(&at) = positions.get(&entry.app) else { continue };
            let (Some(app), Some(best)) = (result.get_mut(at), best.get_mut(at)) else { continue };
            let shared = shared.get(slot as usize).copied().unwrap_or(0.0);
            let similarity = (shared / query_weight * (size / entry.size).sqrt()).min(1.0);
            let score = match entry.strength {
                LabelStrength::Weak => similarity,
                LabelStrength::Strong => similarity * STRONG_BONUS,
            };
            app.similar_count += u32::from(similarity > SIMILAR_FROM);
            app.is_same_text |= similarity > IDENTICAL_FROM && entry.strength == LabelStrength::Strong;
            app.nearest = app.nearest.max(score);
            insert(best, score);
        }
        for (app, best) in result.iter_mut().zip(best) {
            app.nearest_blend = blend(best);
        }
        result
    }
}

/// Whether features in few examples weigh more than those in many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RarityWeighting {
    Applied,
    /// The similarity of two examples does not depend on the others.
    Ignored,
}

/// An app's examples that are similar to an utterance.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NeighbourScores {
    /// A blend of the three highest similarities, and the highest alone.
    pub(super) nearest_blend: f32,
    pub(super) nearest: f32,
    /// Number of very similar examples.
    pub(super) similar_count: u32,
    /// Whether one that a person labelled is the same text.
    pub(super) is_same_text: bool,
}

/// Combines the three highest similarities.
pub(super) fn blend([first, second, third]: [f32; 3]) -> f32 {
    0.6 * first + 0.25 * second + 0.15 * third
}

/// Keeps the three highest values in descending order.
pub(super) fn insert(best: &mut [f32; 3], mut value: f32) {
    for kept in best {
        if value > *kept {
            std::mem::swap(kept, &mut value);
        }
    }
}

fn size(features: &[FeatureHash]) -> f32 {
    features.iter().map(|feature| feature.weight().powi(2)).sum::<f32>().max(f32::MIN_POSITIVE)
}
