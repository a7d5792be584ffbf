//! `cargo xtask bench`: what the product costs, beside a baseline that does the least possible work.
//!
//! A figure counts as a ratio taken in one run on one machine. Nothing here is a test: a missed target is a line in
//! the table, and no figure ever fails `cargo xtask test`. All traffic stays on loopback and ends by itself.

mod calls;
mod chat;
mod clock;
mod direct;
mod echo;
mod env;
mod figure;
mod grpc;
mod held;
mod helper;
mod inbox;
mod load;
mod options;
mod pairs;
mod proc;
mod report;
mod round_trips;
pub(crate) mod routing;
mod rows;
mod runner;
mod server;
mod stats;
mod stub;
mod watchdog;
mod ws;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::output::say;
use crate::process::{self, Ended};
use crate::workspace::Workspace;
use crate::{Verdict, plugins};

use env::Env;
pub(crate) use options::{Options, Part};
use report::Outcome;

/// What is measured is what is published.
const PROFILE: &str = "dist";
/// A measurement that takes longer has got stuck; the longest rows take minutes, and many times that against another build.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);

/// What can be measured alone.
#[cfg(test)]
pub(crate) fn row_names() -> impl Iterator<Item = &'static str> {
    rows::ALL.iter().map(|row| row.name())
}

/// Before a row nothing of ours runs, so what is in use then is in use by others.
const LISTEN: Duration = Duration::from_millis(300);

/// Builds as for publishing and lets that build of this program measure: a debug client would measure itself.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<Verdict> {
    say!("building with the profile `{PROFILE}`");
    let mut build = workspace.cargo(&["build", "--profile", PROFILE, "--package", "patchboard", "--package", "xtask"]);
    match process::watch(&mut build, &mut |_| {})? {
        Ended::Success => {}
        Ended::Failure(why) => bail!("the build failed: {why}"),
        Ended::TimedOut(limit) => bail!("the build took longer than {} s", limit.as_secs()),
    }
    if options.chooses(rows::hostile::NAME) {
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

/// What the release build does when it is started by `run`, or by itself.
pub(crate) fn run_part(workspace: &Workspace, part: Part) -> anyhow::Result<Verdict> {
    match part {
        Part::Measure(options) => measure(workspace, options),
        Part::Stub => stub::run().map(|()| Verdict::Good),
        Part::Echo => echo::run().map(|()| Verdict::Good),
        Part::GrpcEcho => grpc::echo::run().map(|()| Verdict::Good),
        Part::Watchdog { scratch } => watchdog::run(&scratch).map(|()| Verdict::Good),
    }
}

/// Good when everything could be measured, whatever the figures are.
fn measure(workspace: &Workspace, options: Options) -> anyhow::Result<Verdict> {
    let target = workspace.target_directory()?;
    let mut env = Env::new(workspace, &target, options)?;
    let against = env.options.against.clone();
    if let Some(other) = &against {
        anyhow::ensure!(other.is_file(), "there is no program at {}", other.display());
        say!("against {}, {} pairs a row", other.display(), env.options.pairs);
    }
    if cfg!(debug_assertions) {
        say!("this is a debug build: its figures show that it can be measured, not how fast it is");
    }
    let mut outcomes = Vec::new();
    for row in rows::ALL {
        if !env.options.chooses(row.name()) {
            continue;
        }
        say!("\n=== {} · {}", row.name(), row.about());
        // Where it cannot be told, it is not told.
        let others = proc::busy_share(LISTEN).ok();
        let started = Instant::now();
        let result = match &against {
            None => row.run(&env),
            Some(other) => pairs::measure(*row, &mut env, other),
        };
        let outcome = Outcome { row: row.name(), others, result: result.map_err(|error| format!("{error:#}")) };
        for line in report::progress(&outcome, started.elapsed()) {
            say!("{line}");
        }
        outcomes.push(outcome);
    }
    say!("");
    for line in report::table(&outcomes) {
        say!("{line}");
    }
    let path = env.options.json.clone().unwrap_or_else(|| target.join("bench-results.json"));
    let json = serde_json::to_string_pretty(&report::json(&outcomes, &env.options))?;
    std::fs::write(&path, json + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    say!("\nwritten to {}", path.display());
    let all_measured = outcomes.iter().all(|outcome| outcome.result.is_ok());
    Ok(if all_measured { Verdict::Good } else { Verdict::Bad })
}
