//! What was learned: the utterances an app took and those it should not have had. Everything else is counted from
//! these, so that what is stored is small, readable and complete, and what is forgotten is gone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use super::features::{Feature, features};
use super::linear::{Lesson, Linear};
use super::vectors::{self, CompactVector};
use super::words::words;

mod nearest;

use nearest::{Nearest, Rarity, Slot};

/// In place of an app: messages that are for none of them. No app can have this name.
pub const NO_APP: &str = "*";

/// Examples kept of each kind for one app; the oldest go first. Acknowledgements of our own choices are the least
/// worth and the most common, so they have their own share and cannot push out what a person said.
const MOST_WEAK: usize = 200;
const MOST_STRONG: usize = 120;
const MOST_WRONG: usize = 120;
/// Of one example, in bytes and cut between words: who is meant is said early.
const LONGEST_TEXT: usize = 240;
/// Apps remembered at all, so that names made up by a client cannot fill the memory; further ones teach nothing.
const MOST_APPS: usize = 512;
/// What a person said is worth this many acknowledgements.
const STRONG_WEIGHT: f32 = 4.0;
/// All acknowledgements of one app together are worth no more than this many of them.
const MOST_WEAK_WEIGHT: f32 = 40.0;
/// Examples the classifier is trained with; of each app the newest.
const MOST_LESSONS: usize = 4096;
/// Examples whose vectors an utterance is compared with; of each app the newest.
const MOST_COMPARED: usize = 16_384;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Right,
    Wrong,
}

/// How much a label is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    /// An app acknowledged what the matcher or a model had chosen; many apps acknowledge everything.
    Weak,
    /// A direct address, a correction by the user, a rejection.
    Strong,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Example {
    /// How many labels the app had when this one came, itself included.
    pub(crate) number: u64,
    /// Folded words with single spaces; all numbers are `0`.
    pub(crate) text: String,
    pub(crate) verdict: Verdict,
    pub(crate) strength: Strength,
}

/// All that is stored about one app.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lessons {
    /// Labels ever given, whether they are still kept or not.
    pub(crate) count: u64,
    /// The oldest first.
    pub(crate) examples: Vec<Example>,
}

/// What the examples say about one app.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Evidence {
    /// How many utterances it took; those a person gave it count more.
    pub(super) examples: f32,
    /// What the classifier says; 0 is neither for nor against.
    pub(super) linear: f32,
    /// The likeness (about 0 to 1) of the nearest utterances it took, and of the nearest it should not have had.
    pub(super) near: f32,
    pub(super) near_wrong: f32,
    /// The same by their vectors, -1 to 1: of the nearest utterances it took, and of all on the average.
    pub(super) near_vector: f32,
    pub(super) mean_vector: f32,
    /// How many utterances it took are much like this one.
    pub(super) alike: u32,
    /// A person gave it these very words before.
    pub(super) is_same: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Learned {
    /// By name in lower case.
    apps: BTreeMap<Arc<str>, App>,
    taken: Nearest,
    /// Apart, so that a refusal changes nothing about what other apps took.
    refused: Nearest,
    next_app: AppId,
    /// Made from the settled examples when it is first needed.
    classifier: OnceLock<Classifier>,
}

pub(super) type AppId = u32;

#[derive(Debug, Clone, Default)]
struct App {
    id: AppId,
    count: u64,
    kept: Vec<(Example, Slot)>,
}

#[derive(Debug, Clone)]
struct Classifier {
    classes: Vec<AppId>,
    linear: Linear,
}

impl Learned {
    pub(super) fn add(&mut self, app: &str, text: &str, verdict: Verdict, strength: Strength) {
        let text = kept_text(text);
        let Some(app) = Some(key(app)).filter(|app| !text.is_empty() && self.is_known_or_new(app)) else { return };
        let count = {
            let known = self.apps.entry(app.as_str().into()).or_insert_with(|| {
                self.next_app += 1;
                App { id: self.next_app, ..App::default() }
            });
            known.count += 1;
            known.count
        };
        if verdict == Verdict::Right && app != NO_APP {
            // It has an app after all.
            self.drop_text(NO_APP, &text);
        }
        self.push(&app, Example { number: count, text, verdict, strength });
        self.prune(&app);
    }

    fn drop_text(&mut self, app: &str, text: &str) {
        let Some(known) = self.apps.get_mut(app) else { return };
        let Some(at) = known.kept.iter().position(|(kept, _)| kept.text == text) else { return };
        let (example, slot) = known.kept.remove(at);
        self.index(example.verdict).remove(slot);
        self.classifier = OnceLock::new();
    }

    pub(super) fn train(&self) {
        self.classifier();
    }

    pub(super) fn examples(&self) -> usize {
        self.apps.values().map(|app| app.kept.len()).sum()
    }

    fn is_known_or_new(&self, app: &str) -> bool {
        self.apps.len() < MOST_APPS || self.apps.contains_key(app)
    }

    fn index(&mut self, verdict: Verdict) -> &mut Nearest {
        match verdict {
            Verdict::Right => &mut self.taken,
            Verdict::Wrong => &mut self.refused,
        }
    }

    fn push(&mut self, app: &str, example: Example) {
        let Some(known) = self.apps.get_mut(app) else { return };
        let same = known.kept.iter().position(|(kept, _)| kept.text == example.text);
        if let Some(at) = same {
            let overrules = |kept: &Example| match (kept.strength, example.strength) {
                // Said again; and what a person said stays when an acknowledgement follows.
                (Strength::Strong, Strength::Weak) => false,
                (Strength::Weak, Strength::Weak) | (Strength::Strong, Strength::Strong) => {
                    kept.verdict != example.verdict
                }
                (Strength::Weak, Strength::Strong) => true,
            };
            if !known.kept.get(at).is_some_and(|(kept, _)| overrules(kept)) {
                self.settle_at(app);
                return;
            }
            let (kept, slot) = known.kept.remove(at);
            self.index(kept.verdict).remove(slot);
            self.classifier = OnceLock::new();
        }
        let words = words(&example.text);
        let vector = vectors::of_words(&words).map(|vector| CompactVector::new(&vector));
        let features = features(&words).into_boxed_slice();
        let Some(id) = self.apps.get(app).map(|known| known.id) else { return };
        let slot = self.index(example.verdict).add(id, example.strength, features, vector);
        let Some(known) = self.apps.get_mut(app) else { return };
        if example.is_settled(known.count) {
            self.classifier = OnceLock::new();
        }
        known.kept.push((example, slot));
        self.settle_at(app);
    }

    /// At a multiple of the step, everything before becomes part of what the classifier knows.
    fn settle_at(&mut self, app: &str) {
        if self.apps.get(app).is_some_and(|known| settled(known.count) == known.count) {
            self.classifier = OnceLock::new();
        }
    }

    /// Only when the classifier is trained anyway, so that it never knows what is no longer kept.
    fn prune(&mut self, app: &str) {
        let Some(known) = self.apps.get_mut(app).filter(|known| settled(known.count) == known.count) else { return };
        for (kind, most) in [(Kind::Weak, MOST_WEAK), (Kind::Strong, MOST_STRONG), (Kind::Wrong, MOST_WRONG)] {
            let mut spare = known.kept.iter().filter(|(kept, _)| kept.kind() == kind).count().saturating_sub(most);
            let index = if kind == Kind::Wrong { &mut self.refused } else { &mut self.taken };
            known.kept.retain(|(kept, slot)| {
                let goes = spare > 0 && kept.kind() == kind;
                if goes {
                    spare -= 1;
                    index.remove(*slot);
                }
                !goes
            });
        }
    }

    pub(super) fn forget(&mut self, app: &str) {
        for (example, slot) in self.apps.remove(key(app).as_str()).into_iter().flat_map(|app| app.kept) {
            self.index(example.verdict).remove(slot);
        }
        self.classifier = OnceLock::new();
    }

    pub(super) fn count(&self, app: &str) -> u64 {
        self.apps.get(key(app).as_str()).map_or(0, |app| app.count)
    }

    pub(super) fn lessons(&self, app: &str) -> Option<Lessons> {
        let app = self.apps.get(key(app).as_str())?;
        let examples = app.kept.iter().map(|(example, _)| example.clone()).collect();
        Some(Lessons { count: app.count, examples })
    }

    /// Takes the place of whatever was known. What does not fit the bounds is left out.
    pub(super) fn replace(&mut self, app: &str, lessons: Lessons) {
        self.forget(app);
        let app = key(app);
        if !self.is_known_or_new(&app) {
            return;
        }
        self.next_app += 1;
        self.apps.insert(app.as_str().into(), App { id: self.next_app, count: lessons.count, kept: Vec::new() });
        let most = MOST_WEAK + MOST_STRONG + MOST_WRONG + STEPS.last().map_or(0, |(_, step)| *step as usize);
        let spare = lessons.examples.len().saturating_sub(most);
        for example in lessons.examples.into_iter().skip(spare) {
            let text = kept_text(&example.text);
            if !text.is_empty() {
                self.push(&app, Example { text, ..example });
            }
        }
        self.prune(&app);
    }

    /// What the examples say about each of these apps, in their order, and about none of them.
    pub(super) fn evidence(
        &self,
        features: &[Feature],
        vector: Option<&CompactVector>,
        apps: &[&str],
    ) -> (Vec<Evidence>, Evidence) {
        let mut evidence = vec![Evidence::default(); apps.len() + 1];
        // Where an app stands in the list, by its number here.
        let mut places: HashMap<AppId, usize> = HashMap::new();
        for (at, (name, evidence)) in apps.iter().chain(&[NO_APP]).zip(&mut evidence).enumerate() {
            if let Some(app) = self.apps.get(key(name).as_str()) {
                places.insert(app.id, at);
                evidence.examples = app.examples();
                if let Some(vector) = vector {
                    self.compare(app, vector, evidence);
                }
            }
        }
        if places.is_empty() {
            let none = evidence.pop().unwrap_or_default();
            return (evidence, none);
        }
        let classifier = self.classifier();
        for (class, score) in classifier.linear.scores(features).into_iter().enumerate() {
            let at = classifier.classes.get(class).and_then(|id| places.get(id));
            if let Some(evidence) = at.and_then(|at| evidence.get_mut(*at)) {
                evidence.linear = score;
            }
        }
        let taken = self.taken.look(features, &places, evidence.len(), Rarity::Counts);
        let refused = self.refused.look(features, &places, evidence.len(), Rarity::Ignored);
        for ((evidence, found), refused) in evidence.iter_mut().zip(taken).zip(refused) {
            evidence.near = found.near;
            evidence.alike = found.alike;
            evidence.is_same = found.is_same;
            evidence.near_wrong = refused.nearest;
        }
        let none = evidence.pop().unwrap_or_default();
        (evidence, none)
    }

    fn compare(&self, app: &App, vector: &CompactVector, evidence: &mut Evidence) {
        let most = MOST_COMPARED / self.apps.len().max(1);
        let (mut sum, mut count, mut best) = (0.0, 0.0, [0.0f32; 3]);
        for (example, slot) in app.kept.iter().rev().take(most) {
            if example.verdict == Verdict::Wrong {
                continue;
            }
            let Some(nearness) = self.taken.vector(*slot).map(|other| vector.cosine(other)) else { continue };
            sum += nearness;
            count += 1.0;
            nearest::insert(&mut best, nearness);
        }
        if count > 0.0 {
            evidence.mean_vector = sum / count;
            evidence.near_vector = nearest::blend(best);
        }
    }

    fn classifier(&self) -> &Classifier {
        self.classifier.get_or_init(|| {
            let classes: Vec<AppId> = self.teachers().map(|app| app.id).collect();
            let lessons = self.settled_lessons();
            Classifier { linear: Linear::train(&lessons, classes.len()), classes }
        })
    }

    /// Those that took something: the others have no part in the classifier.
    fn teachers(&self) -> impl Iterator<Item = &App> {
        self.apps.values().filter(|app| app.settled().any(|one| is_right(&one)))
    }

    fn settled_lessons(&self) -> Vec<Lesson<'_>> {
        let mut said: HashMap<&str, HashSet<AppId>> = HashMap::new();
        for app in self.apps.values() {
            for (example, _) in &app.kept {
                if (example.verdict, example.strength) == (Verdict::Right, Strength::Strong) {
                    said.entry(&example.text).or_default().insert(app.id);
                }
            }
        }
        // Words that a person has given to another app are not the acknowledging app's.
        let is_overruled = |app: &App, example: &Example| {
            example.strength == Strength::Weak
                && said.get(example.text.as_str()).is_some_and(|apps| !apps.contains(&app.id))
        };
        // Only settled examples may count here, or the classifier would depend on when it was last trained.
        let counts: Vec<f32> = self.teachers().map(|app| app.settled().filter(is_right).count() as f32).collect();
        let mean = counts.iter().sum::<f32>() / counts.len().max(1) as f32;
        let most = MOST_LESSONS / counts.len().max(1);
        let mut lessons = Vec::new();
        for (class, (app, examples)) in self.teachers().zip(counts).enumerate() {
            let examples = examples.max(1.0);
            let balance = (mean / examples).clamp(0.5, 2.0);
            let weak = balance * (MOST_WEAK_WEIGHT / examples).min(1.0);
            let strong = balance * STRONG_WEIGHT;
            let spare = app.settled().filter(is_right).count().saturating_sub(most);
            // What an app refused counts against that app alone, by its nearest examples: trained with it, the
            // classifier would bring such messages to whoever is left.
            let lessons_of = app.settled().filter(is_right).skip(spare).filter(|(one, _)| !is_overruled(app, one));
            for (example, slot) in lessons_of {
                let weight = match example.strength {
                    Strength::Weak => weak,
                    Strength::Strong => strong,
                };
                let features = self.taken.features(*slot);
                lessons.push(Lesson { features, class, weight });
            }
        }
        lessons
    }
}

impl App {
    /// In acknowledgements.
    fn examples(&self) -> f32 {
        let worth = |(example, _): &(Example, Slot)| match example.strength {
            Strength::Weak => 1.0,
            Strength::Strong => STRONG_WEIGHT,
        };
        self.kept.iter().filter(is_right).map(worth).sum()
    }

    fn settled(&self) -> impl Iterator<Item = &(Example, Slot)> {
        self.kept.iter().filter(|(example, _)| example.is_settled(self.count))
    }
}

fn is_right((example, _): &&(Example, Slot)) -> bool {
    example.verdict == Verdict::Right
}

/// What has a bound of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Weak,
    Strong,
    Wrong,
}

impl Example {
    fn kind(&self) -> Kind {
        match (self.verdict, self.strength) {
            (Verdict::Right, Strength::Weak) => Kind::Weak,
            (Verdict::Right, Strength::Strong) => Kind::Strong,
            (Verdict::Wrong, Strength::Weak | Strength::Strong) => Kind::Wrong,
        }
    }

    /// What a person said counts at once; acknowledgements are taken in by the dozen.
    fn is_settled(&self, count: u64) -> bool {
        self.strength == Strength::Strong || self.number <= settled(count)
    }
}

/// Up to how many labels of an app, and by how many of them at a time, acknowledgements reach the classifier.
const STEPS: &[(u64, u64)] = &[(8, 1), (16, 2), (48, 4), (128, 8), (u64::MAX, 16)];

fn settled(count: u64) -> u64 {
    let step = STEPS.iter().find(|(below, _)| count < *below).map_or(1, |(_, step)| *step);
    count - count % step
}

fn key(app: &str) -> String {
    app.to_ascii_lowercase()
}

fn kept_text(text: &str) -> String {
    let mut kept = String::new();
    for word in words(text) {
        let text = if word.is_number() { "0" } else { word.text.as_str() };
        if kept.len() + text.len() >= LONGEST_TEXT {
            break;
        }
        if !kept.is_empty() {
            kept.push(' ');
        }
        kept.push_str(text);
    }
    kept
}

#[cfg(test)]
mod tests;
