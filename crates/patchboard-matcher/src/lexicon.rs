//! General knowledge: which words belong to one concept, and which concepts to one topic, so that an utterance and a
//! description match although they share no word. Contains nothing about particular apps.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::tokenizer::{WordToken, tokenize};

/// In reading order; a repeated heading continues its topic.
const SOURCES: &[&str] = &[
    include_str!("lexicon/errands.txt"),
    include_str!("lexicon/home.txt"),
    include_str!("lexicon/talk.txt"),
    include_str!("lexicon/world.txt"),
    include_str!("lexicon/sayings.txt"),
    include_str!("lexicon/abroad.txt"),
];

const MAX_PHRASE_WORDS: usize = 6;

pub(super) type ConceptId = u16;
pub(super) type TopicId = u16;

#[derive(Debug)]
pub(super) struct Lexicon {
    concepts: Vec<Concept>,
    topics: Vec<&'static str>,
    /// By stem; the stems of a phrase are joined by one space.
    entries: HashMap<String, Vec<WordSense>>,
    /// For each first stem the longest phrase that begins with it, so that most words need no further look-up.
    longest_phrase_from: HashMap<String, usize>,
}

#[derive(Debug)]
pub(super) struct Concept {
    pub(super) name: String,
    pub(super) topic: TopicId,
}

/// A concept that a word can mean, and how likely (0 to 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WordSense {
    pub(super) concept: ConceptId,
    pub(super) affinity: f32,
}

/// A word or phrase of a text that is in the lexicon.
#[derive(Debug, Clone)]
pub(super) struct LexiconHit {
    pub(super) at: usize,
    pub(super) length: usize,
    pub(super) senses: &'static [WordSense],
}

pub(super) fn lexicon() -> &'static Lexicon {
    static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::read(SOURCES));
    &LEXICON
}

impl Lexicon {
    fn read(sources: &[&'static str]) -> Lexicon {
        let mut lexicon = Lexicon {
            concepts: Vec::new(),
            topics: Vec::new(),
            entries: HashMap::new(),
            longest_phrase_from: HashMap::new(),
        };
        let mut topic = 0;
        for line in sources.iter().flat_map(|source| source.lines()) {
            if let Some(name) = line.strip_prefix("= ") {
                topic = lexicon.topic(name);
            } else if let Some((name, entries)) = line.strip_prefix("+ ").and_then(|line| line.split_once(' ')) {
                lexicon.extend(name, entries);
            } else if !line.is_empty() && !line.starts_with('#') {
                lexicon.concept(topic, line);
            }
        }
        for senses in lexicon.entries.values_mut() {
            // An ambiguous word is weak evidence for each of its meanings.
            let divisor = (senses.len() as f32).sqrt();
            senses.iter_mut().for_each(|sense| sense.affinity /= divisor);
        }
        lexicon
    }

    fn topic(&mut self, name: &'static str) -> TopicId {
        let at = self.topics.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.topics.push(name);
            self.topics.len() - 1
        });
        at as TopicId
    }

    /// A concept is named by its first entry.
    fn concept(&mut self, topic: TopicId, line: &'static str) {
        let id = self.concepts.len() as ConceptId;
        let name = line.split_whitespace().next().unwrap_or_default();
        self.concepts.push(Concept { name: name.trim_end_matches('?').replace('_', " "), topic });
        self.entries(id, line);
    }

    fn extend(&mut self, name: &str, entries: &'static str) {
        let name = name.trim_end_matches('?').replace('_', " ");
        let id = self.concepts.iter().position(|concept| concept.name == name);
        debug_assert!(id.is_some(), "no concept is called {name}");
        if let Some(id) = id {
            self.entries(id as ConceptId, entries);
        }
    }

    fn entries(&mut self, id: ConceptId, entries: &'static str) {
        for entry in entries.split_whitespace() {
            let (entry, affinity) = entry.strip_suffix('?').map_or((entry, 1.0), |entry| (entry, 0.5));
            let stems: Vec<String> = tokenize(&entry.replace('_', " ")).into_iter().map(|word| word.stem).collect();
            debug_assert!((1..=MAX_PHRASE_WORDS).contains(&stems.len()), "{entry}");
            let senses = self.entries.entry(stems.join(" ")).or_default();
            if senses.iter().all(|sense| sense.concept != id) {
                senses.push(WordSense { concept: id, affinity });
            }
            if let Some(first) = stems.first() {
                let longest = self.longest_phrase_from.entry(first.clone()).or_default();
                *longest = stems.len().max(*longest);
            }
        }
    }

    pub(super) fn concepts(&self) -> &[Concept] {
        &self.concepts
    }

    pub(super) fn topics(&self) -> &[&'static str] {
        &self.topics
    }

    pub(super) fn topic_of(&self, concept: ConceptId) -> TopicId {
        self.concepts.get(usize::from(concept)).map_or(0, |concept| concept.topic)
    }

    /// Every known word and phrase, including phrases inside longer ones.
    pub(super) fn hits(&'static self, words: &[WordToken]) -> Vec<LexiconHit> {
        let mut hits = Vec::new();
        let mut key = String::new();
        for (at, first) in words.iter().enumerate() {
            let longest = self.longest_phrase_from.get(&first.stem).copied().unwrap_or(0);
            key.clear();
            for (length, word) in words.iter().skip(at).take(longest).enumerate() {
                if length > 0 {
                    key.push(' ');
                }
                key.push_str(&word.stem);
                if let Some(senses) = self.entries.get(&key) {
                    hits.push(LexiconHit { at, length: length + 1, senses });
                }
            }
        }
        hits
    }

    pub(super) fn senses(&'static self, stem: &str) -> &'static [WordSense] {
        self.entries.get(stem).map_or(&[], Vec::as_slice)
    }

    /// The senses of a known word one misspelling away: two letters swapped, one too many, one missing.
    pub(super) fn senses_of_misspelling(&'static self, stem: &str) -> Option<&'static [WordSense]> {
        if !(6..=14).contains(&stem.len()) || !stem.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return None;
        }
        let mut candidate = String::with_capacity(stem.len() + 1);
        let mut try_parts = |parts: &[&str]| {
            candidate.clear();
            parts.iter().for_each(|part| candidate.push_str(part));
            self.entries.get(&candidate).map(Vec::as_slice)
        };
        // All bytes are ASCII letters, so every index is a character boundary.
        let swapped =
            (0..stem.len() - 1).map(|at| [&stem[..at], &stem[at + 1..at + 2], &stem[at..=at], &stem[at + 2..]]);
        let shorter = (0..stem.len()).map(|at| [&stem[..at], "", "", &stem[at + 1..]]);
        let letters = || (0..ALPHABET.len()).map(|at| &ALPHABET[at..=at]);
        let longer =
            (1..=stem.len()).flat_map(|at| letters().map(move |letter| [&stem[..at], letter, "", &stem[at..]]));
        swapped.chain(shorter).chain(longer).find_map(|parts| try_parts(&parts))
    }
}

const ALPHABET: &str = "abcdefghijklmnopqrstuvwxyz";

#[cfg(test)]
mod tests;
