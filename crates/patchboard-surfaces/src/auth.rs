//! Tokens: the right one never waits; wrong ones are answered one a second for each address.

use std::net::IpAddr;
use std::sync::Arc;

use patchboard_core::access::Grants;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

mod waiting;
mod wrong_tokens;

pub use waiting::{Seat, WaitingRoom};
pub use wrong_tokens::WrongTokens;

use crate::telemetry;

/// Who a connection turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub principal: Arc<str>,
    pub grants: Grants,
}

#[derive(Debug)]
pub struct AuthGate {
    surface: &'static str,
    /// `None`: this surface asks for no token.
    token: Option<SecretString>,
    /// The operator's own, made by the server.
    operator: Option<SecretString>,
    wrong: Arc<WrongTokens>,
}

/// What to do with a client that has shown a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Accepted(Identity),
    Wrong,
    /// Wrong, and more wrong ones of its address wait to be answered than are kept waiting: it gets no answer. The
    /// connection is closed or, on the bridge, the call reset.
    Cut,
}

impl AuthGate {
    /// `wrong` is shared by all gates of a server.
    pub fn new(
        surface: &'static str,
        token: Option<SecretString>,
        operator: Option<SecretString>,
        wrong: Arc<WrongTokens>,
    ) -> Self {
        Self { surface, token, operator, wrong }
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

    pub(crate) fn wrong_tokens(&self) -> &Arc<WrongTokens> {
        &self.wrong
    }

    /// Returns at once for a right token, and for a wrong one when its turn to be answered has come.
    pub async fn check(&self, address: IpAddr, token: &str) -> Verdict {
        match self.identify(token) {
            Some(identity) => Verdict::Accepted(identity),
            None => {
                telemetry::refused(self.surface, "token");
                self.wrong(address).await
            }
        }
    }

    /// Waits until a wrong token or signature from that address may be answered.
    pub(crate) async fn wrong(&self, address: IpAddr) -> Verdict {
        match self.wrong.next_answer(address, self.wrong.now()) {
            Some(wait) => {
                tokio::time::sleep(wait).await;
                Verdict::Wrong
            }
            None => Verdict::Cut,
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
