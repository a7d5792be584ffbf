//! A file tells one story; one that no longer fits on a few screens tells several.

use crate::codegen;
use crate::tidy::tree::Tree;
use crate::tidy::{Context, Problem};

pub(super) const LIMIT: usize = 800;
/// Worth a look; counted, not refused.
pub(super) const LONG: usize = 500;

const WRITTEN_BY_HAND: &[&str] = &[".rs", ".py", ".ts", ".tsx", ".mjs", ".js", ".css"];

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let too_long = sizes(&context.tree).filter(|(_, lines)| *lines > LIMIT);
    too_long
        .map(|(path, lines)| Problem::new(path, lines, format!("{lines} lines, more than {LIMIT}: split it")))
        .collect()
}

pub(super) fn long_files(tree: &Tree) -> usize {
    sizes(tree).filter(|(_, lines)| *lines > LONG).count()
}

fn sizes(tree: &Tree) -> impl Iterator<Item = (&str, usize)> {
    let by_hand = tree.files().filter(|(path, _)| {
        WRITTEN_BY_HAND.iter().any(|ending| path.ends_with(ending)) && !codegen::is_generated(path)
    });
    by_hand.map(|(path, file)| (path, file.text.lines().count()))
}

#[cfg(test)]
mod tests;
