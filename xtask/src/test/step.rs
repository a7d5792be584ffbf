//! What each step runs.

use std::process::Command;

use anyhow::{Context, bail};

use crate::process::{self, Ended};
use crate::test::{Counts, Finding, State, count};
use crate::tidy::{self, Scope};
use crate::workspace::Workspace;
use crate::{Verdict, e2e, plugins};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Fmt,
    Clippy,
    Tidy,
    Plugins,
    Tests,
    Build,
    E2e,
}

/// What the step `e2e` needs of the whole run.
#[derive(Debug)]
pub(crate) struct Drivers {
    /// Begun with the first step, so that packages arrive while the compiler runs; used up by the step.
    pub(crate) preparation: Option<e2e::Preparation>,
    pub(crate) side_by_side: Option<usize>,
}

/// The one feature of the workspace that is off unless asked for.
const EVERYTHING: &str = "xtask/bench";

impl Step {
    pub(crate) const ALL: [Step; 7] =
        [Step::Fmt, Step::Clippy, Step::Tidy, Step::Plugins, Step::Tests, Step::Build, Step::E2e];

    pub(crate) fn parse(name: &str) -> anyhow::Result<Step> {
        let Some(step) = Step::ALL.into_iter().find(|step| step.name() == name) else {
            bail!("no step is called `{name}`; there are: {}", Step::ALL.map(Step::name).join(", "));
        };
        Ok(step)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Step::Fmt => "fmt",
            Step::Clippy => "clippy",
            Step::Tidy => "tidy",
            Step::Plugins => "plugins",
            Step::Tests => "tests",
            Step::Build => "build",
            Step::E2e => "e2e",
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Step::Fmt => "formatting",
            Step::Clippy => "lints, warnings denied; compiles the tests",
            Step::Tidy => "rules of the repository",
            Step::Plugins => "plugins of this repository, checked, tested and built",
            Step::Tests => "unit and integration tests",
            Step::Build => "release binary",
            Step::E2e => "real clients against the release binary",
        }
    }

    /// Left out by `--fast`.
    pub(crate) fn is_slow(self) -> bool {
        matches!(self, Step::Build | Step::E2e)
    }

    /// The step without whose success this one says nothing.
    pub(crate) fn needs(self) -> Option<Step> {
        (self == Step::E2e).then_some(Step::Build)
    }

    pub(crate) fn run(self, workspace: &Workspace, drivers: &mut Drivers) -> anyhow::Result<Finding> {
        match self {
            Step::Fmt => plain(workspace.cargo(&["fmt", "--all", "--check"]), "run `cargo fmt --all`"),
            Step::Clippy => plain(
                workspace.testing_cargo(&["build", "--workspace", "--all-targets", "--features", EVERYTHING])?,
                "clippy is not content: `cargo clippy --workspace --all-targets --all-features` shows the same",
            ),
            // The generated files' own tests are among the tests of the next step: no need to build them twice.
            Step::Tidy => Ok(match tidy::run(workspace, Scope::WithoutCompiling)? {
                Verdict::Good => Finding::default(),
                Verdict::Bad => Finding::failed("see the problems above".to_owned()),
            }),
            // Before the tests, some of which load what is built here.
            Step::Plugins => plugins::check(workspace),
            // What the step `clippy` compiled is run.
            Step::Tests if workspace.has_cargo_tool("nextest") => counted(
                workspace.testing_cargo(&[
                    "nextest",
                    "run",
                    "--workspace",
                    "--no-fail-fast",
                    "--features",
                    EVERYTHING,
                ])?,
                count::nextest_summary,
            ),
            Step::Tests => counted(
                workspace.testing_cargo(&[
                    "test",
                    "--workspace",
                    "--all-targets",
                    "--no-fail-fast",
                    "--features",
                    EVERYTHING,
                ])?,
                count::libtest_result,
            ),
            Step::Build => plain(workspace.cargo(&["build", "--release"]), "the release binary does not build"),
            Step::E2e => {
                let preparation = drivers.preparation.take().context("the drivers were not prepared")?;
                e2e::run(workspace, preparation, drivers.side_by_side)
            }
        }
    }
}

fn plain(mut command: Command, advice: &str) -> anyhow::Result<Finding> {
    Ok(match process::watch(&mut command, &mut |_| {})? {
        Ended::Success => Finding::default(),
        Ended::Failure(_) | Ended::TimedOut(_) => Finding::failed(advice.to_owned()),
    })
}

fn counted(mut command: Command, read: fn(&str) -> Option<Counts>) -> anyhow::Result<Finding> {
    let mut counts = None::<Counts>;
    let ended = process::watch(&mut command, &mut |line| {
        if let Some(more) = read(line) {
            counts = Some(counts.unwrap_or_default() + more);
        }
    })?;
    Ok(judge(ended, counts))
}

fn judge(ended: Ended, counts: Option<Counts>) -> Finding {
    let state = match (ended, counts) {
        (Ended::Success, None) => State::Failed("no test was counted".to_owned()),
        (Ended::Success, Some(counts)) if counts.failed > 0 => State::Failed("tests failed".to_owned()),
        (Ended::Success, _) => State::Passed,
        (Ended::Failure(_), Some(counts)) if counts.failed > 0 => State::Failed("tests failed".to_owned()),
        (Ended::Failure(status), _) => State::Failed(format!("did not get as far as a result ({status})")),
        (Ended::TimedOut(limit), _) => State::Failed(format!("took longer than {} s", limit.as_secs())),
    };
    Finding { state, counts: counts.unwrap_or_default(), ..Finding::default() }
}

#[cfg(test)]
mod tests;
