//! Detects text that repeats itself endlessly, as small models produce. Pure: chunks in, a verdict out.
//!
//! A text repeats itself if its end consists of the same unit, at least [`MIN_REPEATS`] times and
//! [`MIN_REPEATED_BYTES`] bytes in all. Numbers that count up ("Step 12: … Step 13: …") count as equal in long units;
//! in short units they are legitimate output ("count to a hundred").

/// Smallest number of consecutive units.
const MIN_REPEATS: usize = 4;
/// Shorter repetitions occur legitimately, in tables, drawings and rules between paragraphs.
const MIN_REPEATED_BYTES: usize = 240;
/// Smallest length of a unit in which differing numbers count as equal.
const MIN_COUNTING_UNIT: usize = 40;
/// Length of the examined tail; units up to a quarter of it are detected.
const WINDOW: usize = 2400;
/// Bytes between two checks; each costs time proportional to the window.
const CHECK_INTERVAL_BYTES: usize = 48;

/// Detects repetition in one response.
#[derive(Debug, Default)]
pub(crate) struct RepetitionDetector {
    /// The end of the text.
    tail: Vec<TextSymbol>,
    unchecked_bytes: usize,
}

/// A byte of the text, or a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TextSymbol {
    /// `0` for every number.
    byte: u8,
    /// A hash that distinguishes most numbers.
    number: u8,
}

impl RepetitionDetector {
    /// Adds a chunk; returns whether the text now repeats itself.
    pub(crate) fn push(&mut self, chunk: &str) -> bool {
        for byte in chunk.bytes() {
            match self.tail.last_mut() {
                Some(TextSymbol { byte: b'0', number }) if byte.is_ascii_digit() => {
                    // Further digits belong to the same number.
                    *number = number.wrapping_mul(31).wrapping_add(byte);
                }
                _ if byte.is_ascii_digit() => self.tail.push(TextSymbol { byte: b'0', number: byte }),
                _ => self.tail.push(TextSymbol { byte, number: 0 }),
            }
        }
        let excess = self.tail.len().saturating_sub(WINDOW);
        self.tail.drain(..excess);
        self.unchecked_bytes += chunk.len();
        if self.unchecked_bytes < CHECK_INTERVAL_BYTES {
            return false;
        }
        self.unchecked_bytes = 0;
        let symbols = self.tail.iter().rev().copied();
        let without_numbers = self.tail.iter().rev().map(|symbol| symbol.byte);
        repeats(symbols, 1) || repeats(without_numbers, MIN_COUNTING_UNIT)
    }
}

/// Whether the reversed text begins with repetitions of one unit of at least `min_unit`, that is, the text ends with
/// them. The KMP failure function yields the smallest unit of every prefix in one pass.
fn repeats<T: PartialEq>(reversed: impl Iterator<Item = T>, min_unit: usize) -> bool {
    let reversed: Vec<T> = reversed.collect();
    let mut borders = vec![0_usize; reversed.len()];
    let mut border = 0;
    for (index, symbol) in reversed.iter().enumerate().skip(1) {
        while border > 0 && reversed.get(border) != Some(symbol) {
            border = borders.get(border - 1).copied().unwrap_or(0);
        }
        if reversed.get(border) == Some(symbol) {
            border += 1;
        }
        if let Some(entry) = borders.get_mut(index) {
            *entry = border;
        }
        let (length, unit) = (index + 1, index + 1 - border);
        if length >= MIN_REPEATED_BYTES && length >= unit * MIN_REPEATS && unit >= min_unit {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
