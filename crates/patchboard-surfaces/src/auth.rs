//! Tokens: compared in constant time, guessed slowly.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use patchboard_core::access::Grants;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

mod waiting;

pub use waiting::{Seat, WaitingRoom};

use crate::limit::{Bucket, Rate};
use crate::telemetry;

/// Who a connection turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub principal: Arc<str>,
    pub grants: Grants,
}

/// Wrong tokens one address may send: ten at once, then one every six seconds.
const PER_ADDRESS: Rate = Rate { per_second: 1.0 / 6.0, burst: 10.0 };
/// Wrong tokens from everywhere together.
const GLOBAL: Rate = Rate { per_second: 10.0, burst: 200.0 };
/// Addresses remembered; past this the ones with a clean record are forgotten.
const MAX_ADDRESSES: usize = 4096;
/// How long an attempt is held back once its address has guessed too often.
pub const HOLD_BACK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct AuthGate {
    surface: &'static str,
    /// `None`: this surface asks for no token.
    token: Option<SecretString>,
    /// The operator's own, made by the server.
    operator: Option<SecretString>,
    wrong: Mutex<Guesses>,
}

/// Who sent something wrong, and how often lately.
#[derive(Debug)]
pub(crate) struct Guesses {
    by_address: HashMap<IpAddr, Bucket>,
    global: Bucket,
}

/// What to do with an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Accepted(Identity),
    Refused,
    /// As `Accepted` or `Refused`, but only after `HOLD_BACK`.
    Held(Option<Identity>),
}

impl AuthGate {
    pub fn new(surface: &'static str, token: Option<SecretString>, operator: Option<SecretString>) -> Self {
        Self { surface, token, operator, wrong: Mutex::new(Guesses::new()) }
    }

    pub fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whoever connects to a surface without a token is its local user.
    pub fn anonymous(&self) -> Option<Identity> {
        match self.token {
            Some(_) => None,
            None => Some(Identity { principal: "local".into(), grants: Grants::CLIENT }),
        }
    }

    /// `now` is the time since the server started.
    pub fn check(&self, address: IpAddr, token: &str, now: Duration) -> Verdict {
        let identity = self.identify(token);
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let address_guessed = wrong.are_many_of(address, now);
        let many_guess = wrong.are_many(now);
        if identity.is_none() {
            telemetry::refused(self.surface, "token");
            wrong.count(address, now);
        }
        match (identity, address_guessed) {
            // On loopback everybody shares one address: another program's wrong guesses must not lock the user out.
            (Some(_), true) if !address.to_canonical().is_loopback() => Verdict::Held(None),
            (identity, true) => Verdict::Held(identity),
            // Under attack from many addresses everyone is slowed down, and nobody with the token is locked out.
            (identity, false) if many_guess => Verdict::Held(identity),
            (Some(identity), false) => Verdict::Accepted(identity),
            (None, false) => Verdict::Refused,
        }
    }

    /// Both comparisons are always made, and in time that does not depend on where a difference is.
    fn identify(&self, token: &str) -> Option<Identity> {
        let matches = |secret: &Option<SecretString>| {
            secret.as_ref().is_some_and(|secret| constant_time_eq(secret.expose_secret(), token))
        };
        let is_operator = matches(&self.operator);
        let is_client = matches(&self.token);
        if is_operator {
            return Some(Identity { principal: "operator".into(), grants: Grants::OPERATOR });
        }
        is_client.then(|| Identity { principal: "token".into(), grants: Grants::CLIENT })
    }
}

impl Guesses {
    pub(crate) fn new() -> Self {
        Self { by_address: HashMap::new(), global: Bucket::new(GLOBAL, Duration::ZERO) }
    }

    /// Has that address guessed too often?
    pub(crate) fn are_many_of(&mut self, address: IpAddr, now: Duration) -> bool {
        self.by_address.get_mut(&address.to_canonical()).is_some_and(|bucket| bucket.is_empty(now))
    }

    /// Have all together?
    pub(crate) fn are_many(&mut self, now: Duration) -> bool {
        self.global.is_empty(now)
    }

    pub(crate) fn count(&mut self, address: IpAddr, now: Duration) {
        // IPv4 in IPv6 clothes is the same guesser.
        let address = address.to_canonical();
        self.global.take(now);
        if self.by_address.len() >= MAX_ADDRESSES {
            self.by_address.retain(|_, bucket| !bucket.is_full(now));
        }
        if self.by_address.len() < MAX_ADDRESSES || self.by_address.contains_key(&address) {
            self.by_address.entry(address).or_insert_with(|| Bucket::new(PER_ADDRESS, now)).take(now);
        }
    }
}

/// Tokens of another length are compared all the way too: cut or padded to the secret's.
fn constant_time_eq(secret: &str, given: &str) -> bool {
    let mut padded = vec![0; secret.len()];
    for (slot, byte) in padded.iter_mut().zip(given.bytes()) {
        *slot = byte;
    }
    let same_length = secret.len().ct_eq(&given.len());
    let same_bytes = secret.as_bytes().ct_eq(&padded);
    bool::from(same_length & same_bytes)
}

/// The token of an `Authorization: Bearer …` header; the scheme's name may be in any case.
pub fn bearer(value: &axum::http::HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '))
}

#[cfg(test)]
mod tests;
