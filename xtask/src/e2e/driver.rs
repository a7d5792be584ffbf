//! What one driver file came to.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::e2e::Places;
use crate::process::{self, Ended};
use crate::test::Counts;

/// A driver that hangs is a failure, and must not hold up the whole run for hours.
const LIMIT: Duration = Duration::from_secs(8 * 60);

/// Lists hold `file: test` and, for skips, the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) passed: u64,
    pub(super) failed: Vec<String>,
    pub(super) skipped: Vec<String>,
}

impl Outcome {
    pub(super) fn skipped(file: &str, reason: &str) -> Outcome {
        Outcome { skipped: vec![format!("{file}: {reason}")], ..Outcome::default() }
    }

    pub(super) fn counts(&self) -> Counts {
        let count = |list: &[String]| u64::try_from(list.len()).unwrap_or(u64::MAX);
        Counts { passed: self.passed, failed: count(&self.failed), skipped: count(&self.skipped) }
    }
}

impl Places {
    /// What the driver prints.
    pub(super) fn log_of(&self, file: &str) -> PathBuf {
        self.logs().join(format!("{}.log", file_name(file)))
    }

    /// What the driver's test runner reports; each has a file of its own, because they run side by side.
    pub(super) fn report_of(&self, file: &str) -> PathBuf {
        self.logs().join(format!("{}.report", file_name(file)))
    }
}

/// The path from the root as the name of one file.
fn file_name(file: &str) -> String {
    file.replace('/', "-")
}

/// Runs a driver and reads its report, which `read` turns into an outcome. A driver that fails, hangs or leaves no
/// readable report has failed even when it names no failed test.
pub(super) fn run(
    places: &Places,
    command: &mut Command,
    file: &str,
    read: impl Fn(&str) -> Option<Outcome>,
) -> anyhow::Result<Outcome> {
    let report = places.report_of(file);
    // A report of an earlier run must not speak for this one.
    if report.exists() {
        std::fs::remove_file(&report)?;
    }
    command.current_dir(&places.root).env("PATCHBOARD_BIN", &places.binary).env("PATCHBOARD_PLUGINS", &places.plugins);
    let ended = process::run_logged(command, LIMIT, &places.log_of(file))?;
    let reported = std::fs::read_to_string(&report).ok().and_then(|text| read(&text));
    Ok(judge(file, ended, reported))
}

fn judge(file: &str, ended: Ended, reported: Option<Outcome>) -> Outcome {
    let readable = reported.is_some();
    let mut outcome = reported.unwrap_or_default();
    let complaint = match ended {
        Ended::TimedOut(limit) => Some(format!("{file}: took longer than {} s", limit.as_secs())),
        Ended::Failure(status) if outcome.failed.is_empty() => Some(format!("{file}: failed ({status})")),
        Ended::Success if !readable => Some(format!("{file}: left no report")),
        Ended::Success if outcome == Outcome::default() => Some(format!("{file}: has no tests")),
        Ended::Success | Ended::Failure(_) => None,
    };
    outcome.failed.extend(complaint);
    outcome
}

#[cfg(test)]
mod tests;
