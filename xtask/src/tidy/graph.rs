//! The dependency graph, from `cargo metadata`.

use std::collections::{BTreeMap, VecDeque};

use anyhow::Context as _;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Graph {
    workspace_root: String,
    workspace_members: Vec<String>,
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// Where it was fetched from; nothing for a path in this repository.
    pub(crate) source: Option<String>,
    manifest_path: String,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Option<Kind>,
}

impl Dependency {
    pub(crate) fn is_for_tests_only(&self) -> bool {
        self.kind == Some(Kind::Dev)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Dev,
    Build,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<Kind>,
}

impl Graph {
    pub(crate) fn parse(metadata: &str) -> anyhow::Result<Graph> {
        serde_json::from_str(metadata).context("cannot read `cargo metadata`")
    }

    pub(crate) fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The crates of this workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The manifest's path in the repository.
    pub(crate) fn manifest<'a>(&self, package: &'a Package) -> &'a str {
        let inside = package.manifest_path.strip_prefix(&self.workspace_root);
        inside.map_or(package.manifest_path.as_str(), |path| path.trim_start_matches(['/', '\\']))
    }

    /// Everything that is compiled into `member`, each with the chain of names that leads to it, nearest first.
    /// What only its tests need is left out.
    pub(crate) fn compiled_into(&self, member: &str) -> BTreeMap<&str, Vec<&str>> {
        let packages: BTreeMap<&str, &Package> = self.packages.iter().map(|one| (one.id.as_str(), one)).collect();
        let nodes: BTreeMap<&str, &Node> = self.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let Some(start) = self.members().find(|package| package.name == member) else { return BTreeMap::new() };

        let mut chains: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut waiting = VecDeque::from([(start.id.as_str(), vec![start.name.as_str()])]);
        let mut seen = vec![start.id.as_str()];
        while let Some((id, chain)) = waiting.pop_front() {
            let edges = nodes.get(id).map_or(&[][..], |node| node.deps.as_slice());
            for edge in edges.iter().filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind != Some(Kind::Dev))) {
                let Some(package) = packages.get(edge.pkg.as_str()) else { continue };
                if seen.contains(&package.id.as_str()) {
                    continue;
                }
                seen.push(&package.id);
                let mut longer = chain.clone();
                longer.push(&package.name);
                chains.entry(&package.name).or_insert_with(|| longer.clone());
                waiting.push_back((&package.id, longer));
            }
        }
        chains
    }
}

#[cfg(test)]
mod tests;
