//! The surfaces share the core and nothing else: one protocol's folder never names another's.

use std::collections::BTreeSet;

use crate::tidy::words::{Word, find_words};
use crate::tidy::{Context, Problem};

const SOURCE: &str = "crates/patchboard-surfaces/src/";
/// A folder with this file speaks a protocol.
const MARK: &str = "map.rs";
const KNOWN: &[(&str, Word)] = &[
    ("gateway", Word::whole("crate::gateway")),
    ("runs", Word::whole("crate::runs")),
    ("hub", Word::whole("crate::hub")),
    ("bridge", Word::whole("crate::bridge")),
    ("console", Word::whole("crate::console")),
    ("mcp", Word::whole("crate::mcp")),
];

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut unknown = BTreeSet::new();
    for (path, file) in context.tree.rust() {
        let Some(inside) = path.strip_prefix(SOURCE) else { continue };
        let folder = inside.split(['/', '.']).next().unwrap_or_default();
        if !KNOWN.iter().any(|(name, _)| *name == folder) {
            if inside == format!("{folder}/{MARK}") {
                unknown.insert((path, folder));
            }
            continue;
        }
        let others: Vec<Word> = KNOWN.iter().filter(|(name, _)| *name != folder).map(|(_, word)| *word).collect();
        for (line, word) in find_words(&file.code, &others) {
            let why = format!("`{folder}` must not see `{word}`: surfaces share the core and nothing else");
            problems.push(Problem::new(path, line, why));
        }
    }
    for (path, folder) in unknown {
        let why = format!("`{folder}` looks like a surface: add it to `xtask/src/tidy/surfaces.rs`");
        problems.push(Problem::new(path, 0, why));
    }
    problems
}

#[cfg(test)]
mod tests;
