//! Finds lines in a text: exactly if possible, else tolerating differences that models often introduce. Tolerance
//! applies only to comparing lines; a match must still be unique.

use std::borrow::Cow;
use std::collections::HashMap;

mod indent;

pub(super) use indent::IndentMap;

/// How closely lines must agree, strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchTolerance {
    Exact,
    /// Ignores blanks at the end.
    LineEnds,
    /// Ignores blanks at both ends.
    Indentation,
    /// Ignores the number of consecutive blanks, and the shape of quotes and dashes.
    Blanks,
}

impl MatchTolerance {
    pub(super) const ALL: [Self; 4] = [Self::Exact, Self::LineEnds, Self::Indentation, Self::Blanks];

    /// Description for a remark to the model.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exactly",
            Self::LineEnds => "ignoring blanks at line ends",
            Self::Indentation => "ignoring indentation",
            Self::Blanks => "ignoring differences in blanks and punctuation marks",
        }
    }

    fn normalized(self, line: &str) -> Cow<'_, str> {
        match self {
            Self::Exact => line.into(),
            Self::LineEnds => line.trim_end().into(),
            Self::Indentation => line.trim().into(),
            Self::Blanks => {
                let words: Vec<_> = line.split_whitespace().collect();
                words.join(" ").chars().map(plain_mark).collect::<String>().into()
            }
        }
    }
}

/// Start indices of all runs of `wanted` in `lines`, overlapping ones included. Linear in the length of both.
pub(super) fn find_runs(lines: &[&str], wanted: &[&str], closeness: MatchTolerance) -> Vec<usize> {
    if wanted.is_empty() || wanted.len() > lines.len() {
        return Vec::new();
    }
    // Lines are mapped to numbers, so that a comparison takes the same time whatever their length.
    let mut numbers = HashMap::new();
    let mut number = |line| {
        let next = numbers.len();
        *numbers.entry(closeness.normalized(line)).or_insert(next)
    };
    let wanted: Vec<usize> = wanted.iter().map(|line| number(line)).collect();
    let lines: Vec<usize> = lines.iter().map(|line| number(line)).collect();
    find_overlapping(&lines, &wanted)
}

/// Knuth-Morris-Pratt: after a mismatch, continues from the longest prefix that still fits.
fn find_overlapping(lines: &[usize], wanted: &[usize]) -> Vec<usize> {
    let at = |index: usize| wanted.get(index);
    let mut fallback = vec![0_usize; wanted.len()];
    let mut fits = 0;
    for index in 1..wanted.len() {
        while fits > 0 && at(fits) != at(index) {
            fits = fallback.get(fits - 1).copied().unwrap_or(0);
        }
        fits += usize::from(at(fits) == at(index));
        if let Some(slot) = fallback.get_mut(index) {
            *slot = fits;
        }
    }
    let (mut found, mut fits) = (Vec::new(), 0);
    for (index, line) in lines.iter().enumerate() {
        while fits > 0 && at(fits) != Some(line) {
            fits = fallback.get(fits - 1).copied().unwrap_or(0);
        }
        fits += usize::from(at(fits) == Some(line));
        if fits == wanted.len() {
            found.push(index + 1 - fits);
            fits = fallback.get(fits - 1).copied().unwrap_or(0);
        }
    }
    found
}

/// Maps typographic quotes and dashes to ASCII.
fn plain_mark(character: char) -> char {
    match character {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        other => other,
    }
}

#[cfg(test)]
mod tests;
