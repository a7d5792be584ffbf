//! How many tests passed, read from what the runners print.

use std::ops::Add;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    /// What a line of a libtest run adds, which is nothing for most lines.
    pub(crate) fn of_libtest(line: &str) -> Counts {
        libtest_result(line).unwrap_or_default()
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

/// `     Summary [   0.5s] 12 tests run: 10 passed (1 slow), 1 failed, 1 timed out, 2 skipped`
pub(crate) fn nextest_summary(line: &str) -> Option<Counts> {
    let figures = line.trim_start().strip_prefix("Summary [")?.split_once(" run: ")?.1;
    let mut counts = Counts::default();
    for part in without_parentheses(figures).split(',') {
        let (number, kind) = number_and_word(part)?;
        match kind {
            "passed" => counts.passed += number,
            "skipped" => counts.skipped += number,
            // Failed, timed out, could not be started: whatever did not pass has failed.
            _ => counts.failed += number,
        }
    }
    Some(counts)
}

/// `test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s`
pub(crate) fn libtest_result(line: &str) -> Option<Counts> {
    let figures = line.trim_start().strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut counts = Counts::default();
    for (number, kind) in figures.split(';').filter_map(number_and_word) {
        match kind {
            "passed" => counts.passed += number,
            "failed" => counts.failed += number,
            "ignored" => counts.skipped += number,
            _ => {}
        }
    }
    Some(counts)
}

fn number_and_word(part: &str) -> Option<(u64, &str)> {
    let (number, word) = part.trim().split_once(' ')?;
    Some((number.parse().ok()?, word.trim()))
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    text.chars()
        .filter(|character| {
            match character {
                '(' => depth += 1,
                ')' => {
                    depth = depth.saturating_sub(1);
                    return false;
                }
                _ => {}
            }
            depth == 0
        })
        .collect()
}

#[cfg(test)]
mod tests;
