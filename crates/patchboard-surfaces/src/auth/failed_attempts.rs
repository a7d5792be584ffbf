//! Penalty delays for wrong tokens: one answer per second and address, however many connections it opens. Parallel
//! guessing gains nothing, and clients with a correct token are never delayed by others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use patchboard_core::loopback::is_loopback_address;
use tokio::time::Instant;

/// Time between two answers to one address.
const PENALTY_DELAY: Duration = Duration::from_secs(1);
/// Delayed answers per address, each of which holds a connection; past it connections are closed without an answer.
const MAX_DELAYED_ANSWERS: u32 = 30;
/// Addresses with a schedule of their own; further ones share one.
const MAX_TRACKED_ADDRESSES: usize = 4096;

/// Shared by all listeners; otherwise guessing at several of them would be faster.
#[derive(Debug)]
pub struct FailedAttempts {
    created: Instant,
    schedule: Mutex<PenaltySchedule>,
}

/// All times are durations since `FailedAttempts::created`.
#[derive(Debug, Default)]
struct PenaltySchedule {
    /// When the next wrong token from an address may be answered.
    next_answer_at: HashMap<IpAddr, Duration>,
    /// The same, shared by all addresses past [`MAX_TRACKED_ADDRESSES`].
    shared_next_answer_at: Duration,
}

impl Default for FailedAttempts {
    fn default() -> Self {
        Self { created: Instant::now(), schedule: Mutex::default() }
    }
}

impl FailedAttempts {
    /// Time since the creation.
    pub fn now(&self) -> Duration {
        self.created.elapsed()
    }

    /// Reserves the address's next answer and returns the delay until then; `None` if too many answers are already
    /// delayed.
    pub fn reserve_answer_delay(&self, address: IpAddr, now: Duration) -> Option<Duration> {
        let mut schedule = self.schedule.lock().unwrap_or_else(PoisonError::into_inner);
        let free_at = schedule.next_answer_slot(address_key(address), now);
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

/// All of loopback is one machine, and a host with one address of an IPv6 /64 usually has all of them.
fn address_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if is_loopback_address(address) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests;
