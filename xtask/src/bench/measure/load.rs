//! Many clients at once, and two sides in turn.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;

use super::proc;

/// Which side of a comparison is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Product,
    Baseline,
}

/// Both sides as often, each first as often, so that a machine that slows down slows both.
pub(super) fn in_turn(rounds: usize) -> impl Iterator<Item = Side> {
    (0..rounds).flat_map(|round| match round % 2 {
        0 => [Side::Product, Side::Baseline],
        _ => [Side::Baseline, Side::Product],
    })
}

/// Opens clients a few at a time, so that no queue of connections overflows.
pub(super) async fn open<C, F>(count: usize, connect: impl Fn(usize) -> F) -> anyhow::Result<Vec<C>>
where
    C: Send + 'static,
    F: Future<Output = anyhow::Result<C>> + Send + 'static,
{
    const AT_ONCE: usize = 64;
    let mut clients = Vec::with_capacity(count);
    for first in (0..count).step_by(AT_ONCE) {
        let mut opening: JoinSet<_> = (first..count.min(first + AT_ONCE)).map(&connect).collect();
        while let Some(opened) = opening.join_next().await {
            clients.push(opened.context("a client was lost")??);
        }
    }
    Ok(clients)
}

/// What all clients did together, and how long it took.
#[derive(Debug)]
pub(super) struct Done<T> {
    pub(super) results: Vec<T>,
    pub(super) took: Duration,
}

/// Lets every client work on a task of its own; the clients are put back.
pub(super) async fn all<C, T, F>(clients: &mut Vec<C>, work: impl Fn(C) -> F) -> anyhow::Result<Done<T>>
where
    C: Send + 'static,
    T: Send + 'static,
    F: Future<Output = anyhow::Result<(C, T)>> + Send + 'static,
{
    let started = Instant::now();
    let mut working: JoinSet<_> = clients.drain(..).map(work).collect();
    let mut results = Vec::new();
    while let Some(worked) = working.join_next().await {
        let (client, result) = worked.context("a client was lost")??;
        clients.push(client);
        results.push(result);
    }
    Ok(Done { results, took: started.elapsed() })
}

/// A process's time on processors, and what was done with it.
#[derive(Debug)]
pub(super) struct Effort {
    pid: u32,
    spent: Duration,
    items: u64,
}

impl Effort {
    pub(super) fn of(pid: u32) -> Effort {
        Effort { pid, spent: Duration::ZERO, items: 0 }
    }

    /// The process's clock now; elsewhere than on Linux it stands still.
    pub(super) fn clock(&self) -> Duration {
        proc::processor_time(self.pid).unwrap_or_default()
    }

    pub(super) fn add(&mut self, since: Duration, items: u64) {
        self.spent += self.clock().saturating_sub(since);
        self.items += items;
    }

    /// Microseconds of processor time for each item.
    pub(super) fn each(&self) -> f64 {
        self.spent.as_secs_f64() * 1e6 / self.items.max(1) as f64
    }
}

#[cfg(test)]
mod tests;
