use super::*;
use crate::tidy::testing::{Package, graph, policy, shown, tree};

fn problems(packages: &[Package<'_>], files: &[(&str, &str)]) -> Vec<String> {
    shown(check(&Context { tree: tree(files), graph: graph(packages), policy: policy() }))
}

#[test]
fn a_clean_core_is_fine() {
    let none: Vec<String> = Vec::new();
    let files = [
        ("crates/patchboard-core/src/record/v1.rs", "use serde::{Deserialize, Serialize};"),
        ("crates/patchboard-core/src/id.rs", "// not Serialize\nlet value = serde_json::Value::Null;"),
        ("crates/patchboard-core/src/id/tests.rs", "use serde::Serialize;"),
        ("crates/patchboard-store/src/lib.rs", "use serde::Serialize;"),
    ];
    let packages: &[Package<'_>] =
        &[("patchboard-core", &["tokio", "dev:toml"]), ("tokio", &["mio"]), ("mio", &[]), ("toml", &[])];
    assert_eq!(problems(packages, &files), none);
}

#[test]
fn a_banned_dependency_is_found_through_others() {
    let manifest = [("crates/patchboard-core/Cargo.toml", "[dependencies]\nuuid.workspace = true\n")];
    assert_eq!(
        problems(
            &[("patchboard-core", &["uuid"]), ("uuid", &["wget"]), ("wget", &["hyper"]), ("hyper", &[])],
            &manifest
        ),
        ["crates/patchboard-core/Cargo.toml:2: core must not contain what this pulls in: \
          patchboard-core → uuid → wget → hyper"]
    );
}

#[test]
fn a_dependency_nobody_agreed_on_is_found() {
    let found = problems(&[("patchboard-core", &["regex"]), ("regex", &[])], &[]);
    assert_eq!(
        found,
        ["crates/patchboard-core/Cargo.toml: core may not depend on `regex`: \
          it knows no socket, HTTP, SQL, TOML or wire format"]
    );
}

#[test]
fn a_serialised_core_type_is_found() {
    let file = [("crates/patchboard-core/src/event.rs", "\n#[derive(Debug, serde::Serialize)]\npub struct Event;")];
    let found = problems(&[], &file);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|problem| problem.starts_with("crates/patchboard-core/src/event.rs:2: ")), "{found:?}");
}
