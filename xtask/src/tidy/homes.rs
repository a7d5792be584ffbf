//! Each heavy dependency has a home: it is compiled for one crate's sake, and replacing it touches one crate.

use crate::tidy::manifests::line_naming;
use crate::tidy::{Context, Problem};

/// A dependency and the crates whose manifests may name it. More than one crate is an exception with its reason.
const HOMES: &[(&str, &[&str])] = &[
    // The surfaces are routers; the binary binds the listeners they are served on.
    ("axum", &["patchboard-surfaces", "patchboard"]),
    ("rust-embed", &["patchboard-surfaces"]),
    ("reqwest", &["patchboard-http"]),
    // HTTP clients need a crypto provider, and the local model's key its random numbers; `main` installs the process's own.
    // The bridge listens with TLS.
    ("rustls", &["patchboard-http", "patchboard-providers", "patchboard-surfaces", "patchboard"]),
    ("rusqlite", &["patchboard-store"]),
    ("tokio-postgres", &["patchboard-store"]),
    ("deadpool-postgres", &["patchboard-store"]),
    ("cap-std", &["patchboard-tools"]),
    ("globset", &["patchboard-tools"]),
    ("html5gum", &["patchboard-tools"]),
    ("ignore", &["patchboard-tools"]),
    ("jsonschema", &["patchboard-tools"]),
    ("rmcp", &["patchboard-tools"]),
    ("prost", &["patchboard-proto"]),
    ("prost-types", &["patchboard-proto"]),
    // Only who makes the committed code needs a compiler for it.
    ("protox", &[OUTSIDE]),
    ("tonic-prost-build", &[OUTSIDE]),
    // Generated types, the server that offers them and the client that calls workers.
    ("tonic", &["patchboard-proto", "patchboard-surfaces", "patchboard-tools"]),
    ("tonic-prost", &["patchboard-proto"]),
    // What gRPC servers offer besides their own service.
    ("tonic-health", &["patchboard-surfaces"]),
    ("tonic-reflection", &["patchboard-surfaces"]),
    ("wasmtime", &["patchboard-wasm"]),
    ("wasmtime-wasi", &["patchboard-wasm"]),
    ("anyhow", &["patchboard"]),
    ("clap", &["patchboard"]),
    ("clap_complete", &["patchboard"]),
    ("indicatif", &["patchboard"]),
    // Only where no safe crate has the call, and for the numbers of those that jails refuse.
    ("libc", &["patchboard", "patchboard-tools"]),
    ("seccompiler", &["patchboard-tools"]),
    ("metrics-exporter-prometheus", &["patchboard"]),
    ("rpassword", &["patchboard"]),
    ("schemars", &["patchboard-config"]),
    ("tokio-tungstenite", &["patchboard", "patchboard-hub-check"]),
    // The configuration is written in it; flags are values of it.
    ("toml", &["patchboard-config", "patchboard"]),
    ("toml_edit", &["patchboard-config"]),
    // The configuration reads `log.filter` as the log will; the binary logs.
    ("tracing-subscriber", &["patchboard-config", "patchboard"]),
    ("insta", &["patchboard-testkit"]),
    ("proptest", &["patchboard-testkit"]),
    ("turmoil", &["patchboard-testkit"]),
];

/// Automation is outside the product's graph.
const OUTSIDE: &str = "xtask";

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in context.graph.members().filter(|package| package.name != OUTSIDE) {
        let manifest = context.graph.manifest(package);
        for dependency in package.dependencies.iter().filter(|one| !one.is_for_tests_only()) {
            let Some((name, homes)) = HOMES.iter().find(|(name, _)| *name == dependency.name) else { continue };
            if !homes.contains(&package.name.as_str()) {
                let why = format!(
                    "`{name}` lives in {} only: reach it through that crate, or change \
                     `xtask/src/tidy/homes.rs` with the reason",
                    in_words(homes)
                );
                problems.push(Problem::new(manifest, line_naming(context, manifest, name), why));
            }
        }
    }
    problems
}

fn in_words(homes: &[&str]) -> String {
    homes.iter().map(|home| format!("`{home}`")).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests;
