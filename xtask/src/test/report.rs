//! The table at the end, and the line that sums it up.

use std::time::Duration;

use crate::test::{Counts, Step};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Passed,
    Failed(String),
    NotRun(String),
}

/// What a step found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) state: State,
    pub(crate) counts: Counts,
    /// What was left out, each with its reason.
    pub(crate) skips: Vec<String>,
    /// The files of tests that took longest, longest first.
    pub(crate) slowest: Vec<(String, Duration)>,
}

impl Default for Finding {
    fn default() -> Finding {
        Finding { state: State::Passed, counts: Counts::default(), skips: Vec::new(), slowest: Vec::new() }
    }
}

impl Finding {
    pub(crate) fn failed(why: String) -> Finding {
        Finding { state: State::Failed(why), ..Finding::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) step: Step,
    pub(crate) took: Duration,
    pub(crate) finding: Finding,
}

impl Row {
    pub(crate) fn not_run(step: Step, why: &str) -> Row {
        let finding = Finding { state: State::NotRun(why.to_owned()), ..Finding::default() };
        Row { step, took: Duration::ZERO, finding }
    }

    pub(crate) fn is_failed(&self) -> bool {
        matches!(self.finding.state, State::Failed(_))
    }
}

/// The whole closing report. Its last line is `N passed, N failed, N skipped`, alone.
pub(crate) fn lines(rows: &[Row]) -> Vec<String> {
    let mut lines = vec![String::new(), format!("{:<10}{:>9}  result", "step", "time")];
    lines.extend(rows.iter().map(|row| format!("{:<10}{:>9}  {}", row.step.name(), time(row), result(row))));
    let slowest: Vec<_> = rows.iter().flat_map(|row| &row.finding.slowest).collect();
    if !slowest.is_empty() {
        lines.push(String::new());
        lines.extend(slowest.iter().map(|(file, took)| format!("slowest: {:>9}  {file}", in_words(*took))));
    }
    let skips: Vec<&String> = rows.iter().flat_map(|row| &row.finding.skips).collect();
    if !skips.is_empty() {
        lines.push(String::new());
        lines.extend(skips.iter().map(|skip| format!("skipped: {skip}")));
    }
    let total: Duration = rows.iter().map(|row| row.took).sum();
    lines.push(String::new());
    lines.push(format!("took {}", in_words(total)));
    let Counts { passed, failed, skipped } = totals(rows);
    lines.push(format!("{passed} passed, {failed} failed, {skipped} skipped"));
    lines
}

/// The sum over all steps; a step that failed without a failed test, such as clippy, counts as one failure,
/// so that the last line never looks good when the run was not.
fn totals(rows: &[Row]) -> Counts {
    rows.iter().fold(Counts::default(), |sum, row| {
        let own = row.finding.counts;
        let failed = if row.is_failed() { own.failed.max(1) } else { own.failed };
        sum + Counts { failed, ..own }
    })
}

fn result(row: &Row) -> String {
    let Counts { passed, failed, skipped } = row.finding.counts;
    let figures = if row.finding.counts == Counts::default() {
        String::new()
    } else {
        format!(": {passed} passed, {failed} failed, {skipped} skipped")
    };
    match &row.finding.state {
        State::Passed => format!("ok{figures}"),
        State::Failed(why) => format!("FAILED{figures} · {why}"),
        State::NotRun(why) => format!("not run, because {why}"),
    }
}

fn time(row: &Row) -> String {
    if matches!(row.finding.state, State::NotRun(_)) { "-".to_owned() } else { in_words(row.took) }
}

fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        let whole = duration.as_secs();
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests;
