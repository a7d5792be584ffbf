//! Real clients against the release binary: every `e2e/python/test_*.py` and every `e2e/node/*.test.mjs`; and the tests
//! of the client package, `sdk/js/test/*.test.mjs`, which need Node and its packages but no server.
//!
//! What the drivers need is fetched into `target/e2e`, without root; a browser and a message bus, where they are missing,
//! come from the system's packages. What cannot be had is a skip with its reason,
//! one for each file that could not run.

mod driver;
mod node;
mod python;
mod system;
mod tap;

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::output::say;
use crate::plugins;
use crate::test::{Counts, Finding, State};
use crate::workspace::Workspace;

use driver::Outcome;

const NODE_FOLDERS: [&str; 2] = ["sdk/js/test", "e2e/node"];

/// Where the drivers are and where their packages go.
#[derive(Debug)]
struct Places {
    root: PathBuf,
    /// `target/e2e`.
    scratch: PathBuf,
    binary: PathBuf,
    /// The components of `plugins/`.
    plugins: PathBuf,
}

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Finding> {
    let target = workspace.target_directory()?;
    let binary = target.join("release").join(format!("patchboard{}", std::env::consts::EXE_SUFFIX));
    anyhow::ensure!(binary.is_file(), "no release binary: run `cargo xtask test --only build --only e2e`");
    let components = plugins::prepare(workspace)?;
    let places =
        Places { root: workspace.root.clone(), scratch: target.join("e2e"), binary, plugins: components.folder };
    std::fs::create_dir_all(&places.scratch).with_context(|| format!("cannot create {}", places.scratch.display()))?;

    let python_files = drivers(&places.root, "e2e/python", "test_", ".py")?;
    let mut node_files = Vec::new();
    for folder in NODE_FOLDERS {
        node_files.extend(drivers(&places.root, folder, "", ".test.mjs")?);
    }
    let mut outcomes = Vec::new();
    system::prepare()?;
    let environment = python::prepare(&places.root, &places.scratch, &[])?;
    run_all(&python_files, environment.as_ref(), &mut outcomes, |python, file| python.run(&places, file))?;
    let environment = if node_files.is_empty() { Err("no driver".to_owned()) } else { node::prepare(&places)? };
    run_all(&node_files, environment.as_ref(), &mut outcomes, |node, file| node.run(&places, file))?;
    Ok(summarise(outcomes))
}

/// The Python that the drivers run with, or why there is none that has `package`.
pub(crate) fn python(root: &Path, target: &Path, package: &str) -> anyhow::Result<Result<PathBuf, String>> {
    let scratch = target.join("e2e");
    std::fs::create_dir_all(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
    Ok(python::prepare(root, &scratch, &[])?.and_then(|python| python.program_with(package)))
}

/// Runs each driver, or skips each with the reason why its language could not be prepared.
fn run_all<Environment>(
    files: &[String],
    environment: Result<&Environment, &String>,
    outcomes: &mut Vec<Outcome>,
    run: impl Fn(&Environment, &str) -> anyhow::Result<Outcome>,
) -> anyhow::Result<()> {
    for file in files {
        say!("\n--- {file}");
        let outcome = match environment {
            Ok(environment) => run(environment, file)?,
            Err(reason) => {
                say!("skipped: {reason}");
                Outcome::skipped(file, reason)
            }
        };
        outcomes.push(outcome);
    }
    Ok(())
}

/// The driver files in a folder, by name, as paths from the root.
fn drivers(root: &Path, folder: &str, prefix: &str, suffix: &str) -> anyhow::Result<Vec<String>> {
    let place = root.join(folder);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&place).with_context(|| format!("cannot list {folder}"))? {
        let name = entry.with_context(|| format!("cannot list {folder}"))?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(prefix) && name.ends_with(suffix) {
            files.push(format!("{folder}/{name}"));
        }
    }
    files.sort();
    Ok(files)
}

fn summarise(outcomes: Vec<Outcome>) -> Finding {
    let counts = outcomes.iter().fold(Counts::default(), |sum, outcome| sum + outcome.counts());
    let failures: Vec<String> = outcomes.iter().flat_map(|outcome| outcome.failed.iter().cloned()).collect();
    let state = match failures.as_slice() {
        [] if counts == Counts::default() => State::Failed("no driver was run".to_owned()),
        [] => State::Passed,
        [one] => State::Failed(one.clone()),
        [first, rest @ ..] => State::Failed(format!("{first} and {} more", rest.len())),
    };
    Finding { state, counts, skips: outcomes.into_iter().flat_map(|outcome| outcome.skipped).collect() }
}

#[cfg(test)]
mod tests;
