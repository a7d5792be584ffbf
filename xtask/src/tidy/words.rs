//! Words that mean unfinished work, a silenced test or a silenced lint.

use crate::tidy::{Context, Problem};

/// A word and how it is recognised.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    text: &'static str,
    /// The character after it must not continue an identifier.
    whole: bool,
}

impl Word {
    /// Found only where it is an identifier of its own.
    pub(super) const fn whole(text: &'static str) -> Word {
        Word { text, whole: true }
    }

    const fn opening(text: &'static str) -> Word {
        Word { text, whole: false }
    }
}

const RUST: &[(Word, &str)] = &[
    (Word::opening("todo!"), "unfinished work: finish it, or leave it out"),
    (Word::opening("unimplemented!"), "unfinished work: finish it, or leave it out"),
    (Word::opening("dbg!"), "left over from debugging"),
    (Word::whole("#[ignore"), "an ignored test proves nothing: assert what happens today and say why it is wrong"),
    (Word::opening("#[allow("), "write `#[expect(…, reason = \"…\")]`, which tells when it is no longer needed"),
    (Word::opening("#![allow("), "write `#![expect(…, reason = \"…\")]`, which tells when it is no longer needed"),
];

const SILENCED: &str = "a test silenced for everyone: fix it, or skip it at run time with the reason";

const PYTHON: &[&str] = &["@unittest.skip(", "@unittest.expectedFailure", "@skip(", "@expectedFailure"];
const JAVASCRIPT: &[&str] =
    &["test.skip(", "it.skip(", "describe.skip(", "test.only(", "it.only(", "describe.only(", "test.todo(", "it.todo("];

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, file) in context.tree.files() {
        if path.ends_with(".rs") {
            problems.extend(rust(path, &file.code));
        } else if path.ends_with(".py") {
            problems.extend(silenced(path, &file.text, PYTHON));
        } else if path.ends_with(".mjs") || path.ends_with(".ts") {
            problems.extend(silenced(path, &file.text, JAVASCRIPT));
        }
    }
    problems
}

fn rust(path: &str, code: &str) -> Vec<Problem> {
    let mut problems: Vec<Problem> = RUST
        .iter()
        .flat_map(|(word, why)| find_words(code, &[*word]).into_iter().map(move |found| (found, why)))
        .map(|((line, word), why)| Problem::new(path, line, format!("`{word}`: {why}")))
        .collect();
    for (at, line) in code.lines().enumerate().filter(|(_, line)| line.contains("cfg_attr(")) {
        if line.contains(" ignore") || line.contains(" allow(") {
            problems.push(Problem::new(path, at + 1, "`ignore` and `allow` are no better under `cfg_attr`"));
        }
    }
    problems
}

fn silenced(path: &str, text: &str, words: &[&str]) -> Vec<Problem> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| words.iter().any(|word| line.trim_start().starts_with(word)))
        .map(|(at, line)| Problem::new(path, at + 1, format!("`{}`: {SILENCED}", line.trim())))
        .collect()
}

/// The line numbers, from 1, at which one of the words stands in code that was already freed of comments and literals.
pub(super) fn find_words(code: &str, words: &[Word]) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (at, line) in code.lines().enumerate() {
        for word in words {
            if line.match_indices(word.text).any(|(start, _)| stands_alone(line, start, *word)) {
                found.push((at + 1, word.text));
            }
        }
    }
    found
}

fn stands_alone(line: &str, start: usize, word: Word) -> bool {
    let continues = |neighbour: Option<char>| neighbour.is_some_and(|one| one.is_alphanumeric() || one == '_');
    let before = line.get(..start).and_then(|text| text.chars().next_back());
    let after = line.get(start + word.text.len()..).and_then(|text| text.chars().next());
    // An attribute starts with a sign, before which anything may stand.
    let starts_fresh = word.text.starts_with('#') || !continues(before);
    starts_fresh && !(word.whole && continues(after))
}

#[cfg(test)]
mod tests;
