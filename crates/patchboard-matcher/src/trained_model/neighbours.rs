//! The examples most like an utterance, found through the features they share.

use std::collections::HashMap;

use super::{AppId, LabelStrength};
use crate::features::FeatureHash;
use crate::vectors::CompactVector;

/// A feature that so many examples have, and so large a share of all, does not find the like ones.
const MAX_POSTINGS: usize = 64;
const COMMON_FRACTION: usize = 6;
/// What a person said is nearer than what was only acknowledged.
const STRONG_BONUS: f32 = 1.3;
/// From this likeness on, one would call two utterances alike.
const SIMILAR_FROM: f32 = 0.5;
/// And from this one on, the same.
const IDENTICAL_FROM: f32 = 0.98;

/// As if there were so many more examples without the feature: three examples do not make a word common.
const RARITY_SMOOTHING: f32 = 50.0;

pub(super) type IndexSlot = u32;

#[derive(Debug, Clone, Default)]
pub(super) struct NeighbourIndex {
    /// Which examples have a feature.
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
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(IndexedExample { app, strength, features, vector, size });
        }
        slot
    }

    pub(super) fn remove(&mut self, slot: IndexSlot) {
        let Some(entry) = self.slots.get_mut(slot as usize).and_then(Option::take) else { return };
        self.free.push(slot);
        for feature in &entry.features {
            if let Some(holders) = self.slots_by_feature.get_mut(feature) {
                holders.retain(|holder| *holder != slot);
                if holders.is_empty() {
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

    /// What there is like an utterance, for each of so many places.
    pub(super) fn find_neighbours(
        &self,
        features: &[FeatureHash],
        places: &HashMap<AppId, usize>,
        count: usize,
        rarity: RarityWeighting,
    ) -> Vec<NeighbourScores> {
        let mut result = vec![NeighbourScores::default(); count];
        let all = self.slots.len() - self.free.len();
        let mut shared = vec![0.0f32; self.slots.len()];
        let mut found: Vec<IndexSlot> = Vec::new();
        let mut own = f32::MIN_POSITIVE;
        for feature in features {
            let holders = self.slots_by_feature.get(feature).map_or(&[][..], Vec::as_slice);
            let rare = match rarity {
                RarityWeighting::Applied => {
                    ((all as f32 + RARITY_SMOOTHING) / (holders.len() as f32 + 0.5)).ln().max(0.1)
                }
                RarityWeighting::Ignored => 1.0,
            };
            let rarity = feature.weight() * rare;
            own += rarity * rarity;
            if holders.len() > MAX_POSTINGS && holders.len() > all / COMMON_FRACTION {
                continue;
            }
            for slot in holders {
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
            let Some(&at) = places.get(&entry.app) else { continue };
            let (Some(app), Some(best)) = (result.get_mut(at), best.get_mut(at)) else { continue };
            let shared = shared.get(slot as usize).copied().unwrap_or(0.0);
            let likeness = (shared / own * (size / entry.size).sqrt()).min(1.0);
            let counted = match entry.strength {
                LabelStrength::Weak => likeness,
                LabelStrength::Strong => likeness * STRONG_BONUS,
            };
            app.similar_count += u32::from(likeness > SIMILAR_FROM);
            app.is_same_text |= likeness > IDENTICAL_FROM && entry.strength == LabelStrength::Strong;
            app.nearest = app.nearest.max(counted);
            insert(best, counted);
        }
        for (app, best) in result.iter_mut().zip(best) {
            app.nearest_blend = blend(best);
        }
        result
    }
}

/// Whether what few examples have says more than what many have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RarityWeighting {
    Applied,
    /// How like two examples are does not depend on the others.
    Ignored,
}

/// What an app has that is like an utterance.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NeighbourScores {
    /// The likeness of the nearest three, and of the nearest alone.
    pub(super) nearest_blend: f32,
    pub(super) nearest: f32,
    /// How many are much like it.
    pub(super) similar_count: u32,
    /// One that a person gave it is the same.
    pub(super) is_same_text: bool,
}

/// One number for the three nearest.
pub(super) fn blend([first, second, third]: [f32; 3]) -> f32 {
    0.6 * first + 0.25 * second + 0.15 * third
}

/// Keeps the largest, in descending order.
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
