//! The descendants of a command, and how they are killed.

use std::collections::HashSet;
use std::time::Duration;

use patchboard_core::backoff::{Backoff, BackoffSchedule};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group};

/// Further descendants are left to the next pass.
const MAX_DESCENDANTS: usize = 100_000;
const MIN_PAUSE: Duration = Duration::from_micros(200);
const KILL_BACKOFF: BackoffSchedule = BackoffSchedule::doubling(MIN_PAUSE, Duration::from_millis(20));
/// How often the processes of a session are looked for.
const SESSION_PASSES: usize = 50;

/// Reaps children that ended and passes each to `ended`. Returns true if children are left.
pub(super) fn reap(mut ended: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(pid, status),
            Ok(None) => return true,
            Err(Errno::INTR) => {}
            // `ECHILD`; no other error is possible.
            Err(_) => return false,
        }
    }
}

/// Kills every descendant of this process and returns when none is left. The process must be a subreaper: orphans
/// become its children, so no children means no descendants. With `is_first`, this process is the first of a PID
/// namespace and can kill all others in it with one call.
pub(super) fn kill_descendants(is_first: bool, mut ended: impl FnMut(Pid, WaitStatus)) {
    let mut backoff = Backoff::new(KILL_BACKOFF);
    loop {
        if is_first {
            // Sent by pid 1, this signals every process but pid 1. It fails if there is no other process.
            kill_process_group(Pid::INIT, Signal::KILL).unwrap_or(());
        } else {
            kill_with_groups(&descendants());
        }
        if !reap(&mut ended) {
            return;
        }
        // Processes need a moment to die, and those that were born during the pass are found in the next one.
        std::thread::sleep(backoff.next_delay());
    }
}

/// Kills the processes of a session whose supervisor is gone. Processes that left the session can no longer be found.
pub(super) fn kill_session(session: Pid) {
    for _ in 0..SESSION_PASSES {
        let is_member = |pid: &Pid| ProcessStat::read(*pid).is_some_and(|stat| stat.session == Some(session));
        let members: Vec<Pid> = processes().filter(is_member).collect();
        if members.is_empty() {
            return;
        }
        kill_with_groups(&members);
        std::thread::sleep(MIN_PAUSE);
    }
}

/// Kills ancestors first, so that no parent can react to a child's exit. Groups are signalled as a whole, so that a
/// process that keeps forking and exiting cannot escape. The groups of descendants contain no other processes, because
/// a group stays within a session, and their sessions start at the supervisor's.
fn kill_with_groups(pids: &[Pid]) {
    // Read from `/proc`, which reports a group that began outside this PID namespace as none, not as an invalid pid.
    let mut signalled: HashSet<Pid> = ProcessStat::read(getpid()).and_then(|stat| stat.group).into_iter().collect();
    for pid in pids {
        // A process that has already exited is skipped.
        if let Some(group) = ProcessStat::read(*pid).and_then(|stat| stat.group)
            && signalled.insert(group)
        {
            kill_process_group(group, Signal::KILL).unwrap_or(());
        }
        kill_process(*pid, Signal::KILL).unwrap_or(());
    }
}

fn descendants() -> Vec<Pid> {
    with_descendants(children(getpid()).unwrap_or_else(children_by_scan))
}

/// The descendants of another process, as far as the kernel lists children.
pub(crate) fn descendants_of(process: Pid) -> Vec<Pid> {
    with_descendants(children(process).unwrap_or_default())
}

/// Finds the descendant of a supervisor with this pid in the PID namespace that the supervisor made. `None` if it is
/// gone or the kernel does not list children.
pub(crate) fn outer_pid(supervisor: u32, number: u32) -> Option<u32> {
    let supervisor = supervisor.try_into().ok().and_then(Pid::from_raw)?;
    // The jail's namespace is one level below the supervisor's; there may be deeper ones.
    let depth = namespace_pids(supervisor)?.len();
    let has_inner_pid = |pid: &Pid| namespace_pids(*pid).is_some_and(|numbers| numbers.get(depth) == Some(&number));
    descendants_of(supervisor).into_iter().find(has_inner_pid)?.as_raw_pid().try_into().ok()
}

/// The pids of a process, from this namespace to the innermost.
fn namespace_pids(process: Pid) -> Option<Vec<u32>> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid())).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
}

fn with_descendants(mut found: Vec<Pid>) -> Vec<Pid> {
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        if found.len() < MAX_DESCENDANTS {
            found.extend(children(pid).unwrap_or_default());
        }
    }
    found
}

/// `None` if the kernel does not provide such lists or the process is gone.
fn children(parent_pid: Pid) -> Option<Vec<Pid>> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", parent_pid.as_raw_pid())).ok()?.flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let found = lists.iter().flat_map(|list| list.split_ascii_whitespace().filter_map(parse_pid)).collect();
    (!lists.is_empty()).then_some(found)
}

/// The same by a scan of all processes; includes indirect descendants.
fn children_by_scan() -> Vec<Pid> {
    let parents: Vec<(Pid, Pid)> = processes().filter_map(|pid| Some((pid, ProcessStat::read(pid)?.parent?))).collect();
    let mut found = vec![getpid()];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        found.extend(parents.iter().filter(|(_, parent_pid)| *parent_pid == parent).map(|(pid, _)| *pid));
    }
    found.split_off(1)
}

fn processes() -> impl Iterator<Item = Pid> {
    let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    listed.filter_map(|entry| entry.file_name().to_str().and_then(parse_pid))
}

/// Parent, group and session of a process; `None` for those of the kernel's own threads.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    parent: Option<Pid>,
    group: Option<Pid>,
    session: Option<Pid>,
}

impl ProcessStat {
    fn read(process: Pid) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())).ok()?;
        // The program's name stands in parentheses and may contain anything; the state and the numbers follow.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut numbers = rest.split_ascii_whitespace().skip(1).map(parse_pid);
        Some(Self { parent: numbers.next()?, group: numbers.next()?, session: numbers.next()? })
    }
}

fn parse_pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests;
