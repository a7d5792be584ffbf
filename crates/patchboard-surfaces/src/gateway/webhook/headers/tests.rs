use axum::http::HeaderValue;

use super::*;

fn passed(verify: &VerifyMethod, headers: &[(&str, &[u8])]) -> Vec<(String, String)> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value).unwrap());
    }
    forwarded_headers(&map, verify)
}

fn names(headers: &[(String, String)]) -> Vec<&str> {
    headers.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn an_adapter_sees_what_is_meant_for_it() {
    let headers: &[(&str, &[u8])] = &[
        ("Host", b"chat.example"),
        ("Content-Type", b"application/json"),
        ("X-Event", b"one"),
        ("X-Event", b"two"),
        ("Authorization", b"Bearer x"),
        ("Proxy-Authorization", b"Basic x"),
        ("Cookie", b"a=b"),
        ("Connection", b"close, X-Listed"),
        ("X-Listed", b"x"),
        ("Keep-Alive", b"5"),
        ("Transfer-Encoding", b"chunked"),
        ("Upgrade", b"h2c"),
        ("TE", b"trailers"),
        ("Trailer", b"x"),
        ("X-Name", "é雨".as_bytes()),
        ("X-Bytes", b"\xff\xfe"),
        ("X-Slack-Retry-Num", b"1"),
        ("X-Slack-Signature", b"v0=1"),
        ("X-Slack-Request-Timestamp", b"1"),
    ];
    let expected = [
        ("host", "chat.example"),
        ("content-type", "application/json"),
        ("x-event", "one"),
        ("x-event", "two"),
        ("x-name", "é雨"),
        ("x-slack-retry-num", "1"),
    ];
    let expected: Vec<_> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(passed(&VerifyMethod::Slack, headers), expected);
}

#[test]
fn what_proves_it_is_not_passed_on() {
    let all: Vec<(&str, &[u8])> = [
        "X-Telegram-Bot-Api-Secret-Token",
        "X-Slack-Signature",
        "X-Slack-Request-Timestamp",
        "X-Sign",
        "X-Time",
        "X-Own",
    ]
    .map(|name| (name, b"x".as_slice()))
    .to_vec();
    for (verify, hidden) in [
        (VerifyMethod::None, &[][..]),
        (VerifyMethod::Telegram, &["x-telegram-bot-api-secret-token"][..]),
        (VerifyMethod::Slack, &["x-slack-signature", "x-slack-request-timestamp"][..]),
        (VerifyMethod::Token { header: "X-OWN".into() }, &["x-own"][..]),
        (VerifyMethod::HmacSha256 { header: "x-sign".into(), timestamp_header: None }, &["x-sign"][..]),
        (
            VerifyMethod::HmacSha256 { header: "x-sign".into(), timestamp_header: Some("X-time".into()) },
            &["x-sign", "x-time"][..],
        ),
    ] {
        let seen = passed(&verify, &all);
        let expected: Vec<String> = all.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).filter(|name| !hidden.contains(name)).collect();
        assert_eq!(names(&seen), expected, "{verify:?}");
    }
}

#[test]
fn there_are_not_endlessly_many() {
    let many: Vec<String> = (0..100).map(|number| format!("x-{number}")).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), b"x".as_slice())).collect();
    let seen = passed(&VerifyMethod::None, &many);
    assert_eq!(seen.len(), MAX_HEADERS);
    assert_eq!(names(&seen)[..2], ["x-0", "x-1"], "the first ones");

    let long = vec![b'x'; 6000];
    let seen = passed(&VerifyMethod::None, &[("a", &long), ("b", &long), ("c", &long), ("d", b"short")]);
    assert_eq!(names(&seen), ["a", "b", "d"], "what fits");
}
