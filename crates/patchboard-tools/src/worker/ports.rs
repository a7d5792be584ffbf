//! The ports that workers call back on, and the ports of workers without a Unix socket: one block, fixed at server
//! start, so that each jail can be closed to all of them but its own.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpSocket;

/// A worker without a Unix socket needs two ports: one for callbacks, one for calls to it.
pub(super) const PORTS_PER_WORKER: usize = 2;
/// Databases and web servers of any machine use ports below this, and a port that is closed to a jail is closed on
/// every host it connects to.
const MIN_PORT: u16 = 10_000;
/// Fallback if the kernel does not report its range: the IANA range of dynamic ports.
const DEFAULT_EPHEMERAL: RangeInclusive<u16> = 49_152..=65_535;
const EPHEMERAL_FILE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Ports to lease. Clones share the block.
#[derive(Debug, Clone)]
pub struct PortBlock(Arc<PortBlockState>);

#[derive(Debug)]
struct PortBlockState {
    /// Includes the first port, which only marks the block as taken.
    all: Vec<u16>,
    /// In order of release: the port released last is leased last.
    free: Mutex<VecDeque<u16>>,
    /// The error message when no port is left.
    exhausted: String,
    _claim: BlockClaim,
}

/// What keeps other servers or pools from using the same ports.
#[derive(Debug)]
enum BlockClaim {
    /// A bound socket that does not listen, which marks the block as taken for other servers of this machine.
    BoundSocket { _socket: TcpSocket },
    /// The block is a lease of another block.
    ParentLease { _lease: PortLease },
    /// Nothing; other processes may use the ports.
    Unclaimed,
}

/// Ports leased exclusively until this is dropped.
#[derive(Debug)]
pub(super) struct PortLease {
    ports: Vec<u16>,
    block: Arc<PortBlockState>,
}

impl PortBlock {
    /// Finds `count` consecutive free ports plus one for the claim. Prefers ports outside the ephemeral range from
    /// which the kernel takes ports of outgoing connections, else takes the end of that range. Excludes `avoid`. Takes
    /// the first free block, so that the same machine yields the same one. The error is a message.
    pub fn choose(count: u16, avoid: &[u16]) -> Result<Self, String> {
        for candidate in candidates(count.saturating_add(1), &ephemeral_range()) {
            let is_free = |port: u16| !avoid.contains(&port) && is_free(port);
            if !candidate.clone().all(is_free) {
                continue;
            }
            let claim = TcpSocket::new_v4().map_err(|error| format!("cannot make a socket: {error}"))?;
            // Another server may have claimed the block in the meantime.
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

    /// Exactly these ports, without a claim.
    pub fn from_range(ports: RangeInclusive<u16>) -> Self {
        let all: Vec<u16> = ports.collect();
        let (free, count) = (all.iter().copied().collect(), u16::try_from(all.len()).unwrap_or(u16::MAX));
        Self::from_parts(all, free, exhausted_message(count), BlockClaim::Unclaimed)
    }

    /// A block that sublets a lease. `exhausted` is the error message when no port is left.
    pub(super) fn from_lease(lease: PortLease, exhausted: String) -> Self {
        let all = lease.ports.clone();
        let free = all.iter().copied().collect();
        Self::from_parts(all, free, exhausted, BlockClaim::ParentLease { _lease: lease })
    }

    fn from_parts(all: Vec<u16>, free: VecDeque<u16>, exhausted: String, held: BlockClaim) -> Self {
        Self(Arc::new(PortBlockState { all, free: Mutex::new(free), exhausted, _claim: held }))
    }

    /// All ports of the block, leased or not.
    pub fn ports(&self) -> &[u16] {
        &self.0.all
    }

    /// Leases ports that have no listener now. The error is a message with a remedy.
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
                // In use by another process for now.
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

    /// The port that the worker calls back on.
    pub(super) fn callback_port(&self) -> u16 {
        self.ports.first().copied().unwrap_or_default()
    }

    /// The port that the worker listens on; 0 if it needs none.
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

/// Candidate blocks of that length, in the order in which they are tried.
fn candidates(length: u16, ephemeral: &RangeInclusive<u16>) -> Vec<RangeInclusive<u16>> {
    let length = u32::from(length.max(1));
    let (first, last) = (u32::from(*ephemeral.start()), u32::from(*ephemeral.end()));
    let (lowest, highest) = (u32::from(MIN_PORT), u32::from(u16::MAX));
    let mut starts = Vec::new();
    let mut start = (last + 1).max(lowest);
    while start + length - 1 <= highest {
        starts.push(start);
        start += length;
    }
    // Downwards from the end of each range.
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

/// The range from which the kernel takes ports of outgoing connections.
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

/// Binds as a server would (`SO_REUSEADDR`): connections in TIME_WAIT do not make a port unavailable.
fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests;
