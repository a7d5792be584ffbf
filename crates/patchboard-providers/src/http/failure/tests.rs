use serde_json::json;

use super::*;

const SECRET_BODY: &str = "the prompt was sk-secret";

fn status(code: u16, headers: &[(&'static str, &str)], body: Value) -> Failure {
    let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    of_status(StatusCode::from_u16(code).unwrap(), &headers, body.to_string().as_bytes())
}

#[test]
fn statuses() {
    use ModelError::{RateLimited, Rejected, Timeout, Unavailable};
    let here = Again::Here { after: None };
    type Case = (u16, fn(String) -> ModelError, &'static str, Again);
    let cases: [Case; 12] = [
        (400, Rejected, "400 Bad Request", Again::Never),
        (401, Rejected, "401 Unauthorized", Again::Elsewhere),
        (403, Rejected, "403 Forbidden", Again::Elsewhere),
        (404, Rejected, "404 Not Found", Again::Elsewhere),
        (408, Timeout, "408 Request Timeout", here),
        (413, Rejected, "413 Payload Too Large", Again::Never),
        (307, Rejected, "307 Temporary Redirect: redirects are not followed", Again::Elsewhere),
        (429, RateLimited, "429 Too Many Requests", here),
        (500, Unavailable, "500 Internal Server Error", here),
        (503, Unavailable, "503 Service Unavailable", here),
        (529, Unavailable, "529 Overloaded", here),
        (599, Unavailable, "599 Unknown Status", here),
    ];
    for (code, kind, text, again) in cases {
        let body = json!({"error": {"message": SECRET_BODY, "type": SECRET_BODY, "code": SECRET_BODY}});
        let expected = Failure { error: kind(text.to_owned()), again, reached: Reached::Yes };
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
            Again::Here { after: None },
        ),
        (
            429,
            json!({"error": {"message": SECRET_BODY, "type": "insufficient_quota", "code": "insufficient_quota"}}),
            "429 Too Many Requests (insufficient_quota)",
            Again::Elsewhere,
        ),
        (
            404,
            json!({"error": {"type": "invalid_request_error", "code": "model_not_found"}}),
            "404 Not Found (model_not_found)",
            Again::Elsewhere,
        ),
        (400, json!({"object": "error", "type": "BadRequestError"}), "400 Bad Request (BadRequestError)", Again::Never),
        (400, json!({"error": SECRET_BODY}), "400 Bad Request", Again::Never),
        (400, json!([SECRET_BODY]), "400 Bad Request", Again::Never),
    ] {
        let failure = status(code, &[], body);
        assert_eq!((failure.error.to_string().as_str(), failure.again), (text, again));
    }
}

#[test]
fn when_to_come_back() {
    let seconds = |seconds| Again::Here { after: Some(Duration::from_secs(seconds)) };
    for (headers, expected) in [
        (vec![("retry-after", "3")], seconds(3)),
        (vec![("retry-after", "0.5")], Again::Here { after: Some(Duration::from_millis(500)) }),
        (
            vec![("retry-after-ms", "250"), ("retry-after", "3")],
            Again::Here { after: Some(Duration::from_millis(250)) },
        ),
        (vec![("date", "Wed, 21 Oct 2015 07:28:00 GMT"), ("retry-after", "Wed, 21 Oct 2015 07:28:07 GMT")], seconds(7)),
        (vec![("retry-after", "Wed, 21 Oct 2015 07:28:07 GMT")], Again::Here { after: None }),
        (vec![("retry-after", "-1")], Again::Here { after: None }),
        (vec![("retry-after", "1e300")], Again::Here { after: None }),
        (vec![("retry-after", "soon")], Again::Here { after: None }),
        (vec![("retry-after", "1"), ("x-should-retry", "false")], Again::Elsewhere),
    ] {
        assert_eq!(status(429, &headers, Value::Null).again, expected, "{headers:?}");
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
        assert_eq!(reported(&error), expected, "{error}");
    }
}
