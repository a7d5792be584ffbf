use std::time::Duration;

use serde_json::json;

use super::*;

const SECRET_BODY: &str = "the prompt was sk-secret";

fn status(code: u16, headers: &[(&'static str, &str)], body: Value) -> UpstreamFailure {
    let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    from_status(StatusCode::from_u16(code).unwrap(), &headers, body.to_string().as_bytes())
}

#[test]
fn statuses() {
    use ModelError::{RateLimited, Rejected, Timeout, Unavailable};
    let here = RetryAdvice::SameProvider { after: None };
    type Case = (u16, fn(String) -> ModelError, &'static str, RetryAdvice);
    let cases: [Case; 12] = [
        (400, Rejected, "400 Bad Request", RetryAdvice::Never),
        (401, Rejected, "401 Unauthorized", RetryAdvice::OtherProvider),
        (403, Rejected, "403 Forbidden", RetryAdvice::OtherProvider),
        (404, Rejected, "404 Not Found", RetryAdvice::OtherProvider),
        (408, Timeout, "408 Request Timeout", here),
        (413, Rejected, "413 Payload Too Large", RetryAdvice::Never),
        (307, Rejected, "307 Temporary Redirect: redirects are not followed", RetryAdvice::OtherProvider),
        (429, RateLimited, "429 Too Many Requests", here),
        (500, Unavailable, "500 Internal Server Error", here),
        (503, Unavailable, "503 Service Unavailable", here),
        (529, Unavailable, "529 Overloaded", here),
        (599, Unavailable, "599 Unknown Status", here),
    ];
    for (code, kind, text, again) in cases {
        let body = json!({"error": {"message": SECRET_BODY, "type": SECRET_BODY, "code": SECRET_BODY}});
        let expected =
            UpstreamFailure { error: kind(text.to_owned()), retry: again, delivery: RequestDelivery::Received };
        assert_eq!(status(code, &[], body), expected);
    }
}

#[test]
fn known_codes_are_told() {
    for (code, body, text, again) in [
        (
            429,
            json!({"type": "error", "error": {"type": "rate_limit_error", "message": SECRET_BODY}}),
            "429 Too Many Requests (rate_limit_error)",
            RetryAdvice::SameProvider { after: None },
        ),
        (
            429,
            json!({"error": {"message": SECRET_BODY, "type": "insufficient_quota", "code": "insufficient_quota"}}),
            "429 Too Many Requests (insufficient_quota)",
            RetryAdvice::OtherProvider,
        ),
        (
            404,
            json!({"error": {"type": "invalid_request_error", "code": "model_not_found"}}),
            "404 Not Found (model_not_found)",
            RetryAdvice::OtherProvider,
        ),
        (
            400,
            json!({"object": "error", "type": "BadRequestError"}),
            "400 Bad Request (BadRequestError)",
            RetryAdvice::Never,
        ),
        (400, json!({"error": SECRET_BODY}), "400 Bad Request", RetryAdvice::Never),
        (400, json!([SECRET_BODY]), "400 Bad Request", RetryAdvice::Never),
    ] {
        let failure = status(code, &[], body);
        assert_eq!((failure.error.to_string().as_str(), failure.retry), (text, again));
    }
}

#[test]
fn when_to_come_back() {
    let seconds = |seconds| RetryAdvice::SameProvider { after: Some(Duration::from_secs(seconds)) };
    for (headers, expected) in [
        (vec![("retry-after", "3")], seconds(3)),
        (vec![("retry-after", "0.5")], RetryAdvice::SameProvider { after: Some(Duration::from_millis(500)) }),
        (
            vec![("retry-after-ms", "250"), ("retry-after", "3")],
            RetryAdvice::SameProvider { after: Some(Duration::from_millis(250)) },
        ),
        (vec![("date", "Wed, 21 Oct 2015 07:28:00 GMT"), ("retry-after", "Wed, 21 Oct 2015 07:28:07 GMT")], seconds(7)),
        (vec![("retry-after", "Wed, 21 Oct 2015 07:28:07 GMT")], RetryAdvice::SameProvider { after: None }),
        (vec![("retry-after", "-1")], RetryAdvice::SameProvider { after: None }),
        (vec![("retry-after", "1e300")], RetryAdvice::SameProvider { after: None }),
        (vec![("retry-after", "soon")], RetryAdvice::SameProvider { after: None }),
        (vec![("retry-after", "1"), ("x-should-retry", "false")], RetryAdvice::OtherProvider),
    ] {
        assert_eq!(status(429, &headers, Value::Null).retry, expected, "{headers:?}");
    }
}

#[test]
fn errors_told_in_a_stream() {
    for (error, expected) in [
        (
            json!({"type": "overloaded_error", "message": SECRET_BODY}),
            ModelError::Unavailable("provider reported overloaded_error".into()),
        ),
        (json!({"type": "rate_limit_error"}), ModelError::RateLimited("provider reported rate_limit_error".into())),
        (json!({"type": "timeout_error"}), ModelError::Timeout("provider reported timeout_error".into())),
        (
            json!({"code": "context_length_exceeded", "type": "invalid_request_error"}),
            ModelError::Rejected("provider reported context_length_exceeded".into()),
        ),
        (json!({"code": 502, "message": SECRET_BODY}), ModelError::Unavailable("provider reported error 502".into())),
        (json!({"code": 400}), ModelError::Rejected("provider reported error 400".into())),
        (json!({"code": 429}), ModelError::RateLimited("provider reported error 429".into())),
        (json!(SECRET_BODY), ModelError::Unavailable("provider reported an error".into())),
        (json!({"code": 7}), ModelError::Unavailable("provider reported an error".into())),
    ] {
        assert_eq!(stream_error(&error), expected, "{error}");
    }
}
