//! Maps HTTP failures to messages that are safe to show. Text from the provider never gets into a message, except error
//! codes from a fixed list.

use patchboard_core::model::ModelError;
use patchboard_core::retry_after::retry_after;
use patchboard_http::header::HeaderMap;
use patchboard_http::{StatusCode, transport};
use serde_json::Value;

use crate::upstream::{RequestDelivery, RetryAdvice, UpstreamFailure};

/// Error codes of the public APIs and of common servers, with their class.
const ERROR_CODES: [(&str, ErrorClass); 29] = [
    ("overloaded_error", ErrorClass::Overloaded),
    ("api_error", ErrorClass::Overloaded),
    ("server_error", ErrorClass::Overloaded),
    ("internal_error", ErrorClass::Overloaded),
    ("internal_server_error", ErrorClass::Overloaded),
    ("InternalServerError", ErrorClass::Overloaded),
    ("engine_overloaded", ErrorClass::Overloaded),
    ("service_unavailable", ErrorClass::Overloaded),
    ("unavailable_error", ErrorClass::Overloaded),
    ("timeout_error", ErrorClass::Timeout),
    ("rate_limit_error", ErrorClass::RateLimited),
    ("rate_limit_exceeded", ErrorClass::RateLimited),
    ("insufficient_quota", ErrorClass::NoCredit),
    ("billing_error", ErrorClass::NoCredit),
    ("authentication_error", ErrorClass::Refused),
    ("invalid_api_key", ErrorClass::Refused),
    ("permission_error", ErrorClass::Refused),
    ("not_found_error", ErrorClass::Refused),
    ("model_not_found", ErrorClass::Refused),
    ("NotFoundError", ErrorClass::Refused),
    ("invalid_request_error", ErrorClass::InvalidRequest),
    ("BadRequestError", ErrorClass::InvalidRequest),
    ("request_too_large", ErrorClass::InvalidRequest),
    ("context_length_exceeded", ErrorClass::InvalidRequest),
    ("exceed_context_size_error", ErrorClass::InvalidRequest),
    ("unsupported_parameter", ErrorClass::InvalidRequest),
    ("unsupported_value", ErrorClass::InvalidRequest),
    ("invalid_value", ErrorClass::InvalidRequest),
    ("content_filter", ErrorClass::InvalidRequest),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorClass {
    Overloaded,
    Timeout,
    RateLimited,
    NoCredit,
    /// This provider refuses it: bad key, no permission, unknown model.
    Refused,
    /// Every provider would refuse it.
    InvalidRequest,
}

/// A response with an error status. `body` may be cut.
pub(super) fn from_status(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> UpstreamFailure {
    let code = serde_json::from_slice::<Value>(body).ok().and_then(|body| known_code(&body));
    let mut text = format!("{} {}", status.as_u16(), status_text(status));
    if let Some((code, _)) = code {
        text.push_str(&format!(" ({code})"));
    }
    let after = retry_after(|name| headers.get(name).and_then(|value| value.to_str().ok()), None);
    let (error, mut again) = match status.as_u16() {
        408 => (ModelError::Timeout(text), RetryAdvice::SameProvider { after }),
        429 if code.is_some_and(|(_, meaning)| meaning == ErrorClass::NoCredit) => {
            (ModelError::RateLimited(text), RetryAdvice::OtherProvider)
        }
        429 => (ModelError::RateLimited(text), RetryAdvice::SameProvider { after }),
        409 | 425 | 500.. => (ModelError::Unavailable(text), RetryAdvice::SameProvider { after }),
        401..=404 => (ModelError::Rejected(text), RetryAdvice::OtherProvider),
        300..=399 => (ModelError::Rejected(format!("{text}: redirects are not followed")), RetryAdvice::OtherProvider),
        _ => (ModelError::Rejected(text), RetryAdvice::Never),
    };
    // Both vendors send this header to overrule the status.
    if headers.get("x-should-retry").is_some_and(|value| value == "false")
        && matches!(again, RetryAdvice::SameProvider { .. })
    {
        again = RetryAdvice::OtherProvider;
    }
    UpstreamFailure { error, retry: again, delivery: RequestDelivery::Received }
}

/// An error event inside a stream: an object with `type` or `code`, or one that holds such an object as `error`.
pub(crate) fn stream_error(error: &Value) -> ModelError {
    let code = known_code(error);
    let status = error.get("code").or_else(|| error.pointer("/error/code")).and_then(Value::as_u64);
    let text = match (code, status) {
        (Some((code, _)), _) => format!("provider reported {code}"),
        (None, Some(status @ 400..600)) => format!("provider reported error {status}"),
        (None, _) => "provider reported an error".to_owned(),
    };
    match (code.map(|(_, meaning)| meaning), status) {
        (Some(ErrorClass::RateLimited | ErrorClass::NoCredit), _) | (None, Some(429)) => ModelError::RateLimited(text),
        (Some(ErrorClass::Timeout), _) | (None, Some(408)) => ModelError::Timeout(text),
        (Some(ErrorClass::Refused | ErrorClass::InvalidRequest), _) | (None, Some(400..500)) => {
            ModelError::Rejected(text)
        }
        (Some(ErrorClass::Overloaded), _) | (None, _) => ModelError::Unavailable(text),
    }
}

/// A request without a response. The error's own text holds the URL, so only its kind is used.
pub(super) fn from_transport(error: &patchboard_http::Error, host: &str) -> UpstreamFailure {
    UpstreamFailure {
        error: ModelError::Unavailable(format!("{} ({host})", transport::reason(error))),
        retry: RetryAdvice::SameProvider { after: None },
        delivery: match transport::is_unsent(error) {
            true => RequestDelivery::NotReceived,
            false => RequestDelivery::Received,
        },
    }
}

fn known_code(body: &Value) -> Option<(&'static str, ErrorClass)> {
    ["/error/code", "/error/type", "/code", "/type"].into_iter().find_map(|pointer| {
        let told = body.pointer(pointer)?.as_str()?;
        ERROR_CODES.into_iter().find(|(code, _)| *code == told)
    })
}

fn status_text(status: StatusCode) -> &'static str {
    match status.as_u16() {
        529 => "Overloaded",
        _ => status.canonical_reason().unwrap_or("Unknown Status"),
    }
}

#[cfg(test)]
mod tests;
