use super::*;
use crate::tidy::testing::{Package, graph, policy, shown, tree};

fn problems(packages: &[Package<'_>]) -> Vec<String> {
    let files = [("crates/patchboard-tools/Cargo.toml", "[dependencies]\nrusqlite.workspace = true\n")];
    shown(check(&Context { tree: tree(&files), graph: graph(packages), policy: policy() }))
}

#[test]
fn at_home_in_tests_and_in_xtask_is_fine() {
    let none: Vec<String> = Vec::new();
    assert_eq!(
        problems(&[
            ("patchboard-http", &["reqwest", "serde"]),
            ("patchboard-store", &["rusqlite", "dev:reqwest"]),
            ("patchboard-proto", &["prost", "prost-types", "tonic", "tonic-prost"]),
            ("patchboard-surfaces", &["tonic", "tonic-health", "tonic-reflection"]),
            ("patchboard-tools", &["tonic"]),
            ("xtask", &["axum", "toml", "tonic", "dev:protox", "dev:tonic-prost-build"]),
        ]),
        none
    );
}

#[test]
fn away_from_home_is_found_with_its_line() {
    assert_eq!(
        problems(&[("patchboard-tools", &["rusqlite"])]),
        ["crates/patchboard-tools/Cargo.toml:2: `rusqlite` lives in `patchboard-store` only: \
          reach it through that crate, or change `xtask/src/tidy/homes.rs` with the reason"]
    );
    assert_eq!(problems(&[("patchboard-store", &["build:reqwest"])]).len(), 1);
    assert_eq!(problems(&[("patchboard-surfaces", &["prost", "prost-types", "tonic-prost"])]).len(), 3);
    assert_eq!(problems(&[("patchboard-tools", &["tonic-health"]), ("patchboard-core", &["tonic"])]).len(), 2);
    assert_eq!(problems(&[("patchboard-proto", &["build:protox", "build:tonic-prost-build"])]).len(), 2);
}

#[test]
fn nothing_is_listed_twice() {
    let mut names: Vec<&str> = HOMES.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), HOMES.len());
}
