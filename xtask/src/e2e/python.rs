//! The Python side: a virtual environment with pinned packages, and a runner that reports in JSON.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;

use crate::e2e::driver::{self, Outcome};
use crate::e2e::{Places, cache};
use crate::output::say;
use crate::process;

const OLDEST: (u32, u32) = (3, 9);
const REQUIREMENTS: &str = "e2e/python/requirements.txt";
/// How long making the environment may take; a single package has less, see `e2e/bootstrap.py`.
const PATIENCE: Duration = Duration::from_secs(1800);

#[derive(Debug)]
pub(super) struct Python {
    program: PathBuf,
    missing: Vec<Missing>,
}

/// What `e2e/bootstrap.py` says about the environment it made.
#[derive(Debug, Deserialize)]
struct Report {
    python: Option<PathBuf>,
    /// Why there is no environment.
    fatal: Option<String>,
    missing: Vec<Missing>,
}

#[derive(Debug, Deserialize)]
struct Missing {
    requirement: String,
    reason: String,
}

/// An environment with the drivers' packages and those of the `extra` requirement files, or the reason there is none.
pub(super) fn prepare(root: &Path, scratch: &Path, extra: &[&str]) -> anyhow::Result<Result<Python, String>> {
    let Some(system) = ["python3", "python"].into_iter().find(|program| is_recent(program)) else {
        return Ok(Err(format!("no Python {}.{} or newer was found", OLDEST.0, OLDEST.1)));
    };
    let report = scratch.join("bootstrap.json");
    if report.exists() {
        std::fs::remove_file(&report)?;
    }
    let wanted = std::fs::read(root.join(REQUIREMENTS)).with_context(|| format!("cannot read {REQUIREMENTS}"))?;
    // The `extra` packages are added to the same environment: they are the same on every machine that needs them.
    let venv = scratch.join(format!("python-{}", cache::key(&[&wanted])));
    let log = scratch.join("bootstrap.log");
    let mut command = Command::new(system);
    command.current_dir(root).arg("e2e/bootstrap.py");
    command.arg("--venv").arg(&venv).arg("--report").arg(&report);
    command.arg(REQUIREMENTS).args(extra);
    let ended = process::run_logged(&mut command, PATIENCE, &log)?;
    let Ok(text) = std::fs::read_to_string(&report) else {
        anyhow::bail!("`e2e/bootstrap.py` left no report ({ended:?}); it printed {}", log.display());
    };
    let report = serde_json::from_str(&text).context("cannot read the report of `e2e/bootstrap.py`")?;
    cache::link(&scratch.join("venv"), &venv)?;
    Ok(judge(report))
}

/// A missing package is no reason to give up: it costs only the drivers that ask for it.
fn judge(report: Report) -> Result<Python, String> {
    for missing in &report.missing {
        say!("cannot have `{}`: {}", missing.requirement, missing.reason);
    }
    match report.python {
        Some(program) => Ok(Python { program, missing: report.missing }),
        None => Err(report.fatal.unwrap_or_else(|| "no virtual environment could be made".to_owned())),
    }
}

impl Python {
    pub(super) fn run(&self, places: &Places, file: &str) -> anyhow::Result<Outcome> {
        let report = places.report_of(file);
        let mut command = Command::new(&self.program);
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
        command.arg("e2e/python/run_tests.py").arg(file).arg("--report").arg(&report);
        driver::run(places, &mut command, file, |text| read_report(file, text))
    }

    /// The program, or why a package is not there that it needs.
    #[cfg(any(test, feature = "bench"))]
    pub(super) fn program_with(self, package: &str) -> Result<PathBuf, String> {
        self.lacks(package).map_or(Ok(self.program), Err)
    }

    /// Why a package of the requirements, named without its version, is not there.
    pub(super) fn lacks(&self, package: &str) -> Option<String> {
        let is_meant = |missing: &&Missing| missing.requirement.split("==").next() == Some(package);
        let missing = self.missing.iter().find(is_meant)?;
        Some(format!("`{}` cannot be had: {}", missing.requirement, missing.reason))
    }

    /// The folder of an installed package.
    pub(super) fn package_folder(&self, package: &str) -> anyhow::Result<PathBuf> {
        let script = format!("import {package}, os; print(os.path.dirname({package}.__file__))");
        let output = Command::new(&self.program).args(["-c", &script]).output().context("cannot run Python")?;
        anyhow::ensure!(output.status.success(), "the Python package `{package}` cannot be imported");
        let folder = String::from_utf8(output.stdout).context("Python printed a path that is not UTF-8")?;
        Ok(Path::new(folder.trim()).to_owned())
    }
}

fn read_report(file: &str, text: &str) -> Option<Outcome> {
    #[derive(Deserialize)]
    struct Skip {
        name: String,
        reason: String,
    }
    #[derive(Deserialize)]
    struct Tests {
        passed: u64,
        failed: Vec<String>,
        skipped: Vec<Skip>,
    }
    let tests: Tests = serde_json::from_str(text).ok()?;
    Some(Outcome {
        passed: tests.passed,
        failed: tests.failed.iter().map(|name| format!("{file}: {name}")).collect(),
        skipped: tests.skipped.iter().map(|skip| format!("{file}: {}: {}", skip.name, skip.reason)).collect(),
    })
}

fn is_recent(program: &str) -> bool {
    let script = format!("import sys; sys.exit(sys.version_info < {OLDEST:?})");
    Command::new(program).args(["-c", &script]).output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests;
