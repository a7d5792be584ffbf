//! Finds the app an utterance is meant for without a model: by the apps' descriptions and by what was learned from
//! messages they took and refused. Pure: no clock, no randomness, no input or output.
//!
//! `tokenizer` normalises text; `lexicon` and `vectors` know which words are close to each other; `query` and
//! `profile` are the two sides of a comparison before training, and `background` competes with the apps;
//! `trained_model` keeps examples, and `classifier` classifies by them over `features`; `signals` reduces all
//! of it to a few numbers, and `ranking` turns them into confidence and a choice; `clauses` finds several requests
//! in one utterance.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

mod background;
mod classifier;
mod clauses;
mod explain;
mod features;
mod lexicon;
mod profile;
mod query;
mod ranking;
mod signals;
mod tokenizer;
mod trained_model;
mod tuning;
mod vectors;

pub use ranking::{AppRanking, ConfidencePolicy, RankedApp, RankingChoice};
pub use trained_model::{LabelPolarity, LabelStrength, NO_APP};
pub use trained_model::{TrainingData, TrainingExample};

use features::features;
use profile::CompiledProfile;
use query::Query;
use ranking::OddsTable;
use signals::DescriptionSimilarity;
use tokenizer::WordToken;
use trained_model::{AppEvidence, TrainedModel};
use tuning::TUNING;

/// Compiled profiles cached; past it the cache is cleared, which only costs time.
const MAX_PROFILES: usize = 1024;
/// Candidates that get an explanation.
const MAX_EXPLAINED: usize = 5;

/// What an app says about itself when it registers. All of it is the app's own claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppProfile {
    /// Unique whatever the case of its letters; ASCII letters, digits, `-` and `_`.
    pub name: Arc<str>,
    pub description: Arc<str>,
    pub version: Option<Arc<str>>,
    pub capabilities: Vec<Arc<str>>,
}

#[derive(Debug, Clone, Default)]
pub struct Matcher {
    model: TrainedModel,
    /// Profiles compiled from descriptions on first use; shared by all clones.
    profiles: Arc<RwLock<HashMap<ProfileKey, Arc<CompiledProfile>>>>,
}

/// The outcome of a message for one app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainingLabel<'a> {
    pub app: &'a str,
    pub polarity: LabelPolarity,
    pub strength: LabelStrength,
}

/// Embedding similarity of the utterance to each app (0 to 1), in the order of the apps.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingSimilarity {
    pub by_app: Vec<f32>,
}

/// All of a profile that is compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ProfileKey {
    name: Arc<str>,
    description: Arc<str>,
    capabilities: Vec<Arc<str>>,
}

impl Matcher {
    pub fn new() -> Self {
        Self::default()
    }

    /// Ranks all given apps, best first. Any text is accepted; only its beginning is read.
    pub fn rank(
        &self,
        text: &str,
        apps: &[&AppProfile],
        embedding_similarity: Option<&EmbeddingSimilarity>,
    ) -> AppRanking {
        let words = clauses::without_denials(tokenizer::tokenize(text));
        let profiles: Vec<Arc<CompiledProfile>> = apps.iter().map(|app| self.profile(app)).collect();
        let whole = PreparedText::new(&words);
        let (evidence, none) = self.evidence(&whole, apps);
        let mut odds = whole.app_odds(&profiles, &evidence, &none);
        if let Some(embedding_similarity) =
            embedding_similarity.filter(|similarity| similarity.by_app.len() == apps.len())
        {
            add_embedding_similarity(&mut odds, embedding_similarity);
        }
        let confidences = odds.confidences();
        let mut candidates: Vec<(usize, RankedApp)> = (0..)
            .zip(apps.iter().zip(confidences))
            .map(|(at, (app, confidence))| {
                (at, RankedApp { app: app.name.clone(), score: odds.score(at), confidence, reasons: Vec::new() })
            })
            .collect();
        let clause_matches = self.clause_matches(&words, apps, &profiles);
        for (at, candidate) in &mut candidates {
            let clause_confidence = clause_matches
                .iter()
                .filter(|clause_match| clause_match.app == *at)
                .map(|clause_match| clause_match.confidence)
                .fold(0.0, f32::max);
            candidate.confidence = candidate.confidence.max(clause_confidence);
        }
        candidates.sort_by(|(_, a), (_, b)| {
            b.confidence.total_cmp(&a.confidence).then(b.score.total_cmp(&a.score)).then_with(|| a.app.cmp(&b.app))
        });
        for (at, candidate) in candidates.iter_mut().take(MAX_EXPLAINED) {
            if let (Some(profile), Some(evidence)) = (profiles.get(*at), evidence.get(*at)) {
                candidate.reasons = explain::reasons(&whole.query, profile, evidence);
            }
        }
        let several = candidates
            .iter()
            .enumerate()
            .filter(|(_, (at, _))| clause_matches.iter().any(|clause_match| clause_match.app == *at));
        let several = several.map(|(index, _)| index).collect();
        let candidates = candidates.into_iter().map(|(_, candidate)| candidate).collect();
        AppRanking::new(candidates, several, signals::experience(&evidence))
    }

    /// Learns labels in a batch, which costs little more than one: the classifier is trained once at the end.
    pub fn learn<'a>(&mut self, labels: impl IntoIterator<Item = (&'a str, TrainingLabel<'a>)>) {
        for (text, label) in labels {
            self.model.add(label.app, text, label.polarity, label.strength);
        }
        // Train here, or the next `rank` would pay the milliseconds it takes.
        self.model.train();
    }

    /// Examples of all apps together. Training time grows with them.
    pub fn example_count(&self) -> usize {
        self.model.example_count()
    }

    pub fn forget(&mut self, app: &str) {
        self.model.forget(app);
    }

    /// Labels given to the app since it was last forgotten.
    pub fn label_count(&self, app: &str) -> u64 {
        self.model.label_count(app)
    }

    /// What was learned about one app, to be stored; `None` when that is nothing. Some tens of kilobytes at most.
    pub fn export_training(&self, app: &str) -> Option<TrainingData> {
        self.model.training_data(app)
    }

    /// Replaces what is known about the app with what [`Matcher::export_training`] returned.
    pub fn import_training(&mut self, app: &str, data: TrainingData) {
        self.model.replace_training_data(app, data);
    }

    /// Which apps the clauses of an utterance are for, if they are clearly for different ones.
    fn clause_matches(
        &self,
        words: &[WordToken],
        apps: &[&AppProfile],
        profiles: &[Arc<CompiledProfile>],
    ) -> Vec<ClauseMatch> {
        let clauses = clauses::clauses(words);
        if clauses.len() < 2 || apps.len() < 2 {
            return Vec::new();
        }
        let mut clause_matches: Vec<ClauseMatch> = Vec::new();
        for clause in clauses {
            let utterance = PreparedText::new(clause);
            let (evidence, none) = self.evidence(&utterance, apps);
            let confidences = utterance.app_odds(profiles, &evidence, &none).confidences();
            let best = confidences.iter().copied().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
            let Some((app, confidence)) = best.filter(|(_, confidence)| *confidence >= TUNING.clause_confidence) else {
                continue;
            };
            match clause_matches.iter_mut().find(|clause_match| clause_match.app == app) {
                Some(clause_match) => clause_match.confidence = clause_match.confidence.max(confidence),
                None => clause_matches.push(ClauseMatch { app, confidence }),
            }
        }
        if clause_matches.len() < 2 { Vec::new() } else { clause_matches }
    }

    /// Evidence for each app, and for "no app".
    fn evidence(&self, utterance: &PreparedText, apps: &[&AppProfile]) -> (Vec<AppEvidence>, AppEvidence) {
        let names: Vec<&str> = apps.iter().map(|app| &*app.name).collect();
        self.model.evidence(&utterance.features, utterance.query.vector.as_ref(), &names)
    }

    /// The signals of each app and of "no app", for fitting their weights.
    #[doc(hidden)]
    pub fn signals(&self, text: &str, apps: &[&AppProfile]) -> (Vec<Vec<f32>>, Vec<f32>) {
        let utterance = PreparedText::new(&clauses::without_denials(tokenizer::tokenize(text)));
        let profiles: Vec<Arc<CompiledProfile>> = apps.iter().map(|app| self.profile(app)).collect();
        let (evidence, _) = self.evidence(&utterance, apps);
        let similarities = DescriptionSimilarity::all(&utterance.query, &profiles);
        let app_signals =
            similarities.iter().zip(&evidence).map(|(one, evidence)| signals::app_signals(one, evidence).to_vec());
        let background = background::similarity(&utterance.query, &profiles);
        (
            app_signals.collect(),
            signals::none_signals(&background, &similarities, signals::experience(&evidence)).to_vec(),
        )
    }

    fn profile(&self, app: &AppProfile) -> Arc<CompiledProfile> {
        let key = ProfileKey {
            name: app.name.clone(),
            description: app.description.clone(),
            capabilities: app.capabilities.clone(),
        };
        let cached = self.profiles.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        cached.unwrap_or_else(|| {
            let profile = Arc::new(CompiledProfile::new(app));
            let mut profiles = self.profiles.write().unwrap_or_else(PoisonError::into_inner);
            if profiles.len() >= MAX_PROFILES {
                profiles.clear();
            }
            profiles.insert(key, profile.clone());
            profile
        })
    }
}

/// A clause of an utterance that is clearly for one app.
#[derive(Debug)]
struct ClauseMatch {
    /// Index into the given apps.
    app: usize,
    confidence: f32,
}

/// An utterance, or a clause of one, prepared for comparison.
#[derive(Debug)]
struct PreparedText {
    query: Query,
    features: Vec<features::FeatureHash>,
}

impl PreparedText {
    fn new(words: &[WordToken]) -> Self {
        Self { query: Query::new(words), features: features(words) }
    }

    fn app_odds(&self, profiles: &[Arc<CompiledProfile>], evidence: &[AppEvidence], none: &AppEvidence) -> OddsTable {
        let background = background::similarity(&self.query, profiles);
        OddsTable::new(&self.query, &background, &DescriptionSimilarity::all(&self.query, profiles), evidence, none)
    }
}

fn add_embedding_similarity(odds: &mut OddsTable, embedding_similarity: &EmbeddingSimilarity) {
    let count = embedding_similarity.by_app.len();
    if count == 0 || !embedding_similarity.by_app.iter().all(|one| one.is_finite()) {
        return;
    }
    let mean = embedding_similarity.by_app.iter().sum::<f32>() / count as f32;
    // Models differ in the similarity of unrelated texts, so what all apps share is subtracted. A single app has no
    // others to compare with.
    let baseline = if count > 1 { mean } else { TUNING.usual_similarity };
    odds.add(embedding_similarity.by_app.iter().map(|similarity| TUNING.embedding_weight * (similarity - baseline)));
}

#[cfg(test)]
mod tests;
