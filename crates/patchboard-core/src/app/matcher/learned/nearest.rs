//! The examples most like an utterance, found through the features they share.

use std::collections::HashMap;

use super::{AppId, Strength};
use crate::app::matcher::features::Feature;
use crate::app::matcher::vectors::CompactVector;

/// A feature that so many examples have, and so large a share of all, does not find the like ones.
const COMMON: usize = 64;
const COMMON_SHARE: usize = 6;
/// What a person said is nearer than what was only acknowledged.
const STRONG_BONUS: f32 = 1.3;
/// From this likeness on, one would call two utterances alike.
const ALIKE: f32 = 0.5;
/// And from this one on, the same.
const SAME: f32 = 0.98;

/// As if there were so many more examples without the feature: three examples do not make a word common.
const ELSEWHERE: f32 = 50.0;

pub(super) type Slot = u32;

#[derive(Debug, Clone, Default)]
pub(super) struct Nearest {
    /// Which examples have a feature.
    holders: HashMap<Feature, Vec<Slot>>,
    slots: Vec<Option<Entry>>,
    free: Vec<Slot>,
}

#[derive(Debug, Clone)]
struct Entry {
    app: AppId,
    strength: Strength,
    features: Box<[Feature]>,
    vector: Option<CompactVector>,
    size: f32,
}

impl Nearest {
    pub(super) fn add(
        &mut self,
        app: AppId,
        strength: Strength,
        features: Box<[Feature]>,
        vector: Option<CompactVector>,
    ) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as Slot
        });
        for feature in &features {
            self.holders.entry(*feature).or_default().push(slot);
        }
        let size = size(&features);
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(Entry { app, strength, features, vector, size });
        }
        slot
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        let Some(entry) = self.slots.get_mut(slot as usize).and_then(Option::take) else { return };
        self.free.push(slot);
        for feature in &entry.features {
            if let Some(holders) = self.holders.get_mut(feature) {
                holders.retain(|holder| *holder != slot);
                if holders.is_empty() {
                    self.holders.remove(feature);
                }
            }
        }
    }

    pub(super) fn features(&self, slot: Slot) -> &[Feature] {
        self.slots.get(slot as usize).and_then(Option::as_ref).map_or(&[], |entry| &entry.features)
    }

    pub(super) fn vector(&self, slot: Slot) -> Option<&CompactVector> {
        self.slots.get(slot as usize)?.as_ref()?.vector.as_ref()
    }

    /// What there is like an utterance, for each of so many places.
    pub(super) fn look(
        &self,
        features: &[Feature],
        places: &HashMap<AppId, usize>,
        count: usize,
        rarity: Rarity,
    ) -> Vec<Found> {
        let mut result = vec![Found::default(); count];
        let all = self.slots.len() - self.free.len();
        let mut shared = vec![0.0f32; self.slots.len()];
        let mut found: Vec<Slot> = Vec::new();
        let mut own = f32::MIN_POSITIVE;
        for feature in features {
            let holders = self.holders.get(feature).map_or(&[][..], Vec::as_slice);
            let rare = match rarity {
                Rarity::Counts => ((all as f32 + ELSEWHERE) / (holders.len() as f32 + 0.5)).ln().max(0.1),
                Rarity::Ignored => 1.0,
            };
            let rarity = feature.weight() * rare;
            own += rarity * rarity;
            if holders.len() > COMMON && holders.len() > all / COMMON_SHARE {
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
                Strength::Weak => likeness,
                Strength::Strong => likeness * STRONG_BONUS,
            };
            app.alike += u32::from(likeness > ALIKE);
            app.is_same |= likeness > SAME && entry.strength == Strength::Strong;
            app.nearest = app.nearest.max(counted);
            insert(best, counted);
        }
        for (app, best) in result.iter_mut().zip(best) {
            app.near = blend(best);
        }
        result
    }
}

/// Whether what few examples have says more than what many have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rarity {
    Counts,
    /// How like two examples are does not depend on the others.
    Ignored,
}

/// What an app has that is like an utterance.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    /// The likeness of the nearest three, and of the nearest alone.
    pub(super) near: f32,
    pub(super) nearest: f32,
    /// How many are much like it.
    pub(super) alike: u32,
    /// One that a person gave it is the same.
    pub(super) is_same: bool,
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

fn size(features: &[Feature]) -> f32 {
    features.iter().map(|feature| feature.weight().powi(2)).sum::<f32>().max(f32::MIN_POSITIVE)
}
