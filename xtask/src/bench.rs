//! `cargo xtask bench`: what the product costs, beside a baseline that does the least possible work.
//!
//! A figure counts as a ratio taken in one run on one machine. Nothing here is a test: a missed target is a line in
//! the table, and no figure ever fails `cargo xtask test`. All traffic stays on loopback and ends by itself.
//!
//! What measures is behind the feature `bench`: servers and clients that a first `cargo xtask test` need not wait for.

#[cfg(feature = "bench")]
mod measure;
mod options;
pub(crate) mod routing;
mod stats;

use std::process::Command;
use std::time::Duration;

use anyhow::bail;

use crate::output::say;
use crate::process::{self, Ended};
use crate::workspace::Workspace;
use crate::{Verdict, plugins};

#[cfg(feature = "bench")]
pub(crate) use measure::{Part, run_part};
pub(crate) use options::Options;
#[cfg(test)]
pub(crate) use options::ROWS;

/// What is measured is what is published.
const PROFILE: &str = "dist";
/// A measurement that takes longer has got stuck; the longest rows take minutes, and many times that against another build.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);

/// Builds as for publishing and lets that build of this program measure: a debug client would measure itself.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<Verdict> {
    say!("building with the profile `{PROFILE}`");
    let mut build = workspace.cargo(&["build", "--profile", PROFILE, "--package", "patchboard", "--package", "xtask"]);
    build.args(["--features", "xtask/bench"]);
    match process::watch(&mut build, &mut |_| {})? {
        Ended::Success => {}
        Ended::Failure(why) => bail!("the build failed: {why}"),
        Ended::TimedOut(limit) => bail!("the build took longer than {} s", limit.as_secs()),
    }
    if options.chooses(options::HOSTILE) {
        plugins::prepare(workspace)?;
    }
    let program = workspace.target_directory()?.join(PROFILE).join(format!("xtask{}", std::env::consts::EXE_SUFFIX));
    // Thousands of idle clients are thousands of open files; a shell can raise the limit as far as it goes.
    let mut measure = Command::new("sh");
    measure.args(["-c", r#"ulimit -n "$(ulimit -Hn)"; exec "$0" "$@""#]).arg(program).arg("bench-measure");
    measure.args(options.words());
    match process::watch_until(&mut measure, PATIENCE, &mut |_| {})? {
        Ended::Success => Ok(Verdict::Good),
        Ended::Failure(_) => Ok(Verdict::Bad),
        Ended::TimedOut(limit) => bail!("the measurement took longer than {} s", limit.as_secs()),
    }
}
