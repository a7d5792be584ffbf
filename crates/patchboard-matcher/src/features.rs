//! The countable features of an utterance: words, word pairs, character n-grams, concepts and topics.

use super::lexicon::lexicon;
use super::query::addresses_assistant;
use super::tokenizer::WordToken;
use super::tuning::TUNING;

/// Most features of one utterance; those of the first words are kept.
const MAX_FEATURES: usize = 192;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FeatureHash(u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeatureClass {
    Word = 0,
    Pair = 1,
    CharacterGram = 2,
    Concept = 3,
    Topic = 4,
    /// A word that fits any topic, or a mere connective.
    FunctionWord = 5,
    FunctionWordPair = 6,
}

const CLASS_BITS: u32 = 3;

impl FeatureHash {
    fn new(class: FeatureClass, parts: &[&[u8]]) -> FeatureHash {
        // FNV-1a; a collision only adds a little noise.
        let mut hash: u32 = 0x811c_9dc5;
        for byte in parts.iter().flat_map(|part| part.iter().chain(&[0])) {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
        FeatureHash((hash ^ (hash >> 29)) << CLASS_BITS | class as u32)
    }

    /// The weight of the feature's class.
    pub(super) fn weight(self) -> f32 {
        let class = (self.0 & ((1 << CLASS_BITS) - 1)) as usize;
        TUNING.class_weights.get(class).copied().unwrap_or(0.0)
    }
}

/// Distinct features in ascending order.
pub(super) fn features(words: &[WordToken]) -> Vec<FeatureHash> {
    let mut found = Vec::with_capacity(96);
    let mut previous = "";
    let mut previous_is_function_word = true;
    for word in words {
        let number = word.is_number();
        let stem = if number { "#" } else { word.stem.as_str() };
        let is_function_word = word.weight < 0.5;
        found.push(FeatureHash::new(
            if is_function_word { FeatureClass::FunctionWord } else { FeatureClass::Word },
            &[stem.as_bytes()],
        ));
        let pair = if is_function_word && previous_is_function_word {
            FeatureClass::FunctionWordPair
        } else {
            FeatureClass::Pair
        };
        found.push(FeatureHash::new(pair, &[previous.as_bytes(), stem.as_bytes()]));
        previous = stem;
        previous_is_function_word = is_function_word;
        if word.weight > 0.0 && !number {
            character_grams(&word.text, &mut found);
        }
    }
    found.push(FeatureHash::new(FeatureClass::FunctionWordPair, &[previous.as_bytes(), b""]));
    for sense in
        lexicon().hits(words).iter().filter(|hit| has_content(hit.at, hit.length, words)).flat_map(|hit| hit.senses)
    {
        found.push(FeatureHash::new(FeatureClass::Concept, &[&sense.concept.to_le_bytes()]));
        if sense.affinity >= 0.5 {
            found.push(FeatureHash::new(FeatureClass::Topic, &[&lexicon().topic_of(sense.concept).to_le_bytes()]));
        }
    }
    if addresses_assistant(words) {
        found.push(FeatureHash::new(FeatureClass::Concept, &[b"you"]));
    }
    found.truncate(MAX_FEATURES);
    found.sort_unstable();
    found.dedup();
    found
}

fn has_content(at: usize, length: usize, words: &[WordToken]) -> bool {
    length > 1 || words.get(at).is_some_and(|word| word.weight > 0.0)
}

fn character_grams(word: &str, found: &mut Vec<FeatureHash>) {
    let padded: Vec<char> = std::iter::once('^').chain(word.chars()).chain(std::iter::once('$')).collect();
    let mut buffer = [0; 16];
    for window in padded.windows(4) {
        let mut length = 0;
        for character in window {
            length += character.encode_utf8(&mut buffer[length..]).len();
        }
        found.push(FeatureHash::new(FeatureClass::CharacterGram, &[&buffer[..length]]));
    }
}

#[cfg(test)]
mod tests;
