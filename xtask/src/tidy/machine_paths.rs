//! No file tells on whose machine it was written.

use crate::tidy::{Context, Problem};

/// Put together here so that this file passes its own check.
const PLACES: &[&str] = &[concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/"), concat!("/", "Users/")];

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, file) in context.tree.files() {
        for (at, line) in file.text.lines().enumerate() {
            for place in PLACES.iter().filter(|place| names(line, place)) {
                let why =
                    format!("`{place}` is a path of one machine: make it relative, or take it from the environment");
                problems.push(Problem::new(path, at + 1, why));
            }
        }
    }
    problems
}

/// Whether the line has the path from its root on; `~/work/` and `https://example.org/home/` are other things.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|one| one.is_alphanumeric() || ['.', '~', '_', '-', '}', ')', '*', '/'].contains(&one))
            || line.get(..at).is_some_and(|text| text.ends_with("file://"))
    })
}

#[cfg(test)]
mod tests;
