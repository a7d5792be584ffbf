//! Tokens: the right one never waits; wrong ones are answered one a second for each address.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use patchboard_core::access::GrantSet;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

mod failed_attempts;
mod pending_sign_ins;

pub use failed_attempts::FailedAttempts;
pub use pending_sign_ins::{PendingSignIns, SignInPermit};

use crate::{listen, telemetry};

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

/// Why a request is not let in. Each surface has its own words and codes for the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefusal {
    /// Missing where one is needed, malformed, or wrong and its penalty is over.
    Unauthenticated,
    /// Wrong, and more wrong ones of its address wait to be answered than are kept waiting: it gets no answer. The
    /// connection is closed or, on the bridge, the call reset.
    CloseUnanswered,
}

impl TokenRefusal {
    /// Over HTTP: the surface's own 401, or no response at all.
    pub(crate) fn into_response(self, unauthenticated: impl FnOnce() -> Response) -> Response {
        match self {
            Self::Unauthenticated => unauthenticated(),
            Self::CloseUnanswered => listen::close_without_response(),
        }
    }
}

/// The token a request came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownToken<'a> {
    Missing,
    /// An `Authorization` header that holds no bearer token.
    Malformed,
    Token(&'a str),
}

impl<'a> ShownToken<'a> {
    pub(crate) fn in_header(headers: &'a HeaderMap) -> Self {
        match headers.get(header::AUTHORIZATION) {
            None => Self::Missing,
            Some(value) => bearer(value).map_or(Self::Malformed, Self::Token),
        }
    }
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

    /// `None` when no token was shown: whether that is enough, and for what, depends on the surface.
    pub(crate) async fn identify(
        &self,
        address: IpAddr,
        shown: ShownToken<'_>,
    ) -> Result<Option<ClientIdentity>, TokenRefusal> {
        match shown {
            ShownToken::Missing => Ok(None),
            // Says nothing about any token, so there is nothing to slow down.
            ShownToken::Malformed => Err(TokenRefusal::Unauthenticated),
            ShownToken::Token(token) => self.check(address, token).await.map(Some),
        }
    }

    /// Returns at once for a right token, and for a wrong one when its turn to be answered has come.
    pub async fn check(&self, address: IpAddr, token: &str) -> Result<ClientIdentity, TokenRefusal> {
        match self.find_identity(token) {
            Some(identity) => Ok(identity),
            None => {
                telemetry::refused(self.surface, "token");
                Err(self.delay_failed_attempt(address).await)
            }
        }
    }

    /// Waits until a wrong token or signature from that address may be answered.
    pub(crate) async fn delay_failed_attempt(&self, address: IpAddr) -> TokenRefusal {
        match self.failed_attempts.reserve_answer_delay(address, self.failed_attempts.now()) {
            Some(wait) => {
                tokio::time::sleep(wait).await;
                TokenRefusal::Unauthenticated
            }
            None => TokenRefusal::CloseUnanswered,
        }
    }

    /// Both comparisons are always made, and in time that does not depend on where a difference is.
    fn find_identity(&self, token: &str) -> Option<ClientIdentity> {
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
pub(crate) fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '))
}

#[cfg(test)]
mod tests;
