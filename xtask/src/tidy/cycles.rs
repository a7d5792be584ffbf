//! The top-level modules of a crate depend on each other in one direction. A name that the crate's root re-exports is
//! an arrow to the module it comes from.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::tree::is_test_file;
use crate::tidy::{Context, Problem};

/// Which module names which other one, and where it does so first.
type Arrows<'a> = BTreeMap<&'a str, BTreeMap<&'a str, (&'a str, usize)>>;

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, file) in context.tree.rust().filter(|(path, _)| !is_test_file(path)) {
        if let Some((root, _)) = path.split_once("/src/").filter(|_| path.starts_with("crates/")) {
            crates.entry(root).or_default().push((path, &file.code));
        }
    }
    crates.into_iter().flat_map(|(root, files)| check_crate(root, &files)).collect()
}

fn check_crate(root: &str, files: &[(&str, &str)]) -> Vec<Problem> {
    let source = format!("{root}/src/");
    let inside = |path: &str| path.len() - path.strip_prefix(&source).map_or(0, str::len);
    let module_of = |path| -> &str {
        let path: &str = path;
        let rest = path.get(inside(path)..).unwrap_or_default();
        rest.split('/').next().unwrap_or_default().trim_end_matches(".rs")
    };
    let modules: BTreeSet<&str> =
        files.iter().map(|(path, _)| module_of(path)).filter(|name| !matches!(*name, "lib" | "main")).collect();
    let roots = files.iter().filter(|(path, _)| matches!(module_of(path), "lib" | "main"));
    let exported: BTreeMap<&str, &str> = roots.flat_map(|(_, code)| re_exports(code, &modules)).collect();

    let mut arrows = Arrows::new();
    for (path, code) in files {
        let own = module_of(path);
        if !modules.contains(own) {
            continue;
        }
        let depth = path.get(inside(path)..).unwrap_or_default().matches('/').count() + 1;
        for (line, name) in names_at_the_root(code, depth) {
            let target = exported.get(name).copied().unwrap_or(name);
            if target != own && modules.contains(target) {
                arrows.entry(own).or_default().entry(target).or_insert((path, line));
            }
        }
    }
    cyclic_arrows(&arrows)
}

/// Every arrow by which a module comes back to itself.
fn cyclic_arrows(arrows: &Arrows<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (from, targets) in arrows {
        for (to, (path, line)) in targets {
            if reaches(arrows, to, from) {
                let why = format!(
                    "`{from}` needs `{to}`, which needs `{from}`, itself or through others: modules depend in one direction"
                );
                problems.push(Problem::new(path, *line, why));
            }
        }
    }
    problems
}

fn reaches(arrows: &Arrows<'_>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            open.extend(arrows.get(module).into_iter().flat_map(|targets| targets.keys().copied()));
        }
    }
    false
}

/// `pub use module::{Name, …};` in the root: each name with its module.
fn re_exports<'a>(code: &'a str, modules: &BTreeSet<&'a str>) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("pub use ") {
        let Some(statement) = code.get(start + "pub use ".len()..).and_then(|rest| rest.split(';').next()) else {
            continue;
        };
        let Some((module, names)) = statement.split_once("::") else { continue };
        let module = module.trim();
        if modules.contains(module) {
            found.extend(identifiers(names).map(|name| (name, module)));
        }
    }
    found
}

/// The names that this file takes from the crate's root, by `crate::` or by as many `super::` as lead there, with lines.
fn names_at_the_root(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let ways = ["crate::".to_owned(), "super::".repeat(depth)];
    let mut found = Vec::new();
    for way in &ways {
        for (start, _) in code.match_indices(way.as_str()) {
            let before = code.get(..start).and_then(|text| text.chars().next_back());
            // `$crate::`, `other_crate::`, or one `super::` more than lead to the root.
            if before.is_some_and(|one| one.is_alphanumeric() || matches!(one, '_' | '$' | ':')) {
                continue;
            }
            let line = code.get(..start).unwrap_or_default().matches('\n').count() + 1;
            let rest = code.get(start + way.len()..).unwrap_or_default();
            found.extend(first_segments(rest).into_iter().map(|name| (line, name)));
        }
    }
    found
}

/// Of `a::b` the `a`; of `{a::b, c::{d, e}}` the `a` and the `c`.
fn first_segments(rest: &str) -> Vec<&str> {
    let Some(group) = rest.trim_start().strip_prefix('{') else {
        return identifiers(rest).next().into_iter().collect();
    };
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, one) in group.char_indices() {
        match one {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.extend(group.get(start..at).and_then(|tree| identifiers(tree).next()));
                start = at + 1;
                if one == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|one: char| !one.is_alphanumeric() && one != '_').filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
