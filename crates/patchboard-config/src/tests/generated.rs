//! Committed files that are made from the types must not be stale. Run the
//! tests with `UPDATE_GENERATED=1` to write them anew.

use std::{fs, path::Path};

use super::bench::{Bench, PEM};
use crate::{
    Environment,
    reference::reference,
    sample::sample,
    schema::{schema, schema_text},
    shape::{self, SchemaEntry, ValueShape},
};

#[track_caller]
fn check_generated(file: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    if Environment::from_process().get("UPDATE_GENERATED").is_some() {
        fs::write(&path, wanted).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{file} is stale: run `UPDATE_GENERATED=1 cargo test -p patchboard-config generated`");
}

#[test]
fn schema_file_is_fresh() {
    check_generated("patchboard.schema.json", &schema_text());
}

#[test]
fn reference_page_is_fresh() {
    check_generated("docs/configuration.md", &reference());
}

/// The sample with every setting switched on.
pub(crate) fn uncommented() -> String {
    let lines = sample();
    let lines = lines.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with([' ', '#']) && !setting.is_empty() => setting,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn sample_as_it_stands_changes_nothing() {
    let plain = Bench::new();
    let sampled = Bench::with_file(&sample());
    assert_eq!(sampled.complaints(), "");
    let mut config = sampled.load().config;
    let mut expected = plain.load().config;
    // The two benches live in different folders.
    for config in [&mut config, &mut expected] {
        config.data_dir = "data".into();
        config.storage.path = "db".into();
        config.wasm.folder = None;
        config.runs.working_folder = "here".into();
        config.runs.allowed_roots = vec!["here".into()];
    }
    assert_eq!(config, expected);
}

#[test]
fn sample_with_everything_on_is_understood() {
    let bench = Bench::with_file(&uncommented())
        .config("patchboard.toml")
        .file("project/SOUL.md", "I am.")
        .file("project/cert.pem", PEM)
        .file("project/key.pem", PEM)
        .file("project/ca.pem", PEM)
        .file("project/plugins/webhook-json.wasm", "w")
        .file("project/model.gguf", "GGUF")
        .folder("project/servers")
        .folder("project/workers")
        .folder(".cargo/bin")
        .folder(".rustup")
        .env("PATCHBOARD_TOKEN", "t")
        .env("PATCHBOARD_BRIDGE_TOKEN", "t")
        .env("OPENAI_API_KEY", "k")
        .env("MCP_TOKEN", "t")
        .env("SEARCH_API_KEY", "k")
        .env("FILES_TOKEN", "t")
        .env("WEBHOOK_TOKEN", "t")
        .env("NTFY_TOKEN", "t")
        .env("HOOKS_API_KEY", "k")
        .env("HOOK_SECRET", "s")
        .env("CI_KEY", "0123456789abcdef");
    let problems = bench.problems();
    let found: Vec<(&str, String)> =
        problems.iter().map(|problem| (problem.code.as_str(), problem.path.to_string())).collect();
    // Only a name that the sample itself does not define.
    assert_eq!(found, [("PB0112", "hub.agent".to_owned())], "{problems}");
}

#[test]
fn every_key_is_described_and_in_declared_order() {
    fn visit(entry: &SchemaEntry, path: &str, seen: &mut usize) {
        assert!(!entry.description.is_empty(), "{path} has no description");
        match &entry.shape {
            ValueShape::Table { keys, .. } => {
                let names: std::collections::BTreeSet<&str> = keys.names().collect();
                assert!(
                    crate::key_order::declared_order(&names).is_some(),
                    "the type of {path} is missing in order.rs"
                );
                for (key, child) in keys.iter() {
                    *seen += 1;
                    visit(child, &format!("{path}.{key}"), seen);
                }
            }
            ValueShape::Map(item) | ValueShape::List(item) => {
                if let ValueShape::Table { .. } = item.shape {
                    visit(item, path, seen);
                }
            }
            ValueShape::Leaf(_) => {}
        }
    }
    let mut seen = 0;
    let root = shape::root();
    let ValueShape::Table { keys, .. } = &root.shape else {
        panic!("the root is not a table");
    };
    assert_eq!(keys.names().take(3).collect::<Vec<_>>(), ["data_dir", "data_dir_group", "trusted_users"]);
    for (key, child) in keys.iter() {
        visit(child, key, &mut seen);
    }
    assert!(seen > 100, "only {seen} keys found");
}

/// Editors validate with the schema, so it must accept what the program does.
#[test]
fn schema_refuses_unknown_keys_everywhere() {
    fn visit(schema: &serde_json::Value, path: &str) {
        if let Some(properties) = schema.get("properties").and_then(|it| it.as_object()) {
            assert_eq!(
                schema.get("additionalProperties"),
                Some(&serde_json::Value::Bool(false)),
                "{path} accepts unknown keys"
            );
            for (key, property) in properties {
                visit(property, &format!("{path}.{key}"));
            }
        }
        for inner in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(inner) {
                visit(inner, path);
            }
        }
    }
    visit(&schema(), "");
}
