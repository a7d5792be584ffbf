//! Tokens: the right one never waits; wrong ones are answered one a second for each address.

use std::net::IpAddr;
use std::sync::Arc;

use patchboard_core::caller::GrantSet;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

mod failed_attempts;
mod pending_sign_ins;

pub use failed_attempts::FailedAttempts;
pub use pending_sign_ins::{PendingSignIns, SignInPermit};

use crate::telemetry;

/// Who a connection turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    pub principal: Arc<str>,
    pub grants: GrantSet,
}

#[derive(Debug)]
pub struct AuthGate {
    surface: &'static str,
    /// `None`: this surface asks for no token.
    token: Option<SecretString>,
    /// The operator's own, made by the server.
    operator: Option<SecretString>,
    failed_attempts: Arc<FailedAttempts>,
}

/// What to do with a client that has shown a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenVerdict {
    Accepted(ClientIdentity),
    Wrong,
    /// Wrong, and more wrong ones of its address wait to be answered than are kept waiting: it gets no answer. The
    /// connection is closed or, on the bridge, the call reset.
    CloseUnanswered,
}

impl AuthGate {
    /// `wrong` is shared by all gates of a server.
    pub fn new(
        surface: &'static str,
        token: Option<SecretString>,
        operator: Option<SecretString>,
        wrong: Arc<FailedAttempts>,
    ) -> Self {
        Self { surface, token, operator, failed_attempts: wrong }
    }

    pub fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whoever connects to a surface without a token is its local user.
    pub fn anonymous(&self) -> Option<ClientIdentity> {
        match self.token {
            Some(_) => None,
            None => Some(ClientIdentity { principal: "local".into(), grants: GrantSet::CLIENT }),
        }
    }

    pub(crate) fn failed_attempts(&self) -> &Arc<FailedAttempts> {
        &self.failed_attempts
    }

    /// Returns at once for a right token, and for a wrong one when its turn to be answered has come.
    pub async fn check(&self, address: IpAddr, token: &str) -> TokenVerdict {
        match self.identify(token) {
            Some(identity) => TokenVerdict::Accepted(identity),
            None => {
                telemetry::refused(self.surface, "token");
                self.delay_failed_attempt(address).await
            }
        }
    }

    /// Waits until a wrong token or signature from that address may be answered.
    pub(crate) async fn delay_failed_attempt(&self, address: IpAddr) -> TokenVerdict {
        match self.failed_attempts.reserve_answer_delay(address, self.failed_attempts.now()) {
            Some(wait) => {
                tokio::time::sleep(wait).await;
                TokenVerdict::Wrong
            }
            None => TokenVerdict::CloseUnanswered,
        }
    }

    /// Both comparisons are always made, and in time that does not depend on where a difference is.
    fn identify(&self, token: &str) -> Option<ClientIdentity> {
        let matches = |secret: &Option<SecretString>| {
            secret.as_ref().is_some_and(|secret| constant_time_eq(secret.expose_secret(), token))
        };
        let is_operator = matches(&self.operator);
        let is_client = matches(&self.token);
        if is_operator {
            return Some(ClientIdentity { principal: "operator".into(), grants: GrantSet::OPERATOR });
        }
        is_client.then(|| ClientIdentity { principal: "token".into(), grants: GrantSet::CLIENT })
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
