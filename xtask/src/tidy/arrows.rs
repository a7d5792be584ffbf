//! Which crates of the workspace may see which: everything sees core, the leaves never see each other, and only the
//! binary sees the leaves.

use crate::tidy::graph::Package;
use crate::tidy::manifests::line_naming;
use crate::tidy::{Context, Problem};

/// A crate and the crates of this workspace it may name. ARCHITECTURE.md draws the same picture.
const ARROWS: &[(&str, &[&str])] = &[
    ("patchboard-core", &["patchboard-matcher"]),
    ("patchboard-proto", &[]),
    ("patchboard-matcher", &[]),
    ("patchboard-http", &["patchboard-core"]),
    ("patchboard-config", &["patchboard-core"]),
    ("patchboard-surfaces", &["patchboard-core", "patchboard-proto"]),
    ("patchboard-providers", &["patchboard-core", "patchboard-http"]),
    // It wraps a provider whose server is started on demand.
    ("patchboard-local-model", &["patchboard-core", "patchboard-providers"]),
    // Its tests read frames as the hub itself does.
    ("patchboard-hub-check", &["patchboard-core", "patchboard-surfaces"]),
    ("patchboard-tools", &["patchboard-core", "patchboard-http", "patchboard-proto"]),
    ("patchboard-wasm", &["patchboard-core"]),
    ("patchboard-store", &["patchboard-core"]),
    (
        "patchboard",
        &[
            "patchboard-core",
            "patchboard-http",
            "patchboard-config",
            "patchboard-surfaces",
            "patchboard-providers",
            "patchboard-local-model",
            "patchboard-hub-check",
            "patchboard-tools",
            "patchboard-wasm",
            "patchboard-store",
        ],
    ),
    ("patchboard-testkit", &["patchboard-core", "patchboard-surfaces"]),
    // To measure the bridge it has to speak it; what the product does with it stays out of sight.
    ("xtask", &["patchboard-proto"]),
];

const TESTKIT: &str = "patchboard-testkit";
const CORE: &str = "patchboard-core";

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in context.graph.members() {
        let manifest = context.graph.manifest(package);
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            let why = "this crate has no arrows yet: add it to ARCHITECTURE.md and to `xtask/src/tidy/arrows.rs`";
            problems.push(Problem::new(manifest, 0, why));
            continue;
        };
        for dependency in &package.dependencies {
            let to = dependency.name.as_str();
            if !ARROWS.iter().any(|(name, _)| *name == to) || allowed.contains(&to) {
                continue;
            }
            if let Some(why) = refusal(package, to, dependency.is_for_tests_only()) {
                problems.push(Problem::new(manifest, line_naming(context, manifest, to), why));
            }
        }
    }
    problems
}

fn refusal(package: &Package, to: &str, for_tests_only: bool) -> Option<String> {
    let from = &package.name;
    match (to, for_tests_only) {
        (TESTKIT, true) if from == CORE => Some(format!(
            "`{CORE}` cannot test itself with `{TESTKIT}`: cargo would build core twice and the types would differ"
        )),
        (TESTKIT, true) => None,
        (TESTKIT, false) => Some(format!("`{TESTKIT}` is for tests: name it under `[dev-dependencies]`")),
        _ => Some(format!("`{from}` must not see `{to}`: the leaves meet only in core and in the binary")),
    }
}

#[cfg(test)]
mod tests;
