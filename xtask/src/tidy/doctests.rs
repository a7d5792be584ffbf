//! Examples in doc comments that only rustdoc could run. Each would be a program of its own to build and link, against
//! features that no other step uses; an example that must hold is a test beside the code.

use crate::tidy::{Context, Problem};

/// Words behind the fence by which rustdoc takes a block for Rust. Nothing at all means the same.
const RUST_WORDS: [&str; 5] = ["rust", "no_run", "should_panic", "compile_fail", "ignore"];
const WHY: &str = "rustdoc would have to run this example: make it a test, or call the block `text`";

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let found = context
        .tree
        .rust()
        .flat_map(|(path, file)| examples(&file.text).into_iter().map(move |line| Problem::new(path, line, WHY)));
    found.collect()
}

/// The lines on which such a block begins.
fn examples(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_open = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            is_open = false;
            continue;
        };
        let Some(info) = comment.trim_start().strip_prefix("```") else { continue };
        if !is_open && is_rust(info) {
            found.push(at + 1);
        }
        is_open = !is_open;
    }
    found
}

fn is_rust(info: &str) -> bool {
    let mut words = info.split([',', ' ']).filter(|word| !word.is_empty());
    words.all(|word| RUST_WORDS.contains(&word) || word.starts_with("edition"))
}

#[cfg(test)]
mod tests;
