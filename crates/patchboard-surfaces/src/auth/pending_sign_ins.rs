//! Limits connections that have not authenticated yet, in total and per address. Loopback is exempt: all local
//! processes share its address, and one of them must not lock the user out, so only the connection limit applies.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use patchboard_core::loopback::is_loopback_address;

/// Most unauthenticated connections at once; each has a few seconds to sign in.
const MAX_PENDING: usize = 512;
/// Most from one address, so that one client cannot take all permits.
const MAX_PENDING_PER_ADDRESS: usize = 128;

#[derive(Debug, Clone, Default)]
pub struct PendingSignIns {
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// Released when dropped.
#[derive(Debug)]
pub struct SignInPermit {
    pending: PendingSignIns,
    address: IpAddr,
}

impl PendingSignIns {
    /// `None` if either limit is reached.
    pub fn try_acquire(&self, address: IpAddr) -> Option<SignInPermit> {
        let address = address.to_canonical();
        if is_loopback_address(address) {
            return Some(SignInPermit { pending: Self::default(), address });
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = counts.values().sum();
        let from_there = counts.get(&address).copied().unwrap_or(0);
        if total >= MAX_PENDING || from_there >= MAX_PENDING_PER_ADDRESS {
            return None;
        }
        counts.insert(address, from_there + 1);
        Some(SignInPermit { pending: self.clone(), address })
    }
}

impl Drop for SignInPermit {
    fn drop(&mut self) {
        let mut counts = self.pending.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests;
