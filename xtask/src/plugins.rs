//! `cargo xtask plugins`: builds the components of `plugins/`, a workspace of its own for another target, and puts them
//! where the tests look for them.
//!
//! Where they cannot be built, because the target or a package cannot be had, the committed ones take their place.

mod build;
mod guests;
mod place;
mod stamp;

use std::path::{Path, PathBuf};

use crate::Verdict;
use crate::output::say;
use crate::process::{self, Ended};
use crate::test::{Counts, Finding, State};
use crate::workspace::Workspace;

use build::Workshop;
use stamp::Stamp;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// Copy what was built to `plugins/built`.
    pub(crate) commit: bool,
    /// Check and test the sources first, and that `plugins/built` is what they build.
    pub(crate) test: bool,
}

/// Where the components are.
#[derive(Debug)]
pub(crate) struct Components {
    pub(crate) folder: PathBuf,
    /// Why they are the committed ones, which are only some of them.
    pub(crate) not_built: Option<String>,
}

pub(crate) fn run(workspace: &Workspace, options: Options) -> anyhow::Result<Verdict> {
    if options.test {
        let finding = check(workspace)?;
        let Counts { passed, failed, .. } = finding.counts;
        say!("{passed} passed, {failed} failed");
        if let State::Failed(why) = finding.state {
            say!("{why}");
            return Ok(Verdict::Bad);
        }
        return Ok(Verdict::Good);
    }
    let components = prepare(workspace)?;
    if options.commit {
        if let Some(reason) = components.not_built {
            anyhow::bail!("there is nothing new to commit: {reason}");
        }
        place::commit(&components.folder, &workspace.root)?;
    }
    Ok(Verdict::Good)
}

/// Where `prepare` puts the components.
pub(crate) fn folder(target: &Path) -> PathBuf {
    target.join("plugins")
}

/// Builds what is stale and names the folder. Nothing is asked of cargo where the sources, their lock file and the
/// toolchain are those that the components there were built from.
pub(crate) fn prepare(workspace: &Workspace) -> anyhow::Result<Components> {
    let target = workspace.target_directory()?;
    let folder = folder(&target);
    let stamp = Stamp::of_sources(workspace, &folder)?;
    if stamp.is_current() {
        say!("plugins are in {}, as built before", folder.display());
        return Ok(Components { folder, not_built: None });
    }
    stamp.remove()?;
    let not_built = match Workshop::open(workspace, &target)? {
        Ok(workshop) => {
            workshop.build()?;
            place::collect(&workshop, &folder)?;
            stamp.write()?;
            None
        }
        Err(reason) => {
            say!("the plugins are not built, the committed ones are used: {reason}");
            place::take_committed(&workspace.root, &folder)?;
            Some(reason)
        }
    };
    say!("plugins are in {}", folder.display());
    Ok(Components { folder, not_built })
}

/// Formatting, lints and tests of the sources; then the components, and that the committed ones are the same.
pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<Finding> {
    let target = workspace.target_directory()?;
    let workshop = match Workshop::open(workspace, &target)? {
        Ok(workshop) => workshop,
        Err(reason) => {
            prepare(workspace)?;
            let skips = vec![format!("plugins: not built, the committed ones are used: {reason}")];
            return Ok(Finding { counts: Counts { skipped: 1, ..Counts::default() }, skips, ..Finding::default() });
        }
    };
    for (arguments, advice) in CHECKS {
        if process::watch(&mut workshop.cargo(arguments), &mut |_| {})? != Ended::Success {
            return Ok(Finding::failed((*advice).to_owned()));
        }
    }
    let mut counts = Counts::default();
    let ended = process::watch(&mut workshop.cargo(TESTS), &mut |line| counts = counts + Counts::of_libtest(line))?;
    let mut finding = Finding { state: judge(&ended, counts), counts, ..Finding::default() };
    if finding.state == State::Passed {
        let components = prepare(workspace)?;
        if let Some(stale) = place::stale(&components.folder, &workspace.root)? {
            finding.state = State::Failed(format!(
                "plugins/built/{stale}.wasm is not what its sources build: run `cargo xtask plugins --commit`"
            ));
        }
    }
    Ok(finding)
}

const CHECKS: &[(&[&str], &str)] = &[
    (&["fmt", "--all", "--check"], "run `cargo fmt --all` in `plugins`"),
    (
        &["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"],
        "clippy is not content with `plugins`",
    ),
];

/// On this machine, not in a component: only what does not need a host is tested here. Examples are components and
/// cannot be linked for this machine.
const TESTS: &[&str] = &["test", "--locked", "--workspace", "--lib", "--no-fail-fast"];

fn judge(ended: &Ended, counts: Counts) -> State {
    match (ended, counts) {
        (Ended::Success, Counts { passed: 1.., failed: 0, .. }) => State::Passed,
        (Ended::Success, Counts { failed: 0, .. }) => State::Failed("no test of `plugins` was counted".to_owned()),
        (_, Counts { failed: 1.., .. }) => State::Failed("tests of `plugins` failed".to_owned()),
        (Ended::Failure(_) | Ended::TimedOut(_), _) => State::Failed("the tests of `plugins` did not run".to_owned()),
    }
}

#[cfg(test)]
mod tests;
