//! Which driver runs when: several side by side, long ones beside short ones, and those that need the machine to
//! themselves at the end, one after the other.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::e2e::driver::Outcome;
use crate::e2e::{Environments, Places};
use crate::machine;
use crate::output::say;
use crate::test::Counts;

/// Drivers wait for servers and timers more than they compute, so two for each core keep the cores busy.
const FOR_EACH_CORE: usize = 2;
/// More would only wait for each other.
const MOST_SIDE_BY_SIDE: usize = 8;
/// For so long, before the first driver, it is watched what other programs use.
const LISTEN: Duration = Duration::from_secs(1);
/// The line by which a file says that it needs quiet, after the comment sign; the reason follows.
const ALONE: &str = "runs alone:";
/// The line by which a short file says that it takes long, so that a first run does not end with waiting for it.
const EARLY: &str = "begins early:";
/// Where in the file such lines are looked for.
const HEAD_LINES: usize = 30;
/// How long each file took in the last run, in the scratch folder.
const DURATIONS: &str = "durations.json";
/// Of a failed driver's output, the end is shown; all of it is in its log.
const SHOWN_LINES: usize = 400;

/// One file of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Driver {
    /// Its path from the root.
    pub(super) file: String,
    pub(super) language: Language,
    pub(super) place: Place,
    /// In bytes; longer files take longer, where nothing better is known.
    pub(super) size: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Beside others, before those of which nothing is known.
    Early,
    SideBySide,
    Alone,
}

/// What came of one file.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) file: String,
    pub(super) took: Duration,
    pub(super) outcome: Outcome,
}

impl Driver {
    pub(super) fn read(root: &Path, file: String, language: Language) -> anyhow::Result<Driver> {
        let text = std::fs::read_to_string(root.join(&file)).with_context(|| format!("cannot read {file}"))?;
        Ok(Driver { place: place(&text), size: text.len(), file, language })
    }
}

fn place(text: &str) -> Place {
    let says = |what: &str| {
        text.lines().take(HEAD_LINES).any(|line| {
            let comment = line.strip_prefix('#').or_else(|| line.strip_prefix("//"));
            comment.is_some_and(|comment| comment.trim_start().starts_with(what))
        })
    };
    if says(ALONE) {
        Place::Alone
    } else if says(EARLY) {
        Place::Early
    } else {
        Place::SideBySide
    }
}

/// As many as suit this machine and what else it does just now: each core that another program keeps busy is one less, or
/// the tests would wait for each other until their deadlines pass.
pub(super) fn suitable_side_by_side() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Where it cannot be told, the machine is taken to be idle.
    let others = machine::busy_share(LISTEN).unwrap_or(0.0);
    for_free_cores(cores, others)
}

/// `others` is the share of all cores that other programs use.
fn for_free_cores(cores: usize, others: f64) -> usize {
    let free = (1..=cores).rev().find(|free| (cores - free) as f64 >= (cores as f64 * others).round());
    (free.unwrap_or(1) * FOR_EACH_CORE).min(MOST_SIDE_BY_SIDE)
}

pub(super) fn run_all(
    places: &Places,
    environments: &Environments,
    drivers: Vec<Driver>,
    side_by_side: usize,
) -> anyhow::Result<Vec<Finished>> {
    let known = places.scratch.join(DURATIONS);
    let (alone, together): (Vec<Driver>, Vec<Driver>) =
        in_order(drivers, &read_durations(&known)).into_iter().partition(|driver| driver.place == Place::Alone);
    let run = |driver: &Driver| {
        let started = Instant::now();
        let outcome = match (driver.language, &environments.python, &environments.node) {
            (Language::Python, Ok(python), _) => python.run(places, &driver.file)?,
            (Language::Node, _, Ok(node)) => node.run(places, &driver.file)?,
            (Language::Python, Err(reason), _) | (Language::Node, _, Err(reason)) => {
                Outcome::skipped(&driver.file, reason)
            }
        };
        let finished = Finished { file: driver.file.clone(), took: started.elapsed(), outcome };
        show(places, &finished);
        Ok(finished)
    };
    let mut finished = share_out(together, side_by_side, &run)?;
    finished.extend(share_out(alone, 1, &run)?);
    write_durations(&known, &finished)?;
    Ok(finished)
}

/// Longest first, so that none is begun when the others are almost done. Files that have not run yet go before those of
/// known duration.
fn in_order(mut drivers: Vec<Driver>, known: &BTreeMap<String, f64>) -> Vec<Driver> {
    let seconds = |driver: &Driver| known.get(&driver.file).copied().unwrap_or(f64::INFINITY);
    let is_early = |driver: &Driver| driver.place == Place::Early;
    drivers.sort_by(|one, other| {
        let by_time = seconds(other).total_cmp(&seconds(one));
        by_time
            .then(is_early(other).cmp(&is_early(one)))
            .then(other.size.cmp(&one.size))
            .then(one.file.cmp(&other.file))
    });
    drivers
}

/// Lets `threads` threads take one job after the other, half of them from the front and half from the back: the long ones,
/// which are in front, would start too many programs at once if all of them began together. The first job that could not be
/// carried out at all ends it, after those that have begun.
fn share_out<J: Send, T: Send>(
    jobs: Vec<J>,
    threads: usize,
    run: &(impl Fn(&J) -> anyhow::Result<T> + Sync),
) -> anyhow::Result<Vec<T>> {
    let waiting = Mutex::new(VecDeque::from(jobs));
    let next = |thread: usize| {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_multiple_of(2) { waiting.pop_front() } else { waiting.pop_back() }
    };
    let work = &|thread: usize| {
        let mut done = Vec::new();
        while let Some(job) = next(thread) {
            match run(&job) {
                Ok(result) => done.push(result),
                Err(error) => {
                    // Whoever comes next finds nothing left to do.
                    while next(thread).is_some() {}
                    return Err(error);
                }
            }
        }
        Ok(done)
    };
    let results = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|thread| scope.spawn(move || work(thread))).collect();
        workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for result in results {
        all.extend(result.map_err(|_panic| anyhow::anyhow!("a thread that runs drivers panicked"))??);
    }
    Ok(all)
}

/// One line for a file that passed; for one that did not, what it printed last as well.
fn show(places: &Places, finished: &Finished) {
    let Finished { file, took, outcome } = finished;
    let Counts { passed, failed, skipped } = outcome.counts();
    let mut lines =
        vec![format!("{:>7.1} s  {file}: {passed} passed, {failed} failed, {skipped} skipped", took.as_secs_f64())];
    if failed > 0 {
        let log = places.log_of(file);
        let text = std::fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let all: Vec<&str> = text.lines().collect();
        let tail = all.get(all.len().saturating_sub(SHOWN_LINES)..).unwrap_or_default();
        lines.push(format!("--- output of {file}; all of it is in {}", log.display()));
        lines.extend(tail.iter().map(|line| (*line).to_owned()));
        lines.push(format!("--- end of the output of {file}"));
        lines.extend(outcome.failed.iter().map(|name| format!("FAILED {name}")));
    }
    lines.extend(outcome.skipped.iter().map(|reason| format!("skipped {reason}")));
    // In one piece, because other threads speak too.
    say!("{}", lines.join("\n"));
}

/// Nothing where no run has ended yet: the order is then by size.
fn read_durations(path: &Path) -> BTreeMap<String, f64> {
    std::fs::read_to_string(path).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn write_durations(path: &Path, finished: &[Finished]) -> anyhow::Result<()> {
    let seconds: BTreeMap<&str, f64> =
        finished.iter().map(|driver| (driver.file.as_str(), driver.took.as_secs_f64())).collect();
    std::fs::write(path, serde_json::to_string_pretty(&seconds)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
