//! `cargo xtask tidy`: the rules of the repository that a program can check.
//!
//! Every check is a function from the tree and the dependency graph to problems. All checks run, and all problems are
//! shown at once, each with its place and the reason for the rule.

mod arrows;
mod code;
mod core_purity;
mod cycles;
mod doctests;
mod error_pages;
mod generated;
mod graph;
mod homes;
mod layout;
mod links;
mod machine_paths;
mod manifests;
mod names;
mod policy;
mod sizes;
mod spdx;
mod supply;
mod surfaces;
mod tree;
mod words;

use std::fmt;

use crate::Verdict;
use crate::codegen::{self, Mode};
use crate::output::say;
use crate::process::{self, Ended};
use crate::workspace::Workspace;

use graph::Graph;
use policy::Policy;
use tree::Tree;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Everything,
    /// Only what can be read from files and `cargo metadata`.
    WithoutCompiling,
}

/// What the checks look at.
#[derive(Debug)]
struct Context {
    tree: Tree,
    graph: Graph,
    policy: Policy,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    file: String,
    /// Counted from 1; 0 when the file as a whole is meant.
    line: usize,
    why: String,
}

impl Problem {
    fn new(file: &str, line: usize, why: impl Into<String>) -> Problem {
        Problem { file: file.to_owned(), line, why: why.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}", self.file, self.why),
            line => write!(out, "{}:{line}: {}", self.file, self.why),
        }
    }
}

type Check = fn(&Context) -> Vec<Problem>;

const CHECKS: &[(&str, Check)] = &[
    ("dependency arrows", arrows::check),
    ("what core must not know", core_purity::check),
    ("homes of heavy dependencies", homes::check),
    ("manifests", manifests::check),
    ("licences, bans and sources", supply::check),
    ("modules in one direction", cycles::check),
    ("names", names::check),
    ("file sizes", sizes::check),
    ("layout", layout::check),
    ("forbidden words", words::check),
    ("examples in doc comments", doctests::check),
    ("surfaces do not see each other", surfaces::check),
    ("links", links::check),
    ("error pages", error_pages::check),
    ("machine paths", machine_paths::check),
    ("generated files", generated::check),
];

pub(crate) fn run(workspace: &Workspace, scope: Scope) -> anyhow::Result<Verdict> {
    let tree = Tree::load(&workspace.root)?;
    let context = Context { graph: Graph::parse(&workspace.metadata()?)?, policy: Policy::load(&tree)?, tree };

    let mut problems = 0;
    for (name, check) in CHECKS {
        let mut found = check(&context);
        found.sort();
        found.dedup();
        for problem in &found {
            say!("{problem} [{name}]");
        }
        problems += found.len();
    }
    if workspace.has_cargo_tool("deny") {
        problems += usize::from(!cargo_deny_is_content(workspace)?);
    }
    if scope == Scope::Everything {
        problems += usize::from(codegen::run(workspace, Mode::Check)? == Verdict::Bad);
    }

    say!(
        "tidy: {} checks over {} files: {problems} problems; {} files have more than {} lines",
        CHECKS.len(),
        context.tree.len(),
        sizes::long_files(&context.tree),
        sizes::LONG
    );
    Ok(if problems == 0 { Verdict::Good } else { Verdict::Bad })
}

/// Advisories need the network, so they are left to whoever wants them; the rest must hold everywhere.
fn cargo_deny_is_content(workspace: &Workspace) -> anyhow::Result<bool> {
    let mut command = workspace.cargo(&["deny", "--offline", "check", "licenses", "bans", "sources"]);
    Ok(process::watch(&mut command, &mut |_| {})? == Ended::Success)
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
