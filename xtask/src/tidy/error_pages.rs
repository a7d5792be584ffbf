//! Operator-facing codes and their pages: every code in the product has a page in `docs/errors/`, every page a code.

use std::collections::BTreeMap;

use crate::tidy::tree::is_test_file;
use crate::tidy::{Context, Problem};

const PAGES: &str = "docs/errors/";

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let pages: Vec<&str> = context
        .tree
        .paths()
        .filter_map(|path| path.strip_prefix(PAGES)?.strip_suffix(".md"))
        .filter(|name| is_code(name))
        .collect();
    let mut used: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    let product = context.tree.rust().filter(|(path, _)| path.starts_with("crates/") && !is_test_file(path));
    for (path, file) in product {
        for (at, line) in file.text.lines().enumerate() {
            for code in codes(line) {
                used.entry(code).or_insert((path, at + 1));
            }
        }
    }

    let unused = pages.iter().filter(|page| !used.contains_key(*page)).map(|page| {
        Problem::new(
            &format!("{PAGES}{page}.md"),
            0,
            "no code of the product leads here: remove the page or use the code",
        )
    });
    let missing = used.iter().filter(|(code, _)| !pages.contains(code)).map(|(code, (path, line))| {
        Problem::new(path, *line, format!("`{code}` has no page: write `{PAGES}{code}.md`"))
    });
    unused.chain(missing).collect()
}

/// The codes a line names.
fn codes(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("PB").filter_map(|(at, _)| {
        let before = line.get(..at)?.chars().next_back();
        let code = line.get(at..at + 6)?;
        let after = line.get(at + 6..)?.chars().next();
        let continues = |neighbour: Option<char>| neighbour.is_some_and(|one| one.is_alphanumeric() || one == '_');
        (is_code(code) && !continues(before) && !continues(after)).then_some(code)
    })
}

fn is_code(name: &str) -> bool {
    name.strip_prefix("PB").is_some_and(|rest| rest.len() == 4 && rest.chars().all(|one| one.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
