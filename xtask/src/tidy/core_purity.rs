//! Core knows no socket, HTTP, SQL, TOML or wire format: by what is compiled into it, by what its manifest names,
//! and by where it serialises.

use crate::tidy::manifests::line_naming;
use crate::tidy::tree::is_test_file;
use crate::tidy::words::{Word, find_words};
use crate::tidy::{Context, Problem};

const CORE: &str = "patchboard-core";

/// All that core may name itself.
const ALLOWED: &[&str] = &[
    "bytes",
    "futures-core",
    "futures-util",
    "hex",
    "jiff",
    "metrics",
    "patchboard-matcher",
    "serde",
    "serde_json",
    "thiserror",
    "tokio",
    "tokio-util",
    "tracing",
    "uuid",
];

/// What must not reach core through anything it names.
const BANNED: &[&str] = &[
    "async-nats",
    "axum",
    "clap",
    "http",
    "hyper",
    "hyper-util",
    "libsqlite3-sys",
    "postgres-protocol",
    "prost",
    "reqwest",
    "rusqlite",
    "rustls",
    "schemars",
    "tokio-postgres",
    "tokio-tungstenite",
    "toml",
    "tonic",
    "tungstenite",
    "wasmtime",
];

/// Stored forms are the only thing core serialises, and they live here.
const RECORD: &[&str] = &["crates/patchboard-core/src/record.rs", "crates/patchboard-core/src/record/"];

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let mut problems = named(context);
    problems.extend(compiled_in(context));
    problems.extend(serialised(context));
    problems
}

fn named(context: &Context) -> Vec<Problem> {
    let core = context.graph.members().filter(|package| package.name == CORE);
    core.flat_map(|package| {
        let manifest = context.graph.manifest(package);
        let own = package.dependencies.iter().filter(|one| !one.is_for_tests_only());
        own.filter(|one| !ALLOWED.contains(&one.name.as_str())).map(move |one| {
            let why =
                format!("core may not depend on `{}`: it knows no socket, HTTP, SQL, TOML or wire format", one.name);
            Problem::new(manifest, line_naming(context, manifest, &one.name), why)
        })
    })
    .collect()
}

fn compiled_in(context: &Context) -> Vec<Problem> {
    let compiled = context.graph.compiled_into(CORE);
    let manifest = format!("crates/{CORE}/Cargo.toml");
    BANNED
        .iter()
        .filter_map(|banned| compiled.get(banned))
        .map(|chain| {
            let line = chain.get(1).map_or(0, |first| line_naming(context, &manifest, first));
            Problem::new(&manifest, line, format!("core must not contain what this pulls in: {}", chain.join(" → ")))
        })
        .collect()
}

fn serialised(context: &Context) -> Vec<Problem> {
    let words = [Word::whole("Serialize"), Word::whole("Deserialize"), Word::whole("serde")];
    let outside = context.tree.rust().filter(|(path, _)| {
        path.starts_with("crates/patchboard-core/src/")
            && !RECORD.iter().any(|place| path.starts_with(place))
            && !is_test_file(path)
    });
    outside
        .flat_map(|(path, file)| {
            find_words(&file.code, &words).into_iter().map(move |(line, word)| {
                let why = format!(
                    "`{word}` outside `record/`: a serialised core type becomes a promise by accident; \
                     convert to a stored or wire form at the edge"
                );
                Problem::new(path, line, why)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
