//! Which app an utterance is meant for, found without a model: by what apps say about themselves, and by what was
//! learned from what they took and refused. Pure: no clock, no chance, no input or output.
//!
//! [`words`] makes text comparable; [`lexicon`] and [`vectors`] know which words are close to each other; [`query`] and
//! [`profile`] are the two sides of a comparison before anything was learned, and [`background`] what competes with the
//! apps; [`learned`] keeps examples, and [`linear`] classifies by them over [`features`]; [`signals`] puts all of it into
//! a few numbers, and [`ranking`] turns them into confidence and a choice; [`clauses`] finds several requests in one.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::app::AppProfile;
use crate::record::{self, RecordError};

mod background;
mod clauses;
mod features;
mod knobs;
mod learned;
mod lexicon;
mod linear;
mod profile;
mod query;
mod ranking;
mod signals;
mod vectors;
mod why;
mod words;

pub(crate) use learned::{Example, Lessons};
pub use learned::{NO_APP, Strength, Verdict};
pub use ranking::{Candidate, Choice, Policy, Ranking};

use features::features;
use knobs::KNOBS;
use learned::{Evidence, Learned};
use profile::Profile;
use query::Query;
use ranking::Fits;
use signals::Likeness;
use words::Word;

/// Descriptions kept ready. More apps than that at once only cost time.
const MOST_PROFILES: usize = 1024;
/// Candidates that are worth an explanation.
const EXPLAINED: usize = 5;

#[derive(Debug, Clone, Default)]
pub struct Matcher {
    learned: Learned,
    /// Made from what apps say about themselves, when it is first needed. The same for all copies.
    profiles: Arc<RwLock<HashMap<Claim, Arc<Profile>>>>,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label<'a> {
    pub app: &'a str,
    pub verdict: Verdict,
    pub strength: Strength,
}

/// How near an embedding model holds the utterance to each app (0 to 1), in the order of the apps.
#[derive(Debug, Clone, PartialEq)]
pub struct Meaning {
    pub similarity: Vec<f32>,
}

/// All of a profile that is compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Claim {
    name: Arc<str>,
    description: Arc<str>,
    capabilities: Vec<Arc<str>>,
}

impl Matcher {
    pub fn new() -> Self {
        Self::default()
    }

    /// All given apps, best first. Any text will do; what it means is looked for near its beginning.
    pub fn rank(&self, text: &str, apps: &[&AppProfile], meaning: Option<&Meaning>) -> Ranking {
        let words = clauses::meant(words::words(text));
        let profiles: Vec<Arc<Profile>> = apps.iter().map(|app| self.profile(app)).collect();
        let whole = Utterance::new(&words);
        let (evidence, none) = self.evidence(&whole, apps);
        let mut fits = whole.fits(&profiles, &evidence, &none);
        if let Some(meaning) = meaning.filter(|meaning| meaning.similarity.len() == apps.len()) {
            add_meaning(&mut fits, meaning);
        }
        let confidences = fits.confidences();
        let mut candidates: Vec<(usize, Candidate)> = (0..)
            .zip(apps.iter().zip(confidences))
            .map(|(at, (app, confidence))| {
                (at, Candidate { app: app.name.clone(), score: fits.score(at), confidence, why: Vec::new() })
            })
            .collect();
        let parts = self.parts(&words, apps, &profiles);
        for (at, candidate) in &mut candidates {
            let part = parts.iter().filter(|part| part.app == *at).map(|part| part.confidence).fold(0.0, f32::max);
            candidate.confidence = candidate.confidence.max(part);
        }
        candidates.sort_by(|(_, a), (_, b)| {
            b.confidence.total_cmp(&a.confidence).then(b.score.total_cmp(&a.score)).then_with(|| a.app.cmp(&b.app))
        });
        for (at, candidate) in candidates.iter_mut().take(EXPLAINED) {
            if let (Some(profile), Some(evidence)) = (profiles.get(*at), evidence.get(*at)) {
                candidate.why = why::reasons(&whole.query, profile, evidence);
            }
        }
        let several = candidates.iter().enumerate().filter(|(_, (at, _))| parts.iter().any(|part| part.app == *at));
        let several = several.map(|(place, _)| place).collect();
        let candidates = candidates.into_iter().map(|(_, candidate)| candidate).collect();
        Ranking::new(candidates, several, signals::experience(&evidence))
    }

    /// Takes in many labels at once, which costs little more than one: the classifier is trained after the last.
    pub fn learn<'a>(&mut self, labels: impl IntoIterator<Item = (&'a str, Label<'a>)>) {
        for (text, label) in labels {
            self.learned.add(label.app, text, label.verdict, label.strength);
        }
        // Training takes milliseconds, which whoever asks next shall not wait for.
        self.learned.train();
    }

    /// Utterances it knows, of all apps together. Training takes the longer the more they are.
    pub fn examples(&self) -> usize {
        self.learned.examples()
    }

    pub fn forget(&mut self, app: &str) {
        self.learned.forget(app);
    }

    /// How many labels an app was given since it was last forgotten.
    pub fn lessons(&self, app: &str) -> u64 {
        self.learned.count(app)
    }

    /// The stored form of what was learned about one app; `None` when that is nothing. Some tens of kilobytes at most.
    pub fn learned(&self, app: &str) -> Option<Vec<u8>> {
        self.learned.lessons(app).map(|lessons| record::encode_lessons(&lessons))
    }

    /// Puts back what [`Matcher::learned`] gave, in place of what is known about the app now.
    pub fn restore(&mut self, app: &str, bytes: &[u8]) -> Result<(), RecordError> {
        self.learned.replace(app, record::decode_lessons(bytes)?);
        Ok(())
    }

    /// Which apps the parts of an utterance are for, when they are clearly for different ones.
    fn parts(&self, words: &[Word], apps: &[&AppProfile], profiles: &[Arc<Profile>]) -> Vec<Part> {
        let clauses = clauses::clauses(words);
        if clauses.len() < 2 || apps.len() < 2 {
            return Vec::new();
        }
        let mut parts: Vec<Part> = Vec::new();
        for clause in clauses {
            let utterance = Utterance::new(clause);
            let (evidence, none) = self.evidence(&utterance, apps);
            let confidences = utterance.fits(profiles, &evidence, &none).confidences();
            let best = confidences.iter().copied().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
            let Some((app, confidence)) = best.filter(|(_, confidence)| *confidence >= KNOBS.part_confidence) else {
                continue;
            };
            match parts.iter_mut().find(|part| part.app == app) {
                Some(part) => part.confidence = part.confidence.max(confidence),
                None => parts.push(Part { app, confidence }),
            }
        }
        if parts.len() < 2 { Vec::new() } else { parts }
    }

    /// Of each app, and of none of them.
    fn evidence(&self, utterance: &Utterance, apps: &[&AppProfile]) -> (Vec<Evidence>, Evidence) {
        let names: Vec<&str> = apps.iter().map(|app| &*app.name).collect();
        self.learned.evidence(&utterance.features, utterance.query.vector.as_ref(), &names)
    }

    /// The numbers that a decision is made from, of each app and of none of them: for fitting their weights.
    #[doc(hidden)]
    pub fn signals(&self, text: &str, apps: &[&AppProfile]) -> (Vec<Vec<f32>>, Vec<f32>) {
        let utterance = Utterance::new(&clauses::meant(words::words(text)));
        let profiles: Vec<Arc<Profile>> = apps.iter().map(|app| self.profile(app)).collect();
        let (evidence, _) = self.evidence(&utterance, apps);
        let likenesses = Likeness::all(&utterance.query, &profiles);
        let of_apps = likenesses.iter().zip(&evidence).map(|(one, evidence)| signals::of_app(one, evidence).to_vec());
        let background = background::likeness(&utterance.query, &profiles);
        (of_apps.collect(), signals::of_none(&background, &likenesses, signals::experience(&evidence)).to_vec())
    }

    fn profile(&self, app: &AppProfile) -> Arc<Profile> {
        let claim = Claim {
            name: app.name.clone(),
            description: app.description.clone(),
            capabilities: app.capabilities.clone(),
        };
        let known = self.profiles.read().unwrap_or_else(PoisonError::into_inner).get(&claim).cloned();
        known.unwrap_or_else(|| {
            let profile = Arc::new(Profile::new(app));
            let mut profiles = self.profiles.write().unwrap_or_else(PoisonError::into_inner);
            if profiles.len() >= MOST_PROFILES {
                profiles.clear();
            }
            profiles.insert(claim, profile.clone());
            profile
        })
    }
}

/// A part of an utterance that is clearly for one app.
#[derive(Debug)]
struct Part {
    /// Its place among the apps asked about.
    app: usize,
    confidence: f32,
}

/// An utterance, or a part of one, made ready for comparison.
#[derive(Debug)]
struct Utterance {
    query: Query,
    features: Vec<features::Feature>,
}

impl Utterance {
    fn new(words: &[Word]) -> Self {
        Self { query: Query::new(words), features: features(words) }
    }

    fn fits(&self, profiles: &[Arc<Profile>], evidence: &[Evidence], none: &Evidence) -> Fits {
        let background = background::likeness(&self.query, profiles);
        Fits::new(&self.query, &background, &Likeness::all(&self.query, profiles), evidence, none)
    }
}

fn add_meaning(fits: &mut Fits, meaning: &Meaning) {
    let count = meaning.similarity.len();
    if count == 0 || !meaning.similarity.iter().all(|one| one.is_finite()) {
        return;
    }
    let mean = meaning.similarity.iter().sum::<f32>() / count as f32;
    // Models differ in how near they hold unrelated texts; what all apps share says nothing. A lone app has no others
    // to compare with.
    let usual = if count > 1 { mean } else { KNOBS.usual_similarity };
    fits.add(meaning.similarity.iter().map(|similarity| KNOBS.meaning * (similarity - usual)));
}

#[cfg(test)]
mod tests;
