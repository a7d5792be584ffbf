//! Word vectors: words used in similar contexts have similar directions, so that an utterance matches a description
//! although they share no word. The table is embedded in the binary and read in place; `bench/routing/README.md` says
//! how it is made.

use std::sync::{Arc, LazyLock};

use super::tokenizer::WordToken;

/// Dimensions of one vector.
pub(super) const DIMENSIONS: usize = 128;
/// Header: `PBWV`, the number of words, the number of dimensions; all numbers are little endian.
const HEADER: usize = 12;
/// Shorter parts of a compound word match mostly by chance.
const MIN_PART_LENGTH: usize = 4;
/// Shorter words are not split into parts, and keep their endings.
const MIN_COMPOUND_LENGTH: usize = 8;
const MIN_INFLECTED_LENGTH: usize = 5;

static TABLE: LazyLock<VectorTable> = LazyLock::new(|| VectorTable::read(include_bytes!("vectors/words.bin")));

/// Of length 1, or all zeros when no word was known.
pub(super) type DenseVector = [f32; DIMENSIONS];

/// A word of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownWord {
    row: &'static [u8],
    /// The weight of the word by itself, 0 to 1.
    pub(super) weight: f32,
}

/// Sorted words: the end offsets of their texts, the texts, the weights and the vectors.
#[derive(Debug, Default)]
struct VectorTable {
    ends: &'static [u8],
    texts: &'static [u8],
    weights: &'static [u8],
    rows: &'static [u8],
}

impl VectorTable {
    fn read(bytes: &'static [u8]) -> VectorTable {
        let number = |at: usize| bytes.get(at..at + 4).and_then(le).unwrap_or(0) as usize;
        let count = number(4);
        assert!(bytes.starts_with(b"PBWV") && number(8) == DIMENSIONS, "the table of word vectors has another format");
        let (ends, rest) = bytes.split_at(HEADER).1.split_at(count * 4);
        let length = ends.rchunks(4).next().and_then(le).unwrap_or(0) as usize;
        let (texts, rest) = rest.split_at(length);
        let (weights, rows) = rest.split_at(count);
        assert_eq!(rows.len(), count * DIMENSIONS, "the table of word vectors is cut off");
        VectorTable { ends, texts, weights, rows }
    }

    fn len(&self) -> usize {
        self.weights.len()
    }

    fn text(&self, at: usize) -> &'static [u8] {
        let end = |at: usize| self.ends.get(at * 4..at * 4 + 4).and_then(le).unwrap_or(0) as usize;
        let from = if at == 0 { 0 } else { end(at - 1) };
        self.texts.get(from..end(at)).unwrap_or_default()
    }

    fn find(&self, word: &str) -> Option<KnownWord> {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            match self.text(middle).cmp(word.as_bytes()) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Greater => to = middle,
                std::cmp::Ordering::Equal => {
                    let row = self.rows.get(middle * DIMENSIONS..(middle + 1) * DIMENSIONS)?;
                    return Some(KnownWord { row, weight: f32::from(*self.weights.get(middle)?) / 255.0 });
                }
            }
        }
        None
    }
}

fn le(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

impl KnownWord {
    fn add_to(self, sum: &mut DenseVector, weight: f32) {
        // Rows are stored with length 127, up to rounding.
        let weight = weight / 127.0;
        for (sum, byte) in sum.iter_mut().zip(self.row) {
            *sum += weight * f32::from(i8::from_le_bytes([*byte]));
        }
    }
}

/// The vector of one word, or the sum of the vectors of a compound's parts; of length 1.
pub(super) fn word_vector(word: &str) -> Option<(DenseVector, f32)> {
    let mut vector = [0.0; DIMENSIONS];
    let weight = if let Some(known) = find_known_word(word) {
        known.add_to(&mut vector, 1.0);
        known.weight
    } else {
        let (first, last) = parts(word)?;
        // The last part of a compound names the kind of thing, the first part which one.
        first.add_to(&mut vector, 1.0);
        last.add_to(&mut vector, 1.0);
        first.weight.max(last.weight)
    };
    normalize(&mut vector);
    Some((vector, weight))
}

/// The weighted sum of the vectors of all words; `None` if no word is known.
pub(super) fn text_vector<'a>(words: impl IntoIterator<Item = &'a WordToken>) -> Option<DenseVector> {
    let mut sum = [0.0; DIMENSIONS];
    let mut is_known = false;
    for word in words {
        if word.weight <= 0.0 || word.is_number() {
            continue;
        }
        if let Some((vector, weight)) = word_vector(&word.text) {
            is_known = true;
            let weight = weight * word.weight.sqrt();
            sum.iter_mut().zip(vector).for_each(|(sum, one)| *sum += weight * one);
        }
    }
    normalize(&mut sum);
    is_known.then_some(sum)
}

pub(super) fn cosine(one: &DenseVector, other: &DenseVector) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// A quantised vector: one byte per dimension, of length 127 up to rounding. Shared, since the trained model is cloned
/// on every training.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompactVector(Arc<[i8; DIMENSIONS]>);

impl CompactVector {
    pub(super) fn new(vector: &DenseVector) -> Self {
        let mut compact = [0; DIMENSIONS];
        for (byte, one) in compact.iter_mut().zip(vector) {
            *byte = (one * 127.0).round().clamp(-127.0, 127.0) as i8;
        }
        Self(Arc::new(compact))
    }

    pub(super) fn cosine(&self, other: &CompactVector) -> f32 {
        let sum: i32 = self.0.iter().zip(&*other.0).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
        sum as f32 / (127.0 * 127.0)
    }
}

fn normalize(vector: &mut DenseVector) {
    let length = cosine(vector, vector).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|one| *one /= length);
    }
}

/// Finds the word as it is, or without an ending.
fn find_known_word(word: &str) -> Option<KnownWord> {
    const ENDINGS: &[&str] = &["s", "es", "e", "en", "n", "er", "em", "t", "st", "ed", "ing"];
    TABLE.find(word).or_else(|| {
        if word.len() < MIN_INFLECTED_LENGTH || !word.is_ascii() {
            return None;
        }
        let heads = ENDINGS.iter().filter_map(|ending| word.strip_suffix(ending)).filter(|head| head.len() >= 4);
        heads.into_iter().find_map(|head| TABLE.find(head))
    })
}

/// The two parts of a compound word: `Einkaufsliste` is `Einkauf` and `Liste`.
fn parts(word: &str) -> Option<(KnownWord, KnownWord)> {
    const JOINTS: &[&str] = &["", "s", "n", "en", "es", "er"];
    if word.len() < MIN_COMPOUND_LENGTH || !word.is_ascii() {
        return None;
    }
    // Try long last parts first: they match by chance less often.
    (MIN_PART_LENGTH..=word.len() - MIN_PART_LENGTH).find_map(|at| {
        let (first, last) = word.split_at(at);
        let last = find_known_word(last)?;
        let heads = JOINTS.iter().filter_map(|joint| first.strip_suffix(joint));
        let first = heads.filter(|head| head.len() >= MIN_PART_LENGTH).find_map(|head| TABLE.find(head))?;
        Some((first, last))
    })
}

#[cfg(test)]
mod tests;
