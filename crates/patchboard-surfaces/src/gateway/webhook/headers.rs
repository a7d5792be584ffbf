//! Selects the headers of a webhook that its adapter receives.

use axum::http::{HeaderMap, HeaderName, header};

use super::VerifyMethod;

/// Further headers are dropped.
const MAX_HEADERS: usize = 64;
/// Total size of names and values; headers that do not fit are dropped.
const MAX_BYTES: usize = 16 * 1024;

/// Headers about this connection or with credentials.
const PRIVATE_HEADERS: [HeaderName; 9] = [
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    header::COOKIE,
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
const PRIVATE_HEADER_NAMES: [&str; 2] = ["keep-alive", "proxy-connection"];

/// The headers with lower-case names, without the authentication headers, which an adapter does not need.
pub(super) fn forwarded_headers(headers: &HeaderMap, verify: &VerifyMethod) -> Vec<(String, String)> {
    let listed = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let listed: Vec<&str> = listed.flat_map(|value| value.split(',')).map(str::trim).collect();
    let is_left_out = |name: &HeaderName| {
        let is = |other: &&str| other.eq_ignore_ascii_case(name.as_str());
        PRIVATE_HEADERS.contains(name)
            || PRIVATE_HEADER_NAMES.iter().any(is)
            || verify.headers().into_iter().flatten().any(|own| is(&own))
            || listed.iter().any(is)
    };
    let mut remaining = MAX_BYTES;
    let forwarded = headers.iter().filter(|(name, _)| !is_left_out(name)).filter_map(|(name, value)| {
        let value = std::str::from_utf8(value.as_bytes()).ok()?;
        remaining = remaining.checked_sub(name.as_str().len() + value.len())?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    forwarded.take(MAX_HEADERS).collect()
}

#[cfg(test)]
mod tests;
