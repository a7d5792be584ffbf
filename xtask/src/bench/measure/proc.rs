//! What the kernel says of a process. Linux only; elsewhere the rows that need it say that they could not measure.

use std::time::{Duration, Instant};

use anyhow::Context;

/// Clock ticks per second in `/proc`, the same on every Linux whatever the kernel uses inside.
const TICKS: u64 = 100;

/// Memory in use, in bytes.
pub(super) fn resident(pid: u32) -> anyhow::Result<u64> {
    parse_size(&read(pid, "status")?, "VmRSS:").context("`/proc` tells no resident size")
}

/// The same in megabytes, as it is shown.
pub(super) fn megabytes(pid: u32) -> anyhow::Result<f64> {
    Ok(resident(pid)? as f64 / 1e6)
}

/// How long a process may take to give freed memory back to the system.
pub(super) const RETURN_TIME: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Memory in use, in bytes, as soon as it is `enough` or less, and at the latest after `RETURN_TIME`.
pub(super) fn resident_after_return(pid: u32, enough: u64) -> anyhow::Result<u64> {
    let started = Instant::now();
    loop {
        let seen = resident(pid)?;
        if seen <= enough || started.elapsed() >= RETURN_TIME {
            return Ok(seen);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The most memory that was ever in use, in bytes.
pub(super) fn peak(pid: u32) -> anyhow::Result<u64> {
    parse_size(&read(pid, "status")?, "VmHWM:").context("`/proc` tells no largest size")
}

/// Time spent on processors so far, by all threads, in the process and in the kernel for it.
pub(super) fn processor_time(pid: u32) -> anyhow::Result<Duration> {
    parse_processor_time(&read(pid, "stat")?).context("`/proc` tells no processor time")
}

/// Files this process may have open.
pub(super) fn file_limit() -> anyhow::Result<u64> {
    parse_file_limit(&read(std::process::id(), "limits")?).context("`/proc` tells no limit on open files")
}

fn read(pid: u32, name: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{pid}/{name}");
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

fn parse_size(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn parse_processor_time(stat: &str) -> Option<Duration> {
    // The program's name is in parentheses and may itself hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let total = ticks()? + ticks()?;
    Some(Duration::from_millis(total * 1000 / TICKS))
}

fn parse_file_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

#[cfg(test)]
mod tests;
