//! What every manifest keeps to: versions and features are chosen once, lints are the workspace's, folders are named
//! after their crate, and the lock file is part of the repository.

use toml::{Table, Value};

use crate::tidy::{Context, Problem};

const ROOT: &str = "Cargo.toml";
const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !context.tree.has_file("Cargo.lock") {
        problems.push(Problem::new(
            "Cargo.lock",
            0,
            "the lock file belongs in the repository: the same build for everyone",
        ));
    }
    if let Some(file) = context.tree.get(ROOT) {
        problems.extend(check_root(context, &file.text));
    }
    for package in context.graph.members() {
        let manifest = context.graph.manifest(package);
        if let Some(file) = context.tree.get(manifest) {
            problems.extend(check_member(context, manifest, &package.name, &file.text));
        }
    }
    problems
}

fn check_root(context: &Context, text: &str) -> Vec<Problem> {
    let Some(manifest) = parsed(text) else {
        return vec![Problem::new(ROOT, 0, "is not TOML")];
    };
    let dependencies = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let Some(dependencies) = dependencies.and_then(Value::as_table) else { return Vec::new() };
    let external = dependencies.iter().filter(|(_, value)| value.get("path").is_none());
    external
        .filter(|(_, value)| value.get("default-features").and_then(Value::as_bool) != Some(false))
        .map(|(name, _)| {
            let why = format!("`{name}` needs `default-features = false`: features are chosen, not inherited");
            Problem::new(ROOT, line_naming(context, ROOT, name), why)
        })
        .collect()
}

fn check_member(context: &Context, path: &str, name: &str, text: &str) -> Vec<Problem> {
    let Some(manifest) = parsed(text) else {
        return vec![Problem::new(path, 0, "is not TOML")];
    };
    let mut problems = Vec::new();
    let folder = if name == "xtask" { "xtask/Cargo.toml".to_owned() } else { format!("crates/{name}/Cargo.toml") };
    if path != folder {
        problems.push(Problem::new(path, 0, format!("a crate's folder has its name: expected `{folder}`")));
    }
    if !is_workspace(manifest.get("lints")) {
        problems.push(Problem::new(path, 0, "lints are the workspace's: add `[lints]` with `workspace = true`"));
    }
    for kind in KINDS {
        let Some(dependencies) = manifest.get(kind).and_then(Value::as_table) else { continue };
        for (dependency, _) in dependencies.iter().filter(|(_, value)| !is_workspace(Some(value))) {
            let why =
                format!("`{dependency}` needs `workspace = true`: versions and features are chosen in {ROOT} only");
            problems.push(Problem::new(path, line_naming(context, path, dependency), why));
        }
    }
    problems
}

/// The first line of `manifest` that defines the key `name`, or 0.
pub(super) fn line_naming(context: &Context, manifest: &str, name: &str) -> usize {
    let Some(file) = context.tree.get(manifest) else { return 0 };
    let defines = |line: &str| {
        let rest = line.trim_start().strip_prefix(name);
        rest.is_some_and(|rest| rest.trim_start().starts_with(['.', '=']))
    };
    file.text.lines().position(defines).map_or(0, |at| at + 1)
}

fn parsed(text: &str) -> Option<Table> {
    text.parse().ok()
}

fn is_workspace(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests;
