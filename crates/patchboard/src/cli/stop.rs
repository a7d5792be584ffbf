//! `patchboard stop`: signals the server of a data directory and waits until it has stopped.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use patchboard_config::types::TimeSpan;
use rustix::process::Signal;

use super::ConfigLocation;
use super::failure::CommandFailure;
use crate::data_dir::process::{self, ProcessRecord, ProcessRole, ProcessState};
use crate::data_dir::{self};
use crate::output;
use signal::ProcessHandle;

mod signal;

/// Time a server needs after the drain to close its connections and files.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(15);
/// How long a killed process may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the process is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a process may hold a data directory before its record is written.
const RECORD_TIMEOUT: Duration = Duration::from_secs(1);

/// Exit codes: 0 stopped, or none was running; 1 still running, or not to be signalled; 2 usage.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    place: ConfigLocation,
    /// How long to wait, such as 30s. Left out, as long as the server gives running work (`drain`), and a little more.
    #[arg(long, value_name = "TIME")]
    timeout: Option<TimeSpan>,
    /// Do not wait for running work. Runs resume at the next start; chat turns end as interrupted.
    #[arg(long)]
    now: bool,
    /// Kill the process if it is still there after the wait.
    #[arg(long)]
    kill: bool,
}

pub(super) fn run(args: StopArgs) -> Result<ExitCode, CommandFailure> {
    let data_dir = args.place.find_data_dir()?;
    let Some((lock, record)) = find_running(&data_dir)? else {
        output::print_line(&format!("no server runs on `{}`: nothing to stop", data_dir.display()));
        return Ok(ExitCode::SUCCESS);
    };
    let pid = record.pid;
    // Opened before the checks, so that the pid cannot be reused in between.
    let process = ProcessHandle::open(pid).map_err(|error| unreachable(pid, &error))?;
    verify_process(&record, &lock, &data_dir)?;
    if record.state == ProcessState::Stopping {
        output::eprint_line(&format!("the server with pid {pid} is stopping already"));
    }
    for signal in signals_to_send(record.state, args.now) {
        process.signal(signal).map_err(|error| unreachable(pid, &error))?;
    }
    let timeout = args.timeout.map_or_else(|| record.drain() + SHUTDOWN_GRACE, Duration::from);
    if wait(&data_dir, &record, timeout) {
        return Ok(report_stopped(&data_dir, &record, args.now));
    }
    if args.kill {
        output::eprint_line(&format!("the server with pid {pid} did not stop in time and is killed"));
        process.signal(Signal::KILL).map_err(|error| unreachable(pid, &error))?;
        if wait(&data_dir, &record, KILL_TIMEOUT) {
            output::print_line("killed; what was under way goes on, or is closed as interrupted, at the next start");
            return Ok(ExitCode::SUCCESS);
        }
    }
    Err(CommandFailure::failed(format!("the server with pid {pid} is still stopping{}", remaining(&data_dir)))
        .hint("wait on with `patchboard stop`, or do not let running work end: `patchboard stop --now`"))
}

/// The process that holds the data directory; `None` if there is none.
fn find_running(data_dir: &Path) -> Result<Option<(File, ProcessRecord)>, CommandFailure> {
    let deadline = Instant::now() + RECORD_TIMEOUT;
    loop {
        let Some(lock) = data_dir::lock_held_elsewhere(data_dir) else { return Ok(None) };
        if let Some(record) = data_dir::find_process(data_dir) {
            return Ok(Some((lock, record)));
        }
        if Instant::now() >= deadline {
            let message = format!("a process uses `{}` and is not on record there", data_dir.display());
            return Err(CommandFailure::failed(message)
                .hint(format!("nothing was signalled; `fuser {}` shows which one it is", lock_path(data_dir))));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn verify_process(record: &ProcessRecord, lock: &File, data_dir: &Path) -> Result<(), CommandFailure> {
    if let Some(refusal) = record.signal_refusal(lock) {
        return Err(CommandFailure::failed(format!("what is on record is not the server: {refusal}"))
            .hint(format!("nothing was signalled; `fuser {}` shows the server's process", lock_path(data_dir))));
    }
    match record.role {
        ProcessRole::Server => Ok(()),
        ProcessRole::Command => {
            let message = format!("process {} is another command, with a server of its own", record.pid);
            Err(CommandFailure::failed(message)
                .hint("nothing was signalled; end that command, and its server ends with it"))
        }
    }
}

fn lock_path(data_dir: &Path) -> String {
    data_dir.join("lock").display().to_string()
}

/// Two different signals for an immediate stop, as two pending signals of one kind are merged.
fn signals_to_send(state: ProcessState, now: bool) -> Vec<Signal> {
    match (state, now) {
        (ProcessState::Starting | ProcessState::Ready, false) => vec![Signal::TERM],
        (ProcessState::Starting | ProcessState::Ready, true) => vec![Signal::TERM, Signal::INT],
        (ProcessState::Stopping, false) => Vec::new(),
        (ProcessState::Stopping, true) => vec![Signal::INT],
    }
}

/// Prints the progress while waiting; returns whether the process has ended.
fn wait(data_dir: &Path, record: &ProcessRecord, timeout: Duration) -> bool {
    let until = Instant::now() + timeout;
    let mut reported = None;
    while record.is_alive() {
        let active = runs_left(data_dir).filter(|active| *active > 0);
        if active != reported
            && let Some(active) = active
        {
            output::eprint_line(&format!("stopping: waiting for {}", active_work(active)));
        }
        reported = active.or(reported);
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
    true
}

fn runs_left(data_dir: &Path) -> Option<usize> {
    data_dir::find_process(data_dir)?.runs_left
}

fn remaining(data_dir: &Path) -> String {
    match runs_left(data_dir) {
        Some(active @ 1..) => format!(": {}", active_work(active)),
        Some(0) | None => String::new(),
    }
}

fn active_work(runs: usize) -> String {
    match runs {
        1 => "1 turn or run at work".to_owned(),
        runs => format!("{runs} turns and runs at work"),
    }
}

fn report_stopped(data_dir: &Path, record: &ProcessRecord, now: bool) -> ExitCode {
    let pid = record.pid;
    let Some(stop) = process::last_stop(data_dir).filter(|stop| stop.pid == pid && stop.at >= record.started_at) else {
        if now {
            output::print_line(
                "stopped at once; what was under way goes on, or is closed as interrupted, at the next start",
            );
            return ExitCode::SUCCESS;
        }
        output::eprint_line(&format!("the process {pid} is gone and did not say that it stopped in order"));
        output::eprint_line("hint: `patchboard logs` shows its last lines");
        return ExitCode::FAILURE;
    };
    output::print_line("stopped");
    if stop.cancelled > 0 {
        output::print_line(&format!("did not end in time and were cancelled: {}", stop.cancelled));
    }
    if stop.suspended > 0 {
        output::print_line(&format!("did not end in time and go on at the next start: {}", stop.suspended));
    }
    ExitCode::SUCCESS
}

fn unreachable(pid: u32, error: &std::io::Error) -> CommandFailure {
    let failure = CommandFailure::failed(format!("process {pid} cannot be signalled: {error}"));
    match error.kind() == std::io::ErrorKind::PermissionDenied {
        true => failure.hint("it belongs to another user: stop it as that user or root"),
        false => failure,
    }
}

#[cfg(test)]
mod tests;
