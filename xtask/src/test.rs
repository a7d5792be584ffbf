//! `cargo xtask test`: every check and every test, in the order in which they fail fastest.

mod count;
mod report;
mod step;

use std::time::Instant;

use crate::output::say;
use crate::workspace::Workspace;
use crate::{Verdict, e2e};

pub(crate) use count::Counts;
pub(crate) use report::{Finding, Row, State};
pub(crate) use step::{Drivers, Step};

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) fast: bool,
    pub(crate) keep_going: bool,
    /// The steps to run, or all of them when empty.
    pub(crate) only: Vec<Step>,
    /// How many files of end-to-end tests run at a time; as many as suit the machine where it is not said.
    pub(crate) side_by_side: Option<usize>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<Verdict> {
    let preparation = options.chooses(Step::E2e).then(|| e2e::Preparation::start(workspace)).transpose()?;
    let mut drivers = Drivers { preparation, side_by_side: options.side_by_side };
    let rows = run_steps(options, &mut |step| {
        say!("\n=== {} · {}", step.name(), step.about());
        step.run(workspace, &mut drivers)
    });
    for line in report::lines(&rows) {
        say!("{line}");
    }
    Ok(if rows.iter().any(|row| row.is_failed()) { Verdict::Bad } else { Verdict::Good })
}

/// Runs the chosen steps in order; after a failure the rest is listed as not run, unless told to keep going.
fn run_steps(options: &Options, perform: &mut dyn FnMut(Step) -> anyhow::Result<Finding>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for step in Step::ALL {
        if !options.chooses(step) {
            continue;
        }
        if let Some(blocked) = options.blocked(step, &rows) {
            rows.push(Row::not_run(step, &blocked));
            continue;
        }
        let started = Instant::now();
        // A step that could not be carried out has failed; the table and the remaining steps still matter.
        let finding = perform(step).unwrap_or_else(|error| Finding::failed(format!("{error:#}")));
        rows.push(Row { step, took: started.elapsed(), finding });
    }
    rows
}

impl Options {
    fn chooses(&self, step: Step) -> bool {
        if self.only.is_empty() { !(self.fast && step.is_slow()) } else { self.only.contains(&step) }
    }

    fn blocked(&self, step: Step, rows: &[Row]) -> Option<String> {
        let failed = rows.iter().filter(|row| row.is_failed());
        let mut blockers = failed.filter(|row| !self.keep_going || step.needs() == Some(row.step));
        blockers.next().map(|row| format!("`{}` failed", row.step.name()))
    }
}

#[cfg(test)]
mod tests;
