//! An utterance as numbers that can be counted: its words, pairs of words, pieces of words, concepts and topics.

use super::knobs::KNOBS;
use super::lexicon::lexicon;
use super::query::speaks_to_us;
use super::words::Word;

/// What is kept of one utterance; the first features are those of its first words.
const MOST_FEATURES: usize = 192;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Feature(u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Word = 0,
    Pair = 1,
    Piece = 2,
    Concept = 3,
    Topic = 4,
    /// A word that fits any topic, or only joins others.
    Glue = 5,
    GluePair = 6,
}

const CLASS_BITS: u32 = 3;

impl Feature {
    fn new(class: Class, parts: &[&[u8]]) -> Feature {
        // FNV-1a; two features that fall together by chance only add a little noise.
        let mut hash: u32 = 0x811c_9dc5;
        for byte in parts.iter().flat_map(|part| part.iter().chain(&[0])) {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
        Feature((hash ^ (hash >> 29)) << CLASS_BITS | class as u32)
    }

    /// How much a feature of its class says.
    pub(super) fn weight(self) -> f32 {
        let class = (self.0 & ((1 << CLASS_BITS) - 1)) as usize;
        KNOBS.class_weights.get(class).copied().unwrap_or(0.0)
    }
}

/// Each once, in ascending order.
pub(super) fn features(words: &[Word]) -> Vec<Feature> {
    let mut found = Vec::with_capacity(96);
    let mut previous = "";
    let mut previous_glue = true;
    for word in words {
        let number = word.is_number();
        let stem = if number { "#" } else { word.stem.as_str() };
        let glue = word.weight < 0.5;
        found.push(Feature::new(if glue { Class::Glue } else { Class::Word }, &[stem.as_bytes()]));
        let pair = if glue && previous_glue { Class::GluePair } else { Class::Pair };
        found.push(Feature::new(pair, &[previous.as_bytes(), stem.as_bytes()]));
        previous = stem;
        previous_glue = glue;
        if word.weight > 0.0 && !number {
            pieces(&word.text, &mut found);
        }
    }
    found.push(Feature::new(Class::GluePair, &[previous.as_bytes(), b""]));
    for sense in
        lexicon().hits(words).iter().filter(|hit| matters(hit.at, hit.length, words)).flat_map(|hit| hit.senses)
    {
        found.push(Feature::new(Class::Concept, &[&sense.concept.to_le_bytes()]));
        if sense.affinity >= 0.5 {
            found.push(Feature::new(Class::Topic, &[&lexicon().topic_of(sense.concept).to_le_bytes()]));
        }
    }
    if speaks_to_us(words) {
        found.push(Feature::new(Class::Concept, &[b"you"]));
    }
    found.truncate(MOST_FEATURES);
    found.sort_unstable();
    found.dedup();
    found
}

fn matters(at: usize, length: usize, words: &[Word]) -> bool {
    length > 1 || words.get(at).is_some_and(|word| word.weight > 0.0)
}

fn pieces(word: &str, found: &mut Vec<Feature>) {
    let padded: Vec<char> = std::iter::once('^').chain(word.chars()).chain(std::iter::once('$')).collect();
    let mut buffer = [0; 16];
    for window in padded.windows(4) {
        let mut length = 0;
        for character in window {
            length += character.encode_utf8(&mut buffer[length..]).len();
        }
        found.push(Feature::new(Class::Piece, &[&buffer[..length]]));
    }
}

#[cfg(test)]
mod tests;
