//! From what went wrong on the wire to words that may be shown to anybody. Nothing an upstream wrote gets into a
//! message, except error codes from a list.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use patchboard_core::model::ModelError;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::upstream::{Again, Failure, Reached};

/// Codes of the public APIs and of common servers, and what kind of failure each stands for.
const CODES: [(&str, Meaning); 29] = [
    ("overloaded_error", Meaning::Overloaded),
    ("api_error", Meaning::Overloaded),
    ("server_error", Meaning::Overloaded),
    ("internal_error", Meaning::Overloaded),
    ("internal_server_error", Meaning::Overloaded),
    ("InternalServerError", Meaning::Overloaded),
    ("engine_overloaded", Meaning::Overloaded),
    ("service_unavailable", Meaning::Overloaded),
    ("unavailable_error", Meaning::Overloaded),
    ("timeout_error", Meaning::TooSlow),
    ("rate_limit_error", Meaning::TooMany),
    ("rate_limit_exceeded", Meaning::TooMany),
    ("insufficient_quota", Meaning::NoCredit),
    ("billing_error", Meaning::NoCredit),
    ("authentication_error", Meaning::Refused),
    ("invalid_api_key", Meaning::Refused),
    ("permission_error", Meaning::Refused),
    ("not_found_error", Meaning::Refused),
    ("model_not_found", Meaning::Refused),
    ("NotFoundError", Meaning::Refused),
    ("invalid_request_error", Meaning::Wrong),
    ("BadRequestError", Meaning::Wrong),
    ("request_too_large", Meaning::Wrong),
    ("context_length_exceeded", Meaning::Wrong),
    ("exceed_context_size_error", Meaning::Wrong),
    ("unsupported_parameter", Meaning::Wrong),
    ("unsupported_value", Meaning::Wrong),
    ("invalid_value", Meaning::Wrong),
    ("content_filter", Meaning::Wrong),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Overloaded,
    TooSlow,
    TooMany,
    NoCredit,
    /// This provider will not do it: key, permission, no such model.
    Refused,
    /// Nobody would do it.
    Wrong,
}

/// An answer that is not a success. `body` is as much of it as was read.
pub(super) fn of_status(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
    let code = serde_json::from_slice::<Value>(body).ok().and_then(|body| known_code(&body));
    let mut text = format!("{} {}", status.as_u16(), reason(status));
    if let Some((code, _)) = code {
        text.push_str(&format!(" ({code})"));
    }
    let after = retry_after(headers);
    let (error, mut again) = match status.as_u16() {
        408 => (ModelError::Timeout(text), Again::Here { after }),
        429 if code.is_some_and(|(_, meaning)| meaning == Meaning::NoCredit) => {
            (ModelError::RateLimited(text), Again::Elsewhere)
        }
        429 => (ModelError::RateLimited(text), Again::Here { after }),
        409 | 425 | 500.. => (ModelError::Unavailable(text), Again::Here { after }),
        401..=404 => (ModelError::Rejected(text), Again::Elsewhere),
        300..=399 => (ModelError::Rejected(format!("{text}: redirects are not followed")), Again::Elsewhere),
        _ => (ModelError::Rejected(text), Again::Never),
    };
    // Both vendors say so themselves where they know better.
    if headers.get("x-should-retry").is_some_and(|value| value == "false") && matches!(again, Again::Here { .. }) {
        again = Again::Elsewhere;
    }
    Failure { error, again, reached: Reached::Yes }
}

/// An error told inside a stream that had begun well: an object with `type` or `code`, or one holding it as `error`.
pub(crate) fn reported(error: &Value) -> ModelError {
    let code = known_code(error);
    let status = error.get("code").or_else(|| error.pointer("/error/code")).and_then(Value::as_u64);
    let text = match (code, status) {
        (Some((code, _)), _) => format!("provider reported {code}"),
        (None, Some(status @ 400..600)) => format!("provider reported error {status}"),
        (None, _) => "provider reported an error".to_owned(),
    };
    match (code.map(|(_, meaning)| meaning), status) {
        (Some(Meaning::TooMany | Meaning::NoCredit), _) | (None, Some(429)) => ModelError::RateLimited(text),
        (Some(Meaning::TooSlow), _) | (None, Some(408)) => ModelError::Timeout(text),
        (Some(Meaning::Refused | Meaning::Wrong), _) | (None, Some(400..500)) => ModelError::Rejected(text),
        (Some(Meaning::Overloaded), _) | (None, _) => ModelError::Unavailable(text),
    }
}

/// No answer came. The error's own text names the whole URL, so only its kind is used.
pub(super) fn of_transport(error: &reqwest::Error, host: &str) -> Failure {
    let connecting = error.is_connect() || error.is_builder();
    let what = match connecting {
        false => "connection closed before an answer",
        true if is_io(error, &[io::ErrorKind::ConnectionRefused]) => "connection refused",
        true if is_io(error, &[io::ErrorKind::HostUnreachable, io::ErrorKind::NetworkUnreachable]) => {
            "host unreachable"
        }
        true if error.is_timeout() => "connection timed out",
        true if error.is_dns() => "cannot resolve host name",
        true if causes(error).any(|cause| cause.is::<rustls::Error>()) => "TLS handshake failed",
        true => "connection failed",
    };
    Failure {
        error: ModelError::Unavailable(format!("{what} ({host})")),
        again: Again::Here { after: None },
        reached: if connecting { Reached::No } else { Reached::Yes },
    }
}

fn known_code(body: &Value) -> Option<(&'static str, Meaning)> {
    ["/error/code", "/error/type", "/code", "/type"].into_iter().find_map(|pointer| {
        let told = body.pointer(pointer)?.as_str()?;
        CODES.into_iter().find(|(code, _)| *code == told)
    })
}

fn reason(status: StatusCode) -> &'static str {
    match status.as_u16() {
        529 => "Overloaded",
        _ => status.canonical_reason().unwrap_or("Unknown Status"),
    }
}

/// Milliseconds, seconds, or a date, which is held against the server's own clock.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |value: &reqwest::header::HeaderValue| value.to_str().ok().map(|text| text.trim().to_owned());
    if let Some(millis) = headers.get("retry-after-ms").and_then(text).and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let after = headers.get(RETRY_AFTER).and_then(text)?;
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |text: &str| -> Option<Timestamp> { DateTimeParser::new().parse_timestamp(text).ok() };
    let now = date(&headers.get(DATE).and_then(text)?)?;
    Duration::try_from(date(&after)?.duration_since(now)).ok()
}

/// What an error was caused by, down to the first cause. I/O errors hide what they wrap from `source`.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&(dyn std::error::Error + 'static)| {
        match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => (*cause).source(),
        }
    })
}

fn is_io(error: &reqwest::Error, kinds: &[io::ErrorKind]) -> bool {
    causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| kinds.contains(&cause.kind()))
}

#[cfg(test)]
mod tests;
