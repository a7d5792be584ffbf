use super::*;
use crate::tidy::testing::{graph, policy, shown, tree};

const GOOD_ROOT: &str = "[workspace.dependencies]\npatchboard-core = { path = \"x\" }\n\
                         bytes = { version = \"1\", default-features = false }\n";
const GOOD_MEMBER: &str = "[dependencies]\nbytes.workspace = true\n\n[lints]\nworkspace = true\n";

fn problems(files: &[(&str, &str)]) -> Vec<String> {
    shown(check(&Context { tree: tree(files), graph: graph(&[("patchboard-core", &[])]), policy: policy() }))
}

#[test]
fn good_manifests_are_fine() {
    let none: Vec<String> = Vec::new();
    let files = [(ROOT, GOOD_ROOT), ("Cargo.lock", ""), ("crates/patchboard-core/Cargo.toml", GOOD_MEMBER)];
    assert_eq!(problems(&files), none);
}

#[test]
fn a_missing_lock_file_is_found() {
    let found = problems(&[(ROOT, GOOD_ROOT)]);
    assert!(found.iter().any(|problem| problem.starts_with("Cargo.lock: ")), "{found:?}");
}

#[test]
fn inherited_features_are_found() {
    let root = "[workspace.dependencies]\nbytes = \"1\"\nuuid = { version = \"1\", default-features = true }\n";
    let found = problems(&[(ROOT, root), ("Cargo.lock", "")]);
    assert_eq!(
        found,
        [
            "Cargo.toml:2: `bytes` needs `default-features = false`: features are chosen, not inherited",
            "Cargo.toml:3: `uuid` needs `default-features = false`: features are chosen, not inherited",
        ]
    );
}

#[test]
fn a_version_of_its_own_and_lints_of_its_own_are_found() {
    let member = "[dependencies]\nbytes = \"1\"\n[dev-dependencies]\ninsta = { version = \"1\" }\n";
    let found = problems(&[("Cargo.lock", ""), ("crates/patchboard-core/Cargo.toml", member)]);
    assert_eq!(
        found,
        [
            "crates/patchboard-core/Cargo.toml: lints are the workspace's: add `[lints]` with `workspace = true`",
            "crates/patchboard-core/Cargo.toml:2: `bytes` needs `workspace = true`: \
             versions and features are chosen in Cargo.toml only",
            "crates/patchboard-core/Cargo.toml:4: `insta` needs `workspace = true`: \
             versions and features are chosen in Cargo.toml only",
        ]
    );
}

#[test]
fn a_folder_with_another_name_is_found() {
    let mut metadata = crate::tidy::testing::metadata(&[("patchboard-core", &[])]);
    metadata["packages"][0]["manifest_path"] = "/repo/crates/core/Cargo.toml".into();
    let graph = crate::tidy::Graph::parse(&metadata.to_string()).expect("good metadata");
    let files = [("Cargo.lock", ""), ("crates/core/Cargo.toml", GOOD_MEMBER)];
    let found = shown(check(&Context { tree: tree(&files), graph, policy: policy() }));
    assert_eq!(
        found,
        ["crates/core/Cargo.toml: a crate's folder has its name: expected `crates/patchboard-core/Cargo.toml`"]
    );
}

#[test]
fn a_name_that_starts_another_is_not_mistaken() {
    let files = [("m.toml", "[dependencies]\ntokio-util.workspace = true\ntokio.workspace = true\nserde = \"1\"\n")];
    let context = crate::tidy::testing::with_files(&files);
    assert_eq!(line_naming(&context, "m.toml", "tokio"), 3);
    assert_eq!(line_naming(&context, "m.toml", "serde"), 4);
    assert_eq!(line_naming(&context, "m.toml", "uuid"), 0);
    assert_eq!(line_naming(&context, "missing.toml", "uuid"), 0);
}
