//! Verifies the sender of a webhook. Pure: headers, body and time are passed in. Comparisons run in constant time.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use hmac::{Hmac, Mac};
use jiff::Timestamp;
use patchboard_core::loopback::is_loopback_address;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Default header of the signature.
pub const SIGNATURE_HEADER: &str = "x-hub-signature-256";
/// Default header of the token.
pub const TOKEN_HEADER: &str = "x-webhook-token";

const TELEGRAM_HEADER: &str = "x-telegram-bot-api-secret-token";
const SLACK_SIGNATURE: &str = "x-slack-signature";
const SLACK_TIME: &str = "x-slack-request-timestamp";
/// Longer timestamps are rejected.
const MAX_TIME_DIGITS: usize = 15;

/// How a webhook authenticates. Header names are case-insensitive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyMethod {
    /// The secret in Telegram's own header.
    Telegram,
    /// Slack's signature over timestamp and body.
    Slack,
    /// `sha256=HEX` over the body or, if there is a timestamp header, over `TIME.BODY`.
    HmacSha256 { header: Arc<str>, timestamp_header: Option<Arc<str>> },
    /// The secret in a header.
    Token { header: Arc<str> },
    /// No authentication: only programs on this machine are accepted.
    None,
}

impl VerifyMethod {
    /// Headers that only matter for verification.
    pub(super) fn headers(&self) -> [Option<&str>; 2] {
        match self {
            Self::Telegram => [Some(TELEGRAM_HEADER), None],
            Self::Slack => [Some(SLACK_SIGNATURE), Some(SLACK_TIME)],
            Self::HmacSha256 { header, timestamp_header } => [Some(header), timestamp_header.as_deref()],
            Self::Token { header } => [Some(header), None],
            Self::None => [None, None],
        }
    }
}

/// Why a webhook is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerifyError {
    /// The signature or secret is missing or wrong; the response does not say which.
    Signature,
    /// The signature is valid, but its timestamp is too old or in the future.
    Stale,
    /// The sender is not on this machine.
    NotLocal,
}

/// The result of checking the request head.
pub(super) enum Signature<'a> {
    /// The head alone authenticates; the body does not matter.
    Verified,
    Unchecked {
        key: &'a [u8],
        /// Signed before the body.
        prefix: Vec<u8>,
        signature: [u8; 32],
        /// Seconds since 1970.
        at: Option<u64>,
    },
}

pub(super) fn read_signature<'a>(
    verify: &VerifyMethod,
    secret: Option<&'a SecretString>,
    headers: &HeaderMap,
    from: IpAddr,
) -> Result<Signature<'a>, VerifyError> {
    if *verify == VerifyMethod::None {
        return if is_local(headers, from) { Ok(Signature::Verified) } else { Err(VerifyError::NotLocal) };
    }
    // An empty secret would be known to every sender.
    let key = secret.map(|secret| secret.expose_secret().as_bytes()).filter(|key| !key.is_empty());
    let key = key.ok_or(VerifyError::Signature)?;
    let signature = match verify {
        VerifyMethod::Telegram => check_secret(key, headers, TELEGRAM_HEADER),
        VerifyMethod::Token { header } => check_secret(key, headers, header),
        VerifyMethod::Slack => parse_signature(key, headers, SLACK_SIGNATURE, b"v0=", Some((SLACK_TIME, ["v0:", ":"]))),
        VerifyMethod::HmacSha256 { header, timestamp_header } => {
            let time = timestamp_header.as_deref().map(|header| (header, ["", "."]));
            parse_signature(key, headers, header, b"sha256=", time)
        }
        VerifyMethod::None => None,
    };
    signature.ok_or(VerifyError::Signature)
}

impl Signature<'_> {
    pub(super) fn verify_body(&self, body: &[u8], now: Timestamp, window: Duration) -> Result<(), VerifyError> {
        let Self::Unchecked { key, prefix, signature, at } = self else { return Ok(()) };
        let mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| VerifyError::Signature)?;
        mac.chain_update(prefix).chain_update(body).verify_slice(signature).map_err(|_| VerifyError::Signature)?;
        let now = u64::try_from(now.as_second()).unwrap_or(0);
        match at {
            Some(at) if at.abs_diff(now) > window.as_secs() => Err(VerifyError::Stale),
            Some(_) | None => Ok(()),
        }
    }

    /// A digest that identifies this webhook for deduplication: over the body and, if it was signed, the timestamp.
    /// Uses the decoded signature bytes, because the hex text has several spellings. The query counts only for unsigned
    /// webhooks: an attacker who captured a signed one could otherwise vary its query and replay it.
    pub(super) fn digest(&self, body: &[u8], query: &str) -> String {
        let mut digest = Sha256::new_with_prefix(body);
        match self {
            Self::Unchecked { signature, at: Some(_), .. } => digest.update(signature),
            Self::Unchecked { at: None, .. } => {}
            Self::Verified if query.is_empty() => {}
            Self::Verified => {
                digest.update([0]);
                digest.update(query);
            }
        }
        hex::encode(digest.finalize())
    }
}

/// Whether the sender is on this machine and not a proxy that forwards for another client.
fn is_local(headers: &HeaderMap, from: IpAddr) -> bool {
    let forwarded = ["forwarded", "x-forwarded-for", "x-real-ip", header::VIA.as_str()];
    is_loopback_address(from) && !forwarded.iter().any(|name| headers.contains_key(*name))
}

/// Checks the secret itself. Hashes are compared, so that timing does not reveal even its length.
fn check_secret<'a>(key: &[u8], headers: &HeaderMap, name: &str) -> Option<Signature<'a>> {
    let presented = single_header(headers, name)?;
    bool::from(Sha256::digest(presented).ct_eq(&Sha256::digest(key))).then_some(Signature::Verified)
}

/// `time`: the timestamp header, and the bytes signed before and after the timestamp.
fn parse_signature<'a>(
    key: &'a [u8],
    headers: &HeaderMap,
    name: &str,
    scheme: &[u8],
    time: Option<(&str, [&str; 2])>,
) -> Option<Signature<'a>> {
    let mut signature = [0; 32];
    hex::decode_to_slice(single_header(headers, name)?.strip_prefix(scheme)?, &mut signature).ok()?;
    let Some((header, [before, after])) = time else {
        return Some(Signature::Unchecked { key, prefix: Vec::new(), signature, at: None });
    };
    let time = std::str::from_utf8(single_header(headers, header)?).ok()?;
    let is_time = time.len() <= MAX_TIME_DIGITS && time.bytes().all(|byte| byte.is_ascii_digit());
    let at = is_time.then(|| time.parse().ok()).flatten()?;
    Some(Signature::Unchecked { key, prefix: format!("{before}{time}{after}").into_bytes(), signature, at: Some(at) })
}

/// Returns `None` for a repeated header: another program may evaluate the other value.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        (None | Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests;
