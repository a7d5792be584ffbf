//! When wrong tokens are answered: one a second for each address, however many connections it opens. Guessing in parallel
//! gains nothing, and whoever has the right token is never held up by others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time between two answers to one address.
const INTERVAL: Duration = Duration::from_secs(1);
/// Answers that wait for their time, for each address: each of them holds a connection. Further connections are closed.
const MAX_WAITING: u32 = 30;
/// Addresses with a lane of their own; when there are more, the others share one.
const MAX_LANES: usize = 4096;

/// Shared by all listeners, or guessing at several of them would be faster.
#[derive(Debug)]
pub struct WrongTokens {
    created: Instant,
    lanes: Mutex<Lanes>,
}

/// Times count from the creation.
#[derive(Debug, Default)]
struct Lanes {
    /// When the next wrong token of an address may be answered.
    free_at: HashMap<IpAddr, Duration>,
    /// The same for the addresses that found no lane of their own.
    others_free_at: Duration,
}

impl Default for WrongTokens {
    fn default() -> Self {
        Self { created: Instant::now(), lanes: Mutex::default() }
    }
}

impl WrongTokens {
    /// The time since the creation.
    pub fn now(&self) -> Duration {
        self.created.elapsed()
    }

    /// Takes the next place in the address's lane: how long until it may be answered; `None` when too many wait already.
    pub fn next_answer(&self, address: IpAddr, now: Duration) -> Option<Duration> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let free_at = lanes.lane(lane_of(address), now);
        let wait = free_at.saturating_sub(now);
        if wait >= INTERVAL * MAX_WAITING {
            return None;
        }
        *free_at = now + wait + INTERVAL;
        Some(wait)
    }
}

impl Lanes {
    fn lane(&mut self, address: IpAddr, now: Duration) -> &mut Duration {
        if self.free_at.len() >= MAX_LANES && !self.free_at.contains_key(&address) {
            self.free_at.retain(|_, free_at| *free_at > now);
        }
        if self.free_at.len() >= MAX_LANES && !self.free_at.contains_key(&address) {
            return &mut self.others_free_at;
        }
        self.free_at.entry(address).or_insert(now)
    }
}

/// All of loopback is one machine, and whoever has one address of an IPv6 network usually has all of its /64.
fn lane_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests;
