//! An utterance, or a clause of it, prepared for comparison.

use super::lexicon::{WordSense, lexicon};
use super::tokenizer::WordToken;
use super::tuning::TUNING;
use super::vectors::{self, CompactVector};

/// Words that are compared with those of a description one by one.
const MAX_COMPARED: usize = 24;
/// Unknown words checked for misspellings; each costs some hundred look-ups.
const MAX_CORRECTIONS: usize = 4;

#[derive(Debug)]
pub(super) struct Query {
    pub(super) terms: Vec<QueryTerm>,
    /// The total weight of the utterance, known words or not.
    pub(super) weight: f32,
    /// The vector of the whole utterance; `None` if no word of it is known.
    pub(super) vector: Option<CompactVector>,
    /// The words with a topic, and their weights.
    pub(super) words: Vec<ComparedWord>,
}

/// A word with the forms it is compared by.
#[derive(Debug)]
pub(super) struct ComparedWord {
    pub(super) text: String,
    pub(super) stem: String,
    pub(super) weight: f32,
    /// `None`: only the word itself matches.
    pub(super) vector: Option<CompactVector>,
}

/// A word, or a phrase of the lexicon.
#[derive(Debug)]
pub(super) struct QueryTerm {
    pub(super) text: String,
    /// Empty for a phrase, which is compared by its senses alone.
    pub(super) stem: String,
    pub(super) weight: f32,
    pub(super) senses: &'static [WordSense],
}

/// Factor for the words after a carrier word: `remind me to water the plants` is about reminders.
const CARRIED_WEIGHT: f32 = 0.4;

impl Query {
    pub(super) fn new(words: &[WordToken]) -> Query {
        let words = &down_weight_carried(words);
        let hits = lexicon().hits(words);
        let mut terms: Vec<QueryTerm> = Vec::new();
        let mut covered = vec![false; words.len()];
        for hit in hits.iter().filter(|hit| hit.length > 1) {
            let is_inside_longer = hits.iter().any(|other| {
                other.length > hit.length && other.at <= hit.at && other.at + other.length >= hit.at + hit.length
            });
            if is_inside_longer {
                continue;
            }
            covered.iter_mut().skip(hit.at).take(hit.length).for_each(|covered| *covered = true);
            let text: Vec<&str> = words.iter().skip(hit.at).take(hit.length).map(|word| word.text.as_str()).collect();
            terms.push(QueryTerm {
                text: text.join(" "),
                stem: String::new(),
                weight: TUNING.phrase_weight,
                senses: hit.senses,
            });
        }
        let mut corrections = 0;
        for (word, covered) in words.iter().zip(&covered) {
            if word.weight <= 0.0 || terms.iter().any(|term| term.stem == word.stem) {
                continue;
            }
            let mut senses = lexicon().senses(&word.stem);
            let mut weight = word.weight;
            if senses.is_empty() {
                if weight >= 1.0 && corrections < MAX_CORRECTIONS {
                    corrections += 1;
                    senses = lexicon().senses_of_misspelling(&word.stem).unwrap_or_default();
                }
            } else if !word.is_number() {
                weight = weight.max(TUNING.vague_known);
            }
            if *covered {
                weight *= TUNING.inside_phrase;
            }
            terms.push(QueryTerm { text: word.text.clone(), stem: word.stem.clone(), weight, senses });
        }
        if addresses_assistant(words) {
            terms.push(QueryTerm {
                text: "you".to_owned(),
                stem: String::new(),
                weight: TUNING.self_reference,
                senses: lexicon().senses("yourself"),
            });
        }
        let weight = terms.iter().map(|term| term.weight).sum();
        let vector = vectors::text_vector(words).map(|vector| CompactVector::new(&vector));
        Query { terms, weight, vector, words: compared_words(words, MAX_COMPARED) }
    }
}

/// Distinct words with a topic.
pub(super) fn compared_words(words: &[WordToken], limit: usize) -> Vec<ComparedWord> {
    let mut compared: Vec<ComparedWord> = Vec::new();
    for word in words.iter().filter(|word| word.weight > 0.0 && !word.is_number()) {
        if compared.len() == limit {
            break;
        }
        if compared.iter().any(|known| known.stem == word.stem) {
            continue;
        }
        let (vector, weight) = match vectors::word_vector(&word.text) {
            Some((vector, weight)) => (Some(CompactVector::new(&vector)), weight),
            // Names and rare words are specific, but have no known meaning.
            None => (None, 1.0),
        };
        let (text, stem) = (word.text.clone(), word.stem.clone());
        compared.push(ComparedWord { text, stem, weight: weight * word.weight.sqrt(), vector });
    }
    compared
}

/// Lowers the weight of words that are only the content of a reminder, message or note.
fn down_weight_carried(words: &[WordToken]) -> Vec<WordToken> {
    const CARRIERS: &[&str] = &[
        "remind",
        "remember",
        "note",
        "jot",
        "write",
        "tell",
        "text",
        "message",
        "email",
        "mail",
        "erinner",
        "erinnere",
        "notiz",
        "notier",
        "notiere",
        "merk",
        "schreib",
        "schreibe",
        "sag",
        "recuerdame",
        "anota",
        "apunta",
        "escribe",
        "rappelle",
        "ecris",
        "dis",
    ];
    /// A carrier word further on is part of the content.
    const EARLY: usize = 3;
    let mut words = words.to_vec();
    let carrier = words.iter().take(EARLY).position(|word| CARRIERS.contains(&word.text.as_str()));
    for word in carrier.map_or(&mut [][..], |at| words.get_mut(at + 1..).unwrap_or_default()) {
        word.weight *= CARRIED_WEIGHT;
    }
    words
}

/// Whether the utterance is about the assistant itself: `what is your name`, but not `can you call me a taxi`.
pub(super) fn addresses_assistant(words: &[WordToken]) -> bool {
    const ASKING: &[&str] = &["can", "could", "would", "will", "thank", "want", "need", "did", "if", "have", "let"];
    words.iter().enumerate().any(|(at, word)| {
        let before = at.checked_sub(1).and_then(|at| words.get(at)).map_or("", |word| word.text.as_str());
        let after = words.get(at + 1).map_or("", |word| word.text.as_str());
        match word.text.as_str() {
            "your" | "yourself" | "yours" => true,
            "you" => !ASKING.contains(&before) && !["to", "please", "know", "tell", "find", "help"].contains(&after),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests;
