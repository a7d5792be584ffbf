//! What an utterance, or a clause of it, offers for comparison.

use super::lexicon::{WordSense, lexicon};
use super::tokenizer::WordToken;
use super::tuning::TUNING;
use super::vectors::{self, CompactVector};

/// Words that are compared with those of a description one by one.
const MOST_COMPARED: usize = 24;
/// Unknown words that are looked at for slips; each costs some hundred look-ups.
const MOST_CORRECTIONS: usize = 4;

#[derive(Debug)]
pub(super) struct Query {
    pub(super) terms: Vec<QueryTerm>,
    /// How much the whole utterance says, whether anyone understands it or not.
    pub(super) weight: f32,
    /// What all of it is about; `None` when no word of it is known.
    pub(super) vector: Option<CompactVector>,
    /// The words that say something, with how much they say.
    pub(super) words: Vec<ComparedWord>,
}

/// A word, and what it is compared by.
#[derive(Debug)]
pub(super) struct ComparedWord {
    pub(super) text: String,
    pub(super) stem: String,
    pub(super) weight: f32,
    /// `None`: only the word itself will do.
    pub(super) vector: Option<CompactVector>,
}

/// A word, or a phrase known as one.
#[derive(Debug)]
pub(super) struct QueryTerm {
    pub(super) text: String,
    /// Empty for a phrase, which is compared by its senses alone.
    pub(super) stem: String,
    pub(super) weight: f32,
    pub(super) senses: &'static [WordSense],
}

/// What is left of the words after one that only carries them: `remind me to water the plants` is about being
/// reminded.
const CARRIED_WEIGHT: f32 = 0.4;

impl Query {
    pub(super) fn new(words: &[WordToken]) -> Query {
        let words = &down_weight_carried(words);
        let hits = lexicon().hits(words);
        let mut cues: Vec<QueryTerm> = Vec::new();
        let mut covered = vec![false; words.len()];
        for hit in hits.iter().filter(|hit| hit.length > 1) {
            let longer = hits.iter().any(|other| {
                other.length > hit.length && other.at <= hit.at && other.at + other.length >= hit.at + hit.length
            });
            if longer {
                continue;
            }
            covered.iter_mut().skip(hit.at).take(hit.length).for_each(|covered| *covered = true);
            let text: Vec<&str> = words.iter().skip(hit.at).take(hit.length).map(|word| word.text.as_str()).collect();
            cues.push(QueryTerm {
                text: text.join(" "),
                stem: String::new(),
                weight: TUNING.phrase_weight,
                senses: hit.senses,
            });
        }
        let mut corrections = 0;
        for (word, covered) in words.iter().zip(&covered) {
            if word.weight <= 0.0 || cues.iter().any(|cue| cue.stem == word.stem) {
                continue;
            }
            let mut senses = lexicon().senses(&word.stem);
            let mut weight = word.weight;
            if senses.is_empty() {
                if weight >= 1.0 && corrections < MOST_CORRECTIONS {
                    corrections += 1;
                    senses = lexicon().senses_of_misspelling(&word.stem).unwrap_or_default();
                }
            } else if !word.is_number() {
                weight = weight.max(TUNING.vague_known);
            }
            if *covered {
                weight *= TUNING.inside_phrase;
            }
            cues.push(QueryTerm { text: word.text.clone(), stem: word.stem.clone(), weight, senses });
        }
        if addresses_assistant(words) {
            cues.push(QueryTerm {
                text: "you".to_owned(),
                stem: String::new(),
                weight: TUNING.self_reference,
                senses: lexicon().senses("yourself"),
            });
        }
        let weight = cues.iter().map(|cue| cue.weight).sum();
        let vector = vectors::text_vector(words).map(|vector| CompactVector::new(&vector));
        Query { terms: cues, weight, vector, words: compared_words(words, MOST_COMPARED) }
    }
}

/// The words that say something about a topic, each once.
pub(super) fn compared_words(words: &[WordToken], most: usize) -> Vec<ComparedWord> {
    let mut compared: Vec<ComparedWord> = Vec::new();
    for word in words.iter().filter(|word| word.weight > 0.0 && !word.is_number()) {
        if compared.len() == most {
            break;
        }
        if compared.iter().any(|known| known.stem == word.stem) {
            continue;
        }
        let (vector, weight) = match vectors::word_vector(&word.text) {
            Some((vector, weight)) => (Some(CompactVector::new(&vector)), weight),
            // Names and rare words say much, but nobody knows what.
            None => (None, 1.0),
        };
        let (text, stem) = (word.text.clone(), word.stem.clone());
        compared.push(ComparedWord { text, stem, weight: weight * word.weight.sqrt(), vector });
    }
    compared
}

/// The words, those lowered that are only what somebody shall be reminded of, told, or what shall be noted.
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
    /// A carrier further on is one of the words that are carried.
    const EARLY: usize = 3;
    let mut words = words.to_vec();
    let carrier = words.iter().take(EARLY).position(|word| CARRIERS.contains(&word.text.as_str()));
    for word in carrier.map_or(&mut [][..], |at| words.get_mut(at + 1..).unwrap_or_default()) {
        word.weight *= CARRIED_WEIGHT;
    }
    words
}

/// Whether the one who is spoken to is also spoken about: `what is your name`, but not `can you call me a taxi`.
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
