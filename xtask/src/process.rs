//! Runs a child: with its output shown as it comes and each line handed to the caller, or with its output in a file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::output::say;

/// Lines read but not yet shown; a full queue makes the child wait.
const QUEUED_LINES: usize = 1024;
const POLL: Duration = Duration::from_millis(50);
/// How long output is still awaited from a grandchild that outlives the child and holds its pipes.
const GRACE_AFTER_EXIT: Duration = Duration::from_secs(2);
/// How long a child may clean up after it was asked to stop, before it is killed.
const GRACE_AFTER_TERM: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    Success,
    /// It ended by itself and was not content.
    Failure(String),
    /// It was stopped because it took longer than this.
    TimedOut(Duration),
}

/// Runs to the end without a time limit.
pub(crate) fn watch(command: &mut Command, observe: &mut dyn FnMut(&str)) -> anyhow::Result<Ended> {
    watch_until(command, Duration::MAX, observe)
}

/// Runs to the end, or for `limit`: then the child is asked to stop (SIGTERM) and soon after made to.
/// `observe` sees every line of stdout and stderr without colour codes and line end.
pub(crate) fn watch_until(
    command: &mut Command,
    limit: Duration,
    observe: &mut dyn FnMut(&str),
) -> anyhow::Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{name}`"))?;
    let lines = read_lines(&mut child);

    let mut asked_to_stop: Option<Instant> = None;
    let mut exited: Option<Instant> = None;
    loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => {
                say!("{line}");
                observe(&without_colour(&line));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if child.try_wait().context("cannot wait for a child")?.is_some()
                    && exited.get_or_insert_with(Instant::now).elapsed() > GRACE_AFTER_EXIT
                {
                    break;
                }
            }
        }
        match asked_to_stop {
            None if started.elapsed() > limit => {
                say!("`{name}` took longer than {} s: stopping it", limit.as_secs());
                ask_to_stop(&mut child);
                asked_to_stop = Some(Instant::now());
            }
            Some(since) if since.elapsed() > GRACE_AFTER_TERM => {
                // The child may just have ended, and then there is nothing to kill.
                child.kill().ok();
                break;
            }
            None | Some(_) => {}
        }
    }

    let status = child.wait().context("cannot wait for a child")?;
    Ok(ended(asked_to_stop.map(|_| limit), status))
}

/// Runs to the end, or for `limit`, with stdout and stderr in the file `log`, which is made anew. For children that run side
/// by side, whose lines would mix on a terminal.
pub(crate) fn run_logged(command: &mut Command, limit: Duration, log: &Path) -> anyhow::Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let errors = output.try_clone().context("cannot share a log file")?;
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .with_context(|| format!("cannot start `{name}`"))?;
    let mut asked_to_stop: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a child")? {
            return Ok(ended(asked_to_stop.map(|_| limit), status));
        }
        match asked_to_stop {
            None if started.elapsed() > limit => {
                ask_to_stop(&mut child);
                asked_to_stop = Some(Instant::now());
            }
            Some(since) if since.elapsed() > GRACE_AFTER_TERM => {
                // The child may just have ended, and then there is nothing to kill.
                child.kill().ok();
            }
            None | Some(_) => {}
        }
        std::thread::sleep(POLL);
    }
}

fn ended(limit_passed: Option<Duration>, status: ExitStatus) -> Ended {
    match (limit_passed, status.success()) {
        (Some(limit), _) => Ended::TimedOut(limit),
        (None, true) => Ended::Success,
        (None, false) => Ended::Failure(status.to_string()),
    }
}

/// SIGTERM through the `kill` program: the standard library can only kill outright, and this file is no place for unsafe.
pub(crate) fn ask_to_stop(child: &mut Child) {
    let asked = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    if !asked.is_ok_and(|status| status.success()) {
        child.kill().ok();
    }
}

fn read_lines(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = sync_channel(QUEUED_LINES);
    if let Some(stdout) = child.stdout.take() {
        forward(stdout, sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        forward(stderr, sender);
    }
    receiver
}

fn forward(pipe: impl Read + Send + 'static, sender: SyncSender<String>) {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut buffer = Vec::new();
        while reader.read_until(b'\n', &mut buffer).is_ok_and(|read| read > 0) {
            let line = String::from_utf8_lossy(&buffer);
            if sender.send(line.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
                return;
            }
            buffer.clear();
        }
    });
}

/// The text without ANSI control sequences.
fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(character) = rest.next() {
        if character != '\u{1b}' {
            plain.push(character);
            continue;
        }
        if rest.next() == Some('[') {
            // A sequence ends with its first character from `@` to `~`.
            rest.by_ref().find(|end| ('@'..='~').contains(end));
        }
    }
    plain
}

#[cfg(test)]
mod tests;
