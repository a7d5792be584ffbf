//! What the build for publishing does: it has the clients, the baselines and the rows, and their dependencies.

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
mod pairs;
mod part;
mod proc;
mod report;
mod round_trips;
mod rows;
mod runner;
mod server;
mod stub;
mod watchdog;
mod ws;

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::bench::options::Options;
use crate::output::say;
use crate::workspace::Workspace;
use crate::{Verdict, machine};

use env::Env;
use pairs::Builds;
pub(crate) use part::Part;
use report::Outcome;

/// Before a row nothing of ours runs, so what is in use then is in use by others.
const LISTEN: Duration = Duration::from_millis(300);

/// What that build does when it is started by `run`, or by itself.
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
    let mut against = None;
    if let Some(other) = env.options.against.clone() {
        anyhow::ensure!(other.is_file(), "there is no program at {}", other.display());
        say!("against {}, {} pairs a row", other.display(), env.options.pairs);
        against = Some(Builds::new(&env, &other)?);
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
        let others = machine::busy_share(LISTEN).ok();
        let started = Instant::now();
        let result = match &against {
            None => row.run(&env),
            Some(builds) => pairs::measure(*row, &mut env, builds),
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

#[cfg(test)]
mod tests;
