//! The ports that workers call back on, and are called on where they have no Unix socket: one block, fixed when the
//! server starts, so that every jail can be closed to all of them but its own.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpSocket;

/// Ports of a worker that has no Unix socket: one it calls back on, one it is called on.
pub(super) const PORTS_PER_WORKER: usize = 2;
/// Below are the ports that databases and web servers of any machine have. A jail that is closed to a port is closed to it
/// on every machine.
const LOWEST_PORT: u16 = 10_000;
/// Where the kernel does not say: the range that is set aside for outgoing connections.
const DEFAULT_EPHEMERAL: RangeInclusive<u16> = 49_152..=65_535;
const EPHEMERAL_FILE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Ports to lease. Clones share them.
#[derive(Debug, Clone)]
pub struct PortBlock(Arc<PortBlockState>);

#[derive(Debug)]
struct PortBlockState {
    /// With the one that only marks the block as taken.
    all: Vec<u16>,
    /// The one that was given back last is leased last.
    free: Mutex<VecDeque<u16>>,
    /// What is said when there is none left.
    exhausted: String,
    _claim: BlockClaim,
}

/// What keeps others from having the same ports.
#[derive(Debug)]
enum BlockClaim {
    /// Bound and not listening, as a sign for other servers of this machine.
    BoundSocket { _socket: TcpSocket },
    /// It is part of another block.
    ParentLease { _lease: PortLease },
    /// Others may.
    Unclaimed,
}

/// Ports that nobody else has, until this is dropped.
#[derive(Debug)]
pub(super) struct PortLease {
    ports: Vec<u16>,
    block: Arc<PortBlockState>,
}

impl PortBlock {
    /// Finds `count` free ports in a row, and one more. Where there is room, they lie outside the range from which the
    /// kernel takes ports of outgoing connections; otherwise inside, from its end. None of `avoid` is among them. The
    /// first free block is taken, so that the same machine gives the same one. `Err` is in words.
    pub fn choose(count: u16, avoid: &[u16]) -> Result<Self, String> {
        for candidate in candidates(count.saturating_add(1), &ephemeral_range()) {
            let is_free = |port: u16| !avoid.contains(&port) && is_free(port);
            if !candidate.clone().all(is_free) {
                continue;
            }
            let claim = TcpSocket::new_v4().map_err(|error| format!("cannot make a socket: {error}"))?;
            // Another server may have been faster.
            if claim.bind((Ipv4Addr::LOCALHOST, *candidate.start()).into()).is_err() {
                continue;
            }
            let all: Vec<u16> = candidate.collect();
            let free = all.iter().copied().skip(1).collect();
            return Ok(Self::from_parts(
                all,
                free,
                exhausted_message(count),
                BlockClaim::BoundSocket { _socket: claim },
            ));
        }
        Err(format!("there are no {count} free ports in a row on 127.0.0.1 for workers: lower `bridge.private_ports`"))
    }

    /// Exactly these, whoever else may have them.
    pub fn from_range(ports: RangeInclusive<u16>) -> Self {
        let all: Vec<u16> = ports.collect();
        let (free, count) = (all.iter().copied().collect(), u16::try_from(all.len()).unwrap_or(u16::MAX));
        Self::from_parts(all, free, exhausted_message(count), BlockClaim::Unclaimed)
    }

    /// Leases what was leased to others in turn. `exhausted` is said when there is none left.
    pub(super) fn from_lease(lease: PortLease, exhausted: String) -> Self {
        let all = lease.ports.clone();
        let free = all.iter().copied().collect();
        Self::from_parts(all, free, exhausted, BlockClaim::ParentLease { _lease: lease })
    }

    fn from_parts(all: Vec<u16>, free: VecDeque<u16>, exhausted: String, held: BlockClaim) -> Self {
        Self(Arc::new(PortBlockState { all, free: Mutex::new(free), exhausted, _claim: held }))
    }

    /// All of them, leased or not.
    pub fn ports(&self) -> &[u16] {
        &self.0.all
    }

    /// Ports that nobody listens on now. `Err` is a sentence that says what to do.
    pub(super) fn lease(&self, count: usize) -> Result<PortLease, String> {
        let mut lease = PortLease { ports: Vec::with_capacity(count), block: self.0.clone() };
        let mut free = self.0.free();
        for _ in 0..free.len() {
            if lease.ports.len() == count {
                break;
            }
            let Some(port) = free.pop_front() else { break };
            match is_free(port) {
                true => lease.ports.push(port),
                // Somebody else's for now.
                false => free.push_back(port),
            }
        }
        drop(free);
        if lease.ports.len() == count { Ok(lease) } else { Err(self.0.exhausted.clone()) }
    }
}

impl PortLease {
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// What the worker calls back on.
    pub(super) fn callback_port(&self) -> u16 {
        self.ports.first().copied().unwrap_or_default()
    }

    /// What it is called on; 0 where it needs none.
    pub(super) fn worker_port(&self) -> u16 {
        self.ports.get(1).copied().unwrap_or_default()
    }
}

impl Drop for PortLease {
    fn drop(&mut self) {
        self.block.free().extend(self.ports.drain(..));
    }
}

impl PortBlockState {
    fn free(&self) -> MutexGuard<'_, VecDeque<u16>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn exhausted_message(count: u16) -> String {
    format!(
        "all {count} ports of `bridge.private_ports` are in use, and each worker takes {PORTS_PER_WORKER}: raise it, or \
         have fewer workers"
    )
}

/// Blocks of that length in the order in which they are tried.
fn candidates(length: u16, ephemeral: &RangeInclusive<u16>) -> Vec<RangeInclusive<u16>> {
    let length = u32::from(length.max(1));
    let (first, last) = (u32::from(*ephemeral.start()), u32::from(*ephemeral.end()));
    let (lowest, highest) = (u32::from(LOWEST_PORT), u32::from(u16::MAX));
    let mut starts = Vec::new();
    let mut start = (last + 1).max(lowest);
    while start + length - 1 <= highest {
        starts.push(start);
        start += length;
    }
    // From the end of each range downwards.
    let mut down = |from: u32, to: u32| {
        let mut end = from;
        while end + 1 >= to + length {
            starts.push(end + 1 - length);
            end -= length;
        }
    };
    down(first.saturating_sub(1), lowest);
    down(last, first.max(lowest));
    let block = |start: u32| Some(u16::try_from(start).ok()?..=u16::try_from(start + length - 1).ok()?);
    starts.into_iter().filter_map(block).collect()
}

/// From which the kernel takes ports of outgoing connections.
fn ephemeral_range() -> RangeInclusive<u16> {
    std::fs::read_to_string(EPHEMERAL_FILE).ok().and_then(|text| parse_range(&text)).unwrap_or(DEFAULT_EPHEMERAL)
}

fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    match (numbers.next()?, numbers.next()?) {
        (Ok(first), Ok(last)) if first <= last => Some(first..=last),
        _ => None,
    }
}

/// As a server would bind it: connections that ended a moment ago are no obstacle.
fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests;
