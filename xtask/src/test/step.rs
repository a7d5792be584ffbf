//! What each step runs.

use anyhow::bail;

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
    Doctests,
    Build,
    E2e,
}

impl Step {
    pub(crate) const ALL: [Step; 8] =
        [Step::Fmt, Step::Clippy, Step::Tidy, Step::Plugins, Step::Tests, Step::Doctests, Step::Build, Step::E2e];

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
            Step::Doctests => "doctests",
            Step::Build => "build",
            Step::E2e => "e2e",
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Step::Fmt => "formatting",
            Step::Clippy => "lints, warnings denied",
            Step::Tidy => "rules of the repository",
            Step::Plugins => "plugins of this repository, checked, tested and built",
            Step::Tests => "unit and integration tests",
            Step::Doctests => "examples in the documentation",
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

    pub(crate) fn run(self, workspace: &Workspace) -> anyhow::Result<Finding> {
        match self {
            Step::Fmt => plain(workspace, &["fmt", "--all", "--check"], "run `cargo fmt --all`"),
            Step::Clippy => plain(
                workspace,
                &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
                "clippy is not content",
            ),
            // The generated files' own tests are among the tests of the next step: no need to build them twice.
            Step::Tidy => Ok(match tidy::run(workspace, Scope::WithoutCompiling)? {
                Verdict::Good => Finding::default(),
                Verdict::Bad => Finding::failed("see the problems above".to_owned()),
            }),
            // Before the tests, some of which load what is built here.
            Step::Plugins => plugins::check(workspace),
            Step::Tests if workspace.has_cargo_tool("nextest") => counted(
                workspace,
                &["nextest", "run", "--workspace", "--no-fail-fast"],
                count::nextest_summary,
                MustCount::Yes,
            ),
            Step::Tests => counted(
                workspace,
                &["test", "--workspace", "--all-targets", "--no-fail-fast"],
                count::libtest_result,
                MustCount::Yes,
            ),
            Step::Doctests => counted(
                workspace,
                &["test", "--workspace", "--doc", "--no-fail-fast"],
                count::libtest_result,
                MustCount::No,
            ),
            Step::Build => plain(workspace, &["build", "--release"], "the release binary does not build"),
            Step::E2e => e2e::run(workspace),
        }
    }
}

fn plain(workspace: &Workspace, arguments: &[&str], advice: &str) -> anyhow::Result<Finding> {
    Ok(match process::watch(&mut workspace.cargo(arguments), &mut |_| {})? {
        Ended::Success => Finding::default(),
        Ended::Failure(_) | Ended::TimedOut(_) => Finding::failed(advice.to_owned()),
    })
}

/// Whether a run that names no figures at all is suspicious.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MustCount {
    Yes,
    No,
}

fn counted(
    workspace: &Workspace,
    arguments: &[&str],
    read: fn(&str) -> Option<Counts>,
    must_count: MustCount,
) -> anyhow::Result<Finding> {
    let mut counts = None::<Counts>;
    let ended = process::watch(&mut workspace.cargo(arguments), &mut |line| {
        if let Some(more) = read(line) {
            counts = Some(counts.unwrap_or_default() + more);
        }
    })?;
    Ok(judge(ended, counts, must_count))
}

fn judge(ended: Ended, counts: Option<Counts>, must_count: MustCount) -> Finding {
    let state = match (ended, counts) {
        (Ended::Success, None) if must_count == MustCount::Yes => State::Failed("no test was counted".to_owned()),
        (Ended::Success, Some(counts)) if counts.failed > 0 => State::Failed("tests failed".to_owned()),
        (Ended::Success, _) => State::Passed,
        (Ended::Failure(_), Some(counts)) if counts.failed > 0 => State::Failed("tests failed".to_owned()),
        (Ended::Failure(status), _) => State::Failed(format!("did not get as far as a result ({status})")),
        (Ended::TimedOut(limit), _) => State::Failed(format!("took longer than {} s", limit.as_secs())),
    };
    Finding { state, counts: counts.unwrap_or_default(), skips: Vec::new() }
}

#[cfg(test)]
mod tests;
