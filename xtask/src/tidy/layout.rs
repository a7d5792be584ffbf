//! Where code lives: a module's file carries the module's name, and tests live beside it in a file of their own,
//! so that editing a test rebuilds nothing else.

use crate::tidy::tree::is_test_file;
use crate::tidy::{Context, Problem};

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in context.tree.paths().filter(|path| path.ends_with("/mod.rs")) {
        let better = path.trim_end_matches("/mod.rs");
        problems.push(Problem::new(path, 0, format!("call it `{better}.rs`, so that tabs and search results name it")));
    }
    for (path, file) in context.tree.rust().filter(|(path, _)| path.contains("/src/") && !is_test_file(path)) {
        problems.extend(inline_tests(path, &file.code));
    }
    problems
}

fn inline_tests(path: &str, code: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut only_for_tests = false;
    for (at, line) in code.lines().enumerate() {
        let mut line = line.trim();
        if is_test_attribute(line) {
            let why = "a test outside a tests file: move it to the sibling `tests.rs`";
            problems.push(Problem::new(path, at + 1, why));
        }
        if let Some(rest) = line.strip_prefix("#[cfg(test)]") {
            only_for_tests = true;
            line = rest.trim();
        }
        if only_for_tests && is_inline_module(line) {
            let why = "an inline test module: write `mod tests;` and put the tests in the sibling `tests.rs`, \
                       so that editing a test does not rebuild every crate above this one";
            problems.push(Problem::new(path, at + 1, why));
        }
        // Between the attribute and its item only blank lines and further attributes may come.
        only_for_tests &= line.is_empty() || line.starts_with("#[");
    }
    problems
}

fn is_test_attribute(line: &str) -> bool {
    line.starts_with("#[test]") || line.starts_with("#[tokio::test]") || line.starts_with("#[tokio::test(")
}

fn is_inline_module(line: &str) -> bool {
    let item = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
    item.starts_with("mod ") && item.ends_with(['{', '}'])
}

#[cfg(test)]
mod tests;
