//! An app's description prepared for comparison, and its similarity to an utterance before training.

use std::collections::HashMap;

use super::lexicon::{ConceptId, TopicId, lexicon};
use super::query::{ComparedWord, Query, QueryTerm, compared_words};
use super::tokenizer::{TokenBoundary, WordToken, tokenize};
use super::tuning::TUNING;
use super::vectors::{self, CompactVector};
use crate::AppProfile;

/// Words of one profile that are compared with those of an utterance one by one.
const MAX_COMPARED: usize = 48;
/// Words of one profile that are compared letter by letter.
const MAX_SPELLINGS: usize = 256;
/// Shorter common prefixes are chance.
const MIN_COMMON_PREFIX: usize = 5;

#[derive(Debug)]
pub(super) struct CompiledProfile {
    terms: HashMap<String, ProfileTerm>,
    /// For misspellings, in alphabetical order.
    spellings: Vec<(String, f32)>,
    concepts: Vec<f32>,
    topics: Vec<f32>,
    /// The profile's strongest word for each concept and topic, for explanations.
    concept_words: HashMap<ConceptId, (f32, String)>,
    topic_words: HashMap<TopicId, (f32, String)>,
    /// The vector of the whole description.
    vector: Option<CompactVector>,
    words: Vec<ComparedWord>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct ProfileTerm {
    weight: f32,
    source: TermSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TermSource {
    Name,
    Capability,
    Description,
}

/// Why a query term matches a profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TermMatch {
    Word(TermSource),
    Spelling,
    Concept(ConceptId),
    Topic(TopicId),
}

impl CompiledProfile {
    pub(super) fn new(app: &AppProfile) -> CompiledProfile {
        let mut profile = CompiledProfile {
            terms: HashMap::new(),
            spellings: Vec::new(),
            concepts: vec![0.0; lexicon().concepts().len()],
            topics: vec![0.0; lexicon().topics().len()],
            concept_words: HashMap::new(),
            topic_words: HashMap::new(),
            vector: None,
            words: Vec::new(),
        };
        let mut excluded_words = Vec::new();
        let mut included_words = tokenize(&app.name.replace(['-', '_'], " "));
        profile.add(&included_words, TermSource::Name);
        // Numbers or `app` in a name carry no topic.
        included_words.retain(|word| word.weight >= 0.5);
        for capability in &app.capabilities {
            let capability = tokenize(&capability.replace(['-', '_', '.', '/'], " "));
            profile.add(&capability, TermSource::Capability);
            included_words.extend(capability);
        }
        for (phrase, polarity) in phrases(tokenize(&app.description)) {
            match polarity {
                PhrasePolarity::Included => {
                    profile.add(&phrase, TermSource::Description);
                    included_words.extend(phrase);
                }
                PhrasePolarity::Excluded => excluded_words.extend(phrase),
            }
        }
        profile.exclude(&excluded_words);
        included_words.retain(|word| profile.terms.contains_key(&word.stem));
        profile.vector = vectors::text_vector(&included_words).map(|vector| CompactVector::new(&vector));
        profile.words = compared_words(&included_words, MAX_COMPARED);
        profile.spellings = profile.terms.iter().map(|(stem, term)| (stem.clone(), term.weight)).collect();
        profile.spellings.retain(|(stem, weight)| stem.len() >= 4 && *weight >= 0.5);
        profile.spellings.sort_by(|a, b| a.0.cmp(&b.0));
        profile.spellings.truncate(MAX_SPELLINGS);
        profile
    }

    fn add(&mut self, phrase: &[WordToken], source: TermSource) {
        for word in phrase.iter().filter(|word| word.weight > 0.0) {
            let weight = word.weight;
            let term = self.terms.entry(word.stem.clone()).or_insert(ProfileTerm { weight, source });
            term.weight = term.weight.max(weight);
        }
        for hit in lexicon().hits(phrase) {
            let weight = if hit.length > 1 { 1.0 } else { phrase.get(hit.at).map_or(0.0, |word| word.weight) };
            let phrase_text: Vec<&str> =
                phrase.iter().skip(hit.at).take(hit.length).map(|word| word.text.as_str()).collect();
            let phrase_text = phrase_text.join(" ");
            for sense in hit.senses {
                let strength = weight * sense.affinity;
                keep_strongest(&mut self.concept_words, sense.concept, strength, &phrase_text);
                keep_strongest(&mut self.topic_words, lexicon().topic_of(sense.concept), strength, &phrase_text);
                if let Some(concept) = self.concepts.get_mut(usize::from(sense.concept)) {
                    *concept = concept.max(strength);
                }
                if let Some(topic) = self.topics.get_mut(usize::from(lexicon().topic_of(sense.concept))) {
                    *topic = 1.0 - (1.0 - *topic) * (1.0 - 0.5 * strength);
                }
            }
        }
    }

    /// Handles `… but not the weather`: drops the words and their concepts, but not the whole topic.
    fn exclude(&mut self, phrase: &[WordToken]) {
        for word in phrase.iter().filter(|word| word.weight >= 0.5) {
            self.terms.remove(&word.stem);
        }
        for sense in lexicon().hits(phrase).iter().flat_map(|hit| hit.senses) {
            if let Some(concept) = self.concepts.get_mut(usize::from(sense.concept)) {
                *concept = 0.0;
            }
        }
    }

    /// The overlap of the utterance's terms with this profile, in units of term weight.
    pub(super) fn overlap(&self, query: &Query) -> f32 {
        query.terms.iter().map(|term| term.weight * self.best_match(term).map_or(0.0, |(strength, _)| strength)).sum()
    }

    /// Cosine of the whole utterance and the whole description, -1 to 1.
    pub(super) fn similarity_to_query(&self, query: &Query) -> f32 {
        nearness(self.vector.as_ref(), query.vector.as_ref())
    }

    /// Cosine of two descriptions.
    pub(super) fn similarity_to_profile(&self, other: &CompiledProfile) -> f32 {
        nearness(self.vector.as_ref(), other.vector.as_ref())
    }

    /// Similarity of each word of the utterance to the nearest word of the description, summed by weight.
    pub(super) fn word_similarity(&self, query: &Query) -> f32 {
        query.words.iter().map(|word| word.weight * self.nearest_word(word).map_or(0.0, |(nearness, _)| nearness)).sum()
    }

    /// The description's word nearest to a word of an utterance, and how near it is, 0 to 1.
    pub(super) fn nearest_word(&self, word: &ComparedWord) -> Option<(f32, &str)> {
        let nearness = |profile_word: &ComparedWord| {
            if profile_word.stem == word.stem {
                return profile_word.weight;
            }
            let (Some(one), Some(other)) = (&profile_word.vector, &word.vector) else { return 0.0 };
            // Squared, because weak similarities are mostly chance.
            one.cosine(other).max(0.0).powi(2) * profile_word.weight
        };
        let candidates = self.words.iter().map(|profile_word| (nearness(profile_word), profile_word.text.as_str()));
        candidates.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(nearness, _)| *nearness > 0.0)
    }

    pub(super) fn best_match(&self, term: &QueryTerm) -> Option<(f32, TermMatch)> {
        let mut best: Option<(f32, TermMatch)> = None;
        let mut consider = |strength: f32, matched: TermMatch| {
            if strength > 0.0 && best.is_none_or(|(known, _)| strength > known) {
                best = Some((strength, matched));
            }
        };
        if !term.stem.is_empty() {
            match self.terms.get(&term.stem) {
                Some(term) => consider(term.weight.sqrt(), TermMatch::Word(term.source)),
                None => consider(TUNING.spelling * self.spelling_similarity(&term.stem), TermMatch::Spelling),
            }
        }
        for sense in term.senses {
            let concept = self.concepts.get(usize::from(sense.concept)).copied().unwrap_or(0.0);
            consider(TUNING.concept * (sense.affinity * concept).sqrt(), TermMatch::Concept(sense.concept));
            let topic = lexicon().topic_of(sense.concept);
            let strength = self.topics.get(usize::from(topic)).copied().unwrap_or(0.0);
            consider(TUNING.topic * sense.affinity.sqrt() * strength, TermMatch::Topic(topic));
        }
        best
    }

    /// The profile's own word behind a match.
    pub(super) fn matched_word(&self, matched: TermMatch) -> Option<&str> {
        let (_, word) = match matched {
            TermMatch::Word(_) | TermMatch::Spelling => return None,
            TermMatch::Concept(id) => self.concept_words.get(&id)?,
            TermMatch::Topic(id) => self.topic_words.get(&id)?,
        };
        Some(word)
    }

    /// 0 to 1: finds misspellings, and parts of compound words.
    fn spelling_similarity(&self, stem: &str) -> f32 {
        let Some(first) = stem.chars().next().filter(|_| stem.len() >= MIN_COMMON_PREFIX) else { return 0.0 };
        let from = self.spellings.partition_point(|(known, _)| known.chars().next() < Some(first));
        let near = self.spellings.iter().skip(from).take_while(|(known, _)| known.starts_with(first));
        near.filter(|(known, _)| is_similar_spelling(known, stem)).map(|(_, weight)| *weight).fold(0.0, f32::max)
    }
}

/// An unknown vector is similar to nothing.
fn nearness(one: Option<&CompactVector>, other: Option<&CompactVector>) -> f32 {
    one.zip(other).map_or(0.0, |(one, other)| one.cosine(other))
}

fn keep_strongest<K: Eq + std::hash::Hash>(
    strongest: &mut HashMap<K, (f32, String)>,
    key: K,
    strength: f32,
    word: &str,
) {
    let known = strongest.entry(key).or_default();
    // Of equal ones the later, which comes from the description: names and capabilities use shortened words.
    if strength > 0.0 && strength >= known.0 {
        *known = (strength, word.to_owned());
    }
}

/// Whether one is a prefix of the other, as in compound words, or one edit away from it.
fn is_similar_spelling(one: &str, other: &str) -> bool {
    let start = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let end = one.chars().rev().zip(other.chars().rev()).take_while(|(a, b)| a == b).count();
    let (one, other) = (one.chars().count(), other.chars().count());
    let (shorter, longer) = (one.min(other), one.max(other));
    if start >= MIN_COMMON_PREFIX && start + 1 >= shorter {
        return true;
    }
    // One letter substituted, inserted or missing.
    shorter >= MIN_COMMON_PREFIX && longer - shorter <= 1 && start + end + 1 >= longer
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PhrasePolarity {
    Included,
    Excluded,
}

/// Splits a description into phrases; one that begins with a negation says what the app is not for.
fn phrases(words: Vec<WordToken>) -> Vec<(Vec<WordToken>, PhrasePolarity)> {
    const NEGATIONS: &[&str] = &["not", "never", "except", "excluding", "nor", "without"];
    let mut phrases = vec![(Vec::new(), PhrasePolarity::Included)];
    for word in words {
        if NEGATIONS.contains(&word.text.as_str()) {
            phrases.push((Vec::new(), PhrasePolarity::Excluded));
            continue;
        }
        let boundary = word.boundary;
        let Some((phrase, polarity)) = phrases.last_mut() else { continue };
        let polarity = *polarity;
        phrase.push(word);
        match (boundary, polarity) {
            (TokenBoundary::Absent, _) | (TokenBoundary::Phrase, PhrasePolarity::Excluded) => {}
            (TokenBoundary::Phrase, PhrasePolarity::Included) | (TokenBoundary::Sentence, _) => {
                phrases.push((Vec::new(), PhrasePolarity::Included));
            }
        }
    }
    phrases
}

#[cfg(test)]
mod tests;
