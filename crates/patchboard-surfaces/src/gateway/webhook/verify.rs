//! Does a webhook come from whom it should? Headers, body and time are passed in; comparisons take the same time
//! wherever a difference is.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use hmac::{Hmac, Mac};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Where the signature is, unless the channel says otherwise.
pub const SIGNATURE_HEADER: &str = "x-hub-signature-256";
/// Where the token is, unless the channel says otherwise.
pub const TOKEN_HEADER: &str = "x-webhook-token";

const TELEGRAM_HEADER: &str = "x-telegram-bot-api-secret-token";
const SLACK_SIGNATURE: &str = "x-slack-signature";
const SLACK_TIME: &str = "x-slack-request-timestamp";
/// A longer time is none.
const MAX_TIME_DIGITS: usize = 15;

/// How a webhook proves where it comes from. Names of headers in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyMethod {
    /// The secret in Telegram's own header.
    Telegram,
    /// Slack's signature of time and body.
    Slack,
    /// `sha256=HEX` of the body or, where there is a header with the time, of `TIME.BODY`.
    HmacSha256 { header: Arc<str>, timestamp_header: Option<Arc<str>> },
    /// The secret in a header.
    Token { header: Arc<str> },
    /// It need not: only programs on this machine are let in.
    None,
}

impl VerifyMethod {
    /// Headers that only matter here.
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

/// Why a webhook is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerifyError {
    /// What should prove it is missing or wrong. Nobody is told which.
    Signature,
    /// It was signed by the right one, but too long ago, or in the future.
    Stale,
    /// It is not from this machine.
    NotLocal,
}

/// What the head of a webhook has to show.
pub(super) enum Signature<'a> {
    /// Enough, whatever the body is.
    Verified,
    Unchecked {
        key: &'a [u8],
        /// What is signed before the body.
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
    // With nothing to know, everybody would know it.
    let key = secret.map(|secret| secret.expose_secret().as_bytes()).filter(|key| !key.is_empty());
    let key = key.ok_or(VerifyError::Signature)?;
    let shown = match verify {
        VerifyMethod::Telegram => check_secret(key, headers, TELEGRAM_HEADER),
        VerifyMethod::Token { header } => check_secret(key, headers, header),
        VerifyMethod::Slack => parse_signature(key, headers, SLACK_SIGNATURE, b"v0=", Some((SLACK_TIME, ["v0:", ":"]))),
        VerifyMethod::HmacSha256 { header, timestamp_header } => {
            let time = timestamp_header.as_deref().map(|header| (header, ["", "."]));
            parse_signature(key, headers, header, b"sha256=", time)
        }
        VerifyMethod::None => None,
    };
    shown.ok_or(VerifyError::Signature)
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

    /// What tells this webhook from others: its body and, where that was signed too, the time. Made of the signature's
    /// bytes and not of how they were written, so that one cannot be written in two ways. The query counts only where
    /// nothing is signed: whoever has caught a signed webhook could write another one before it.
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

/// From this machine, and not through a proxy on it that speaks for somebody else.
fn is_local(headers: &HeaderMap, from: IpAddr) -> bool {
    let forwarded = ["forwarded", "x-forwarded-for", "x-real-ip", header::VIA.as_str()];
    from.to_canonical().is_loopback() && !forwarded.iter().any(|name| headers.contains_key(*name))
}

/// The secret itself. Hashes are compared, so that not even its length shows.
fn check_secret<'a>(key: &[u8], headers: &HeaderMap, name: &str) -> Option<Signature<'a>> {
    let given = single_header(headers, name)?;
    bool::from(Sha256::digest(given).ct_eq(&Sha256::digest(key))).then_some(Signature::Verified)
}

/// `time`: the header that has it, and what is signed before and after it.
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

/// Sent twice, one of them may be what another program looks at.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        (None | Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests;
