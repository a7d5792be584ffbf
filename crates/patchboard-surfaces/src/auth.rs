//! Bearer tokens: a correct one is accepted at once; wrong ones are answered at one per second and address.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use patchboard_core::caller::{GrantSet, Principal, Surface};
use patchboard_core::keys::{Key, KeyRing};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

mod failed_attempts;
mod key_secret;
mod pending_sign_ins;

pub use failed_attempts::FailedAttempts;
pub use key_secret::{key_hash, new_key_secret};
pub use pending_sign_ins::{PendingSignIns, SignInPermit};

use crate::{listen, telemetry};

/// The authenticated client of a connection or request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    pub principal: Principal,
    pub grants: GrantSet,
    /// The key that it showed.
    pub key: Option<Key>,
}

#[derive(Debug)]
pub struct AuthGate {
    surface: &'static str,
    /// `None` if the surface requires no token.
    token: Option<SecretString>,
    /// The operator's token, which the server generates.
    operator: Option<SecretString>,
    /// Keys of clients, accepted besides the tokens.
    keys: Option<Arc<KeyRing>>,
    failed_attempts: Arc<FailedAttempts>,
}

/// Why a client is not authenticated. Each surface maps `Unauthenticated` to its own status and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefusal {
    /// The token is missing although required, malformed, or wrong and its penalty delay has passed.
    Unauthenticated,
    /// The token is wrong, and the limit of delayed answers for its address is reached: the connection is closed
    /// without a response or, on the bridge, the call reset.
    CloseUnanswered,
    /// The token is a key's that is not accepted on this surface.
    WrongSurface,
}

impl TokenRefusal {
    /// The surface's own 401 over HTTP, or no response at all.
    pub(crate) fn into_response(self, unauthenticated: impl FnOnce() -> Response) -> Response {
        match self {
            Self::Unauthenticated => unauthenticated(),
            Self::CloseUnanswered => listen::close_without_response(),
            Self::WrongSurface => (StatusCode::FORBIDDEN, format!("{WRONG_SURFACE}\n")).into_response(),
        }
    }
}

pub(crate) const WRONG_SURFACE: &str = "this key is not accepted here; `patchboard keys list` shows its surfaces";

impl ClientIdentity {
    pub fn new(principal: Principal, grants: GrantSet) -> Self {
        Self { principal, grants, key: None }
    }

    /// Resolves when the client's key is revoked; pending forever for a client without a key.
    pub(crate) async fn revoked(&self) {
        match &self.key {
            Some(key) => key.revoked.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

/// The token in a request.
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
    /// `failed_attempts` is shared by all gates of a server, so that guessing at several surfaces in parallel is no faster.
    pub fn new(
        surface: &'static str,
        token: Option<SecretString>,
        operator: Option<SecretString>,
        failed_attempts: Arc<FailedAttempts>,
    ) -> Self {
        Self { surface, token, operator, keys: None, failed_attempts }
    }

    /// Accepts keys too.
    #[must_use]
    pub fn with_keys(self, keys: Arc<KeyRing>) -> Self {
        Self { keys: Some(keys), ..self }
    }

    pub fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// The identity without a token: the local user if the surface requires none, otherwise none.
    pub fn anonymous(&self) -> Option<ClientIdentity> {
        match self.token {
            Some(_) => None,
            None => Some(ClientIdentity::new(Principal::Local, GrantSet::CLIENT)),
        }
    }

    pub(crate) fn failed_attempts(&self) -> &Arc<FailedAttempts> {
        &self.failed_attempts
    }

    /// `None` if the request has no token: each surface decides whether it requires one. `surface` is the one that the
    /// client uses; a listener may serve several.
    pub(crate) async fn identify(
        &self,
        address: IpAddr,
        shown: ShownToken<'_>,
        surface: Surface,
    ) -> Result<Option<ClientIdentity>, TokenRefusal> {
        match shown {
            ShownToken::Missing => Ok(None),
            // No guess at the token, so no penalty.
            ShownToken::Malformed => Err(TokenRefusal::Unauthenticated),
            ShownToken::Token(token) => self.check(address, token, surface).await.map(Some),
        }
    }

    /// Returns at once for a correct token, and after the penalty delay of its address for a wrong one.
    pub async fn check(&self, address: IpAddr, token: &str, surface: Surface) -> Result<ClientIdentity, TokenRefusal> {
        match self.find_identity(token) {
            Some(ClientIdentity { key: Some(key), .. }) if !key.is_accepted_on(surface) => {
                telemetry::refused(self.surface, "key");
                Err(TokenRefusal::WrongSurface)
            }
            Some(identity) => Ok(identity),
            None => {
                telemetry::refused(self.surface, "token");
                Err(self.delay_failed_attempt(address).await)
            }
        }
    }

    /// Waits for the penalty delay of a wrong token or signature from that address.
    pub(crate) async fn delay_failed_attempt(&self, address: IpAddr) -> TokenRefusal {
        match self.failed_attempts.reserve_answer_delay(address, self.failed_attempts.now()) {
            Some(wait) => {
                tokio::time::sleep(wait).await;
                TokenRefusal::Unauthenticated
            }
            None => TokenRefusal::CloseUnanswered,
        }
    }

    /// Always makes all comparisons, each in constant time, so that timing does not reveal how much of a guess is
    /// correct.
    fn find_identity(&self, token: &str) -> Option<ClientIdentity> {
        let matches = |secret: &Option<SecretString>| {
            secret.as_ref().is_some_and(|secret| constant_time_eq(secret.expose_secret(), token))
        };
        let is_operator = matches(&self.operator);
        let is_client = matches(&self.token);
        let keys = self.keys.as_ref().filter(|keys| !keys.is_empty());
        let key = keys.and_then(|keys| keys.authenticate(&key_hash(token)));
        if is_operator {
            return Some(ClientIdentity::new(Principal::Operator, GrantSet::OPERATOR));
        }
        if is_client {
            return Some(ClientIdentity::new(Principal::Token, GrantSet::CLIENT));
        }
        let key = key?;
        Some(ClientIdentity { principal: key.principal(), grants: key.grants(), key: Some(key) })
    }
}

/// A token of another length is cut or padded to the secret's, so that it is compared in full as well.
fn constant_time_eq(secret: &str, given: &str) -> bool {
    let mut padded = vec![0; secret.len()];
    for (slot, byte) in padded.iter_mut().zip(given.bytes()) {
        *slot = byte;
    }
    let same_length = secret.len().ct_eq(&given.len());
    let same_bytes = secret.as_bytes().ct_eq(&padded);
    bool::from(same_length & same_bytes)
}

/// The token of an `Authorization: Bearer …` header; the scheme is case-insensitive.
pub(crate) fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '))
}

#[cfg(test)]
mod tests;
