use serde_json::{Value, json};

use super::*;
use crate::tidy::Graph;
use crate::tidy::testing::{metadata, policy, shown, tree};

const LOCK_TEXT: &str =
    "[[package]]\nname = \"thing\"\nversion = \"0.9.0\"\n\n[[package]]\nname = \"thing\"\nversion = \"1.0.0\"\n";

/// The problems of a graph with one foreign package called `name`, with one of its fields set.
fn problems(name: &str, field: &str, value: Value) -> Vec<String> {
    let mut metadata = metadata(&[(name, &[])]);
    metadata["packages"][0][field] = value;
    let graph = Graph::parse(&metadata.to_string()).expect("good metadata");
    shown(check(&Context { tree: tree(&[("Cargo.lock", LOCK_TEXT)]), graph, policy: policy() }))
}

#[test]
fn an_allowed_package_is_fine() {
    let none: Vec<String> = Vec::new();
    assert_eq!(problems("thing", "license", json!("MIT OR GPL-3.0")), none);
    assert_eq!(problems("thing", "source", Value::Null), none);
}

#[test]
fn licences_outside_the_list_are_found_with_their_line() {
    assert_eq!(
        problems("thing", "license", json!("GPL-3.0")),
        ["Cargo.lock:6: `thing 1.0.0` is under `GPL-3.0`, which `deny.toml` does not allow"]
    );
    assert_eq!(problems("thing", "license", Value::Null), ["Cargo.lock:6: `thing 1.0.0` names no licence"]);
}

#[test]
fn banned_crates_are_found_with_the_reason() {
    assert_eq!(
        problems("openssl-sys", "license", json!("MIT")),
        ["Cargo.lock: `openssl-sys 1.0.0` is banned: rustls is the one TLS implementation"]
    );
}

#[test]
fn other_sources_are_found() {
    for source in ["git+https://example.org/thing?rev=1", "registry+https://other.example/index"] {
        let found = problems("thing", "source", json!(source));
        assert_eq!(found.len(), 1, "{source}");
        assert!(found[0].contains(source), "{found:?}");
    }
}
