use crate::tidy::testing::graph;

#[test]
fn what_is_compiled_in_comes_with_its_chain() {
    let graph = graph(&[
        ("patchboard-core", &["uuid", "dev:proptest"]),
        ("uuid", &["build:cc", "rand"]),
        ("rand", &[]),
        ("cc", &[]),
        ("proptest", &["bitflags"]),
        ("bitflags", &[]),
    ]);
    let compiled: Vec<(&str, String)> =
        graph.compiled_into("patchboard-core").into_iter().map(|(name, chain)| (name, chain.join(" → "))).collect();
    assert_eq!(
        compiled,
        vec![
            ("cc", "patchboard-core → uuid → cc".to_owned()),
            ("rand", "patchboard-core → uuid → rand".to_owned()),
            ("uuid", "patchboard-core → uuid".to_owned()),
        ]
    );
    assert!(graph.compiled_into("unknown").is_empty());
}

#[test]
fn cycles_end() {
    let graph = graph(&[("patchboard-core", &["a"]), ("a", &["b"]), ("b", &["a"])]);
    assert_eq!(graph.compiled_into("patchboard-core").len(), 2);
}

#[test]
fn manifests_are_named_inside_the_repository() {
    let graph = graph(&[("patchboard-core", &[]), ("xtask", &[])]);
    let manifests: Vec<&str> = graph.members().map(|package| graph.manifest(package)).collect();
    assert_eq!(manifests, vec!["crates/patchboard-core/Cargo.toml", "xtask/Cargo.toml"]);
}
