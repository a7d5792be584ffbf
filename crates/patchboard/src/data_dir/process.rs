//! The record of the process that holds a data directory, and the check that a process is really the recorded one, as
//! its pid may have been reused.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A record has a few hundred bytes; a larger file is not one.
const MAX_RECORD: u64 = 64 * 1024;
/// Name of the record in the data directory.
pub(crate) const PROCESS_RECORD: &str = "process.json";
/// Name of the file that an orderly shutdown leaves.
pub(crate) const LAST_STOP: &str = "last-stop";

/// The process that holds a data directory, written from the lock's acquisition to its release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessRecord {
    pub(crate) pid: u32,
    /// The kernel's start time of the process, in ticks: together with the pid unique until the machine restarts.
    /// `None` if the kernel does not provide it.
    pub(crate) started_tick: Option<u64>,
    /// RFC 3339.
    pub(crate) started_at: String,
    pub(crate) version: String,
    pub(crate) role: ProcessRole,
    pub(crate) state: ProcessState,
    /// The drain timeout of a shutdown.
    pub(crate) drain_ms: u64,
    /// Active runs during the shutdown.
    pub(crate) runs_left: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProcessRole {
    /// `patchboard serve`
    Server,
    /// Another command with an embedded server, for the command's duration.
    Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProcessState {
    Starting,
    Ready,
    Stopping,
}

impl ProcessState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
        }
    }
}

/// The outcome of an orderly shutdown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastStop {
    pub(crate) pid: u32,
    /// RFC 3339.
    pub(crate) at: String,
    /// Chat turns that did not end in time.
    pub(crate) cancelled: usize,
    /// Runs that go on at the next start.
    pub(crate) suspended: usize,
}

impl ProcessRecord {
    pub(crate) fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }

    /// Whether the process is alive and the one that wrote this record.
    pub(crate) fn is_alive(&self) -> bool {
        match (started_tick(self.pid), self.started_tick) {
            (Some(now), Some(then)) => now == then,
            (None, Some(_)) => false,
            // The kernel provides no start time, only that the pid exists.
            (_, None) => process_exists(self.pid),
        }
    }

    /// Why the process must not be signalled, or `None`. `lock` is the lock file of the data directory.
    pub(crate) fn signal_refusal(&self, lock: &File) -> Option<String> {
        let pid = self.pid;
        if !self.is_alive() {
            return Some(format!("process {pid} is another program now, or gone"));
        }
        let holders = lock_holders(lock);
        if holders.is_empty() || holders.contains(&pid) {
            return None;
        }
        let holders: Vec<String> = holders.iter().map(u32::to_string).collect();
        Some(format!("process {pid} does not hold the lock of the data directory; process {} does", holders.join(", ")))
    }
}

/// Reads the record, whether or not its process is alive.
pub(super) fn read_record(data_dir: &Path) -> Option<ProcessRecord> {
    read_json(&data_dir.join(PROCESS_RECORD))
}

pub(crate) fn last_stop(data_dir: &Path) -> Option<LastStop> {
    read_json(&data_dir.join(LAST_STOP))
}

fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Option<T> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_RECORD).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// The kernel's start time of a process; `None` if it has ended or is a zombie.
#[cfg(target_os = "linux")]
pub(crate) fn started_tick(pid: u32) -> Option<u64> {
    parse_start_tick(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn started_tick(_: u32) -> Option<u64> {
    None
}

/// Parses `/proc/PID/stat`. The program's name may contain any character, so fields are counted from its end.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no /proc elsewhere"))]
fn parse_start_tick(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // Field 3; `Z` and `X` mark a process that has ended.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    // Field 22.
    fields.nth(18)?.parse().ok()
}

fn process_exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// Processes that hold a lock on the file, as far as the kernel reports them. Devices are not compared: on some file
/// systems the device number of the file differs from that of its lock.
fn lock_holders(lock: &File) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt;
    let Ok(inode) = lock.metadata().map(|found| found.ino()) else { return Vec::new() };
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    holders_in(&locks, inode)
}

/// Parses lines such as `1: FLOCK  ADVISORY  WRITE 4711 08:01:123456 0 EOF`.
fn holders_in(locks: &str, inode: u64) -> Vec<u32> {
    let holder = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, file, ..] = fields[..] else { return None };
        let (_, of_file) = file.rsplit_once(':')?;
        (of_file.parse() == Ok(inode)).then(|| pid.parse().ok())?
    };
    locks.lines().filter_map(holder).collect()
}

#[cfg(test)]
mod tests;
