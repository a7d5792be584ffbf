use super::*;
use crate::tidy::testing::{Package, graph, policy, shown, tree};

fn problems(packages: &[Package<'_>]) -> Vec<String> {
    let manifest = "[dependencies]\npatchboard-core.workspace = true\npatchboard-store.workspace = true\n";
    let files = [("crates/patchboard-surfaces/Cargo.toml", manifest)];
    shown(check(&Context { tree: tree(&files), graph: graph(packages), policy: policy() }))
}

#[test]
fn the_drawn_arrows_are_allowed() {
    let none: Vec<String> = Vec::new();
    assert_eq!(
        problems(&[
            ("patchboard-core", &["tokio"]),
            ("patchboard-store", &["patchboard-core", "dev:patchboard-testkit"]),
            ("patchboard-testkit", &["patchboard-core", "patchboard-surfaces"]),
            ("patchboard", &["patchboard-core", "patchboard-store", "patchboard-surfaces"]),
            ("patchboard-proto", &["prost", "tonic"]),
            ("patchboard-surfaces", &["patchboard-core", "patchboard-proto"]),
            ("patchboard-tools", &["patchboard-core", "patchboard-proto"]),
            ("xtask", &["axum", "patchboard-proto"]),
        ]),
        none
    );
}

#[test]
fn a_leaf_that_sees_a_leaf_is_found_with_its_line() {
    assert_eq!(
        problems(&[("patchboard-surfaces", &["patchboard-core", "patchboard-store"])]),
        ["crates/patchboard-surfaces/Cargo.toml:3: `patchboard-surfaces` must not see `patchboard-store`: \
          the leaves meet only in core and in the binary"]
    );
}

#[test]
fn a_leaf_may_not_see_another_in_its_tests_either() {
    assert_eq!(problems(&[("patchboard-store", &["dev:patchboard-surfaces"])]).len(), 1);
    assert_eq!(problems(&[("patchboard-core", &["patchboard-store"])]).len(), 1);
    assert_eq!(problems(&[("patchboard-core", &["build:xtask"])]).len(), 1);
    assert_eq!(problems(&[("patchboard-core", &["patchboard-proto"]), ("patchboard-proto", &[])]).len(), 1);
    assert_eq!(problems(&[("patchboard-proto", &["patchboard-core"]), ("patchboard-core", &[])]).len(), 1);
    assert_eq!(problems(&[("patchboard", &["patchboard-proto"]), ("patchboard-proto", &[])]).len(), 1);
}

#[test]
fn the_testkit_is_for_tests_and_not_for_core() {
    let normal = problems(&[("patchboard", &["patchboard-testkit"])]);
    assert!(normal.iter().any(|problem| problem.contains("[dev-dependencies]")), "{normal:?}");
    let core = problems(&[("patchboard-core", &["dev:patchboard-testkit"])]);
    assert!(core.iter().any(|problem| problem.contains("build core twice")), "{core:?}");
}

#[test]
fn a_new_crate_must_be_drawn() {
    let found = problems(&[("patchboard-voice", &[])]);
    assert!(found.iter().any(|problem| problem.contains("no arrows yet")), "{found:?}");
}
