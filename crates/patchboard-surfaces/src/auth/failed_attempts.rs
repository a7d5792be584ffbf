//! When wrong tokens are answered: one a second for each address, however many connections it opens. Guessing in parallel
//! gains nothing, and whoever has the right token is never held up by others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use patchboard_core::loopback::is_loopback_address;
use tokio::time::Instant;

/// Time between two answers to one address.
const PENALTY_DELAY: Duration = Duration::from_secs(1);
/// Answers that wait for their time, for each address: each of them holds a connection. Further connections are closed.
const MAX_DELAYED_ANSWERS: u32 = 30;
/// Addresses with a lane of their own; when there are more, the others share one.
const MAX_TRACKED_ADDRESSES: usize = 4096;

/// Shared by all listeners, or guessing at several of them would be faster.
#[derive(Debug)]
pub struct FailedAttempts {
    created: Instant,
    schedule: Mutex<PenaltySchedule>,
}

/// Times count from the creation.
#[derive(Debug, Default)]
struct PenaltySchedule {
    /// When the next wrong token of an address may be answered.
    next_answer_at: HashMap<IpAddr, Duration>,
    /// The same for the addresses that found no lane of their own.
    shared_next_answer_at: Duration,
}

impl Default for FailedAttempts {
    fn default() -> Self {
        Self { created: Instant::now(), schedule: Mutex::default() }
    }
}

impl FailedAttempts {
    /// The time since the creation.
    pub fn now(&self) -> Duration {
        self.created.elapsed()
    }

    /// Takes the next place in the address's lane: how long until it may be answered; `None` when too many wait already.
    pub fn reserve_answer_delay(&self, address: IpAddr, now: Duration) -> Option<Duration> {
        let mut lanes = self.schedule.lock().unwrap_or_else(PoisonError::into_inner);
        let free_at = lanes.next_answer_slot(address_key(address), now);
        let wait = free_at.saturating_sub(now);
        if wait >= PENALTY_DELAY * MAX_DELAYED_ANSWERS {
            return None;
        }
        *free_at = now + wait + PENALTY_DELAY;
        Some(wait)
    }
}

impl PenaltySchedule {
    fn next_answer_slot(&mut self, address: IpAddr, now: Duration) -> &mut Duration {
        if self.next_answer_at.len() >= MAX_TRACKED_ADDRESSES && !self.next_answer_at.contains_key(&address) {
            self.next_answer_at.retain(|_, free_at| *free_at > now);
        }
        if self.next_answer_at.len() >= MAX_TRACKED_ADDRESSES && !self.next_answer_at.contains_key(&address) {
            return &mut self.shared_next_answer_at;
        }
        self.next_answer_at.entry(address).or_insert(now)
    }
}

/// All of loopback is one machine, and whoever has one address of an IPv6 network usually has all of its /64.
fn address_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if is_loopback_address(address) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests;
