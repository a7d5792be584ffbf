//! How busy the processors are, whoever uses them. Linux only; elsewhere nothing is known of it.

use std::time::Duration;

use anyhow::Context;

/// The share of all processors that was in use while this waited, by whomever.
pub(crate) fn busy_share(span: Duration) -> anyhow::Result<f64> {
    let look = || {
        let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        parse_busy(&stat).context("`/proc` tells nothing of the processors")
    };
    let before = look()?;
    std::thread::sleep(span);
    let after = look()?;
    let total = after.total.saturating_sub(before.total).max(1);
    Ok(after.busy.saturating_sub(before.busy) as f64 / total as f64)
}

/// Clock ticks of all processors together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    total: u64,
}

fn parse_busy(stat: &str) -> Option<Ticks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // User, nice, system, idle, waiting for a disk, interrupts, taken by the machine's host; guests count as user.
    let [user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen, ..] = ticks.as_slice() else {
        return None;
    };
    let busy = user + nice + system + interrupts + soft_interrupts + stolen;
    Some(Ticks { busy, total: busy + idle + waiting })
}

#[cfg(test)]
mod tests;
