//! Real clients against the release binary: every `e2e/python/test_*.py` and every `e2e/node/*.test.mjs`; and the tests
//! of the client package, `sdk/js/test/*.test.mjs`, which need Node and its packages but no server.
//!
//! Files run side by side, each in a process of its own with ports and folders of its own. What they need is fetched into
//! `target/e2e`, without root; a browser and a message bus, where they are missing, come from the system's packages. What
//! cannot be had is a skip with its reason, one for each file that could not run.

mod cache;
mod driver;
mod node;
mod prepare;
mod python;
mod schedule;
mod system;
mod tap;

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::output::say;
use crate::plugins;
use crate::test::{Counts, Finding, State};
use crate::workspace::Workspace;

pub(crate) use cache::key;
use prepare::Environments;
pub(crate) use prepare::Preparation;
use schedule::{Driver, Finished, Language};

const NODE_FOLDERS: [&str; 2] = ["sdk/js/test", "e2e/node"];
/// How many of the slowest files the closing table names.
const NAMED_AS_SLOWEST: usize = 5;

/// Where the drivers are and where their packages go.
#[derive(Debug, Clone)]
struct Places {
    root: PathBuf,
    /// `target/e2e`.
    scratch: PathBuf,
    /// The release binary that is tested.
    binary: PathBuf,
    /// The components of `plugins/`.
    plugins: PathBuf,
}

impl Places {
    fn find(workspace: &Workspace) -> anyhow::Result<Places> {
        let target = workspace.target_directory()?;
        let places = Places {
            root: workspace.root.clone(),
            scratch: target.join("e2e"),
            binary: target.join("release").join(format!("patchboard{}", std::env::consts::EXE_SUFFIX)),
            plugins: plugins::folder(&target),
        };
        let logs = places.logs();
        std::fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
        Ok(places)
    }

    /// What each file of tests printed in the last run.
    fn logs(&self) -> PathBuf {
        self.scratch.join("logs")
    }
}

/// Runs every driver, `side_by_side` of them at a time, or as many as suit the machine.
pub(crate) fn run(
    workspace: &Workspace,
    preparation: Preparation,
    side_by_side: Option<usize>,
) -> anyhow::Result<Finding> {
    let places = Places::find(workspace)?;
    let binary = &places.binary;
    anyhow::ensure!(binary.is_file(), "no release binary: run `cargo xtask test --only build --only e2e`");
    plugins::prepare(workspace)?;
    let environments = preparation.wait()?;
    let drivers = all_drivers(&places)?;
    let side_by_side = side_by_side.unwrap_or_else(schedule::suitable_side_by_side);
    say!("{} files of tests, {side_by_side} side by side", drivers.len());
    Ok(summarise(schedule::run_all(&places, &environments, drivers, side_by_side)?))
}

/// The Python that the drivers run with, or why there is none that has `package`.
#[cfg(feature = "bench")]
pub(crate) fn python(root: &Path, target: &Path, package: &str) -> anyhow::Result<Result<PathBuf, String>> {
    let scratch = target.join("e2e");
    std::fs::create_dir_all(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
    Ok(python::prepare(root, &scratch, &[])?.and_then(|python| python.program_with(package)))
}

fn all_drivers(places: &Places) -> anyhow::Result<Vec<Driver>> {
    let root = &places.root;
    let mut drivers = Vec::new();
    for file in files(root, "e2e/python", "test_", ".py")? {
        drivers.push(Driver::read(root, file, Language::Python)?);
    }
    for folder in NODE_FOLDERS {
        for file in files(root, folder, "", ".test.mjs")? {
            drivers.push(Driver::read(root, file, Language::Node)?);
        }
    }
    Ok(drivers)
}

/// The driver files in a folder, by name, as paths from the root.
fn files(root: &Path, folder: &str, prefix: &str, suffix: &str) -> anyhow::Result<Vec<String>> {
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

fn summarise(mut finished: Vec<Finished>) -> Finding {
    finished.sort_by_key(|driver| std::cmp::Reverse(driver.took));
    let slowest = finished.iter().take(NAMED_AS_SLOWEST).map(|driver| (driver.file.clone(), driver.took)).collect();
    finished.sort_by(|one, other| one.file.cmp(&other.file));
    let outcomes = || finished.iter().map(|driver| &driver.outcome);
    let counts = outcomes().fold(Counts::default(), |sum, outcome| sum + outcome.counts());
    let failures: Vec<&String> = outcomes().flat_map(|outcome| &outcome.failed).collect();
    let state = match failures.as_slice() {
        [] if counts == Counts::default() => State::Failed("no driver was run".to_owned()),
        [] => State::Passed,
        [one] => State::Failed((*one).clone()),
        [first, rest @ ..] => State::Failed(format!("{first} and {} more", rest.len())),
    };
    let skips = outcomes().flat_map(|outcome| outcome.skipped.iter().cloned()).collect();
    Finding { state, counts, skips, slowest }
}

#[cfg(test)]
mod tests;
