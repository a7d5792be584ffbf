//! Small trees and graphs for the checks' tests.

use serde_json::{Value, json};

use super::{Context, Graph, Policy, Problem, Tree};

pub(super) fn tree(files: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    for (path, text) in files {
        tree.add((*path).to_owned(), Some((*text).to_owned()));
    }
    tree
}

/// A context with these files and an empty graph.
pub(super) fn with_files(files: &[(&str, &str)]) -> Context {
    Context { tree: tree(files), graph: graph(&[]), policy: policy() }
}

pub(super) fn policy() -> Policy {
    Policy::parse(
        r#"
        [licenses]
        allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
        [bans]
        deny = [{ crate = "openssl-sys", reason = "rustls is the one TLS implementation" }]
        [sources]
        allow-registry = ["https://example.org/index"]
        "#,
    )
    .expect("a good policy")
}

/// A package for [`graph`]: `(name, dependencies)`, a dependency being `name`, `dev:name` or `build:name`.
/// Names that start with `patchboard` or are `xtask` are members of the workspace.
pub(super) type Package<'a> = (&'a str, &'a [&'a str]);

pub(super) fn graph(packages: &[Package<'_>]) -> Graph {
    Graph::parse(&metadata(packages).to_string()).expect("good metadata")
}

pub(super) fn metadata(packages: &[Package<'_>]) -> Value {
    let is_member = |name: &str| name.starts_with("patchboard") || name == "xtask";
    let split = |dependency: &str| match dependency.split_once(':') {
        Some((kind, name)) => (json!(kind), name.to_owned()),
        None => (Value::Null, dependency.to_owned()),
    };
    let folder = |name: &str| if name == "xtask" { "xtask".to_owned() } else { format!("crates/{name}") };
    json!({
        "workspace_root": "/repo",
        "workspace_members": packages.iter().map(|(name, _)| *name).filter(|name| is_member(name)).collect::<Vec<_>>(),
        "packages": packages.iter().map(|(name, dependencies)| json!({
            "id": name,
            "name": name,
            "version": "1.0.0",
            "license": "MIT",
            "source": if is_member(name) { Value::Null } else { json!("registry+https://example.org/index") },
            "manifest_path": format!("/repo/{}/Cargo.toml", folder(name)),
            "dependencies": dependencies.iter().map(|dependency| {
                let (kind, name) = split(dependency);
                json!({ "name": name, "kind": kind })
            }).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "resolve": { "nodes": packages.iter().map(|(name, dependencies)| json!({
            "id": name,
            "deps": dependencies.iter().map(|dependency| {
                let (kind, name) = split(dependency);
                json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] })
            }).collect::<Vec<_>>(),
        })).collect::<Vec<_>>() },
    })
}

/// The problems as a person reads them.
pub(super) fn shown(problems: Vec<Problem>) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
