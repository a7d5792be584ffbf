use serde_json::{Value, json};

use super::{HubError, parse_response};

fn refused(status: u16, message: &str) -> Result<Value, HubError> {
    Err(HubError::Refused { status, message: message.to_owned() })
}

fn unreadable(why: &str) -> Result<Value, HubError> {
    Err(HubError::Unreadable(why.to_owned()))
}

#[test]
fn good_answers() {
    let cases = [
        ("HTTP/1.1 202 Accepted\r\nContent-Length: 8\r\n\r\n{\"a\": 1}", json!({ "a": 1 })),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]and more", json!([])),
        ("HTTP/1.0 200 OK\r\n\r\n\"to the end\"", json!("to the end")),
        ("HTTP/1.1 204 No Content\r\n\r\n", Value::Null),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2;x=y\r\n2]\r\n0\r\n\r\n", json!([1, 2])),
    ];
    for (answer, expected) in cases {
        assert_eq!(parse_response(answer.as_bytes()), Ok(expected), "{answer}");
    }
}

#[test]
fn refusals_speak_json_or_plain_text() {
    let cases = [
        (
            "HTTP/1.1 404 Not Found\r\n\r\n{\"error\":{\"code\":\"NOT_FOUND\",\"message\":\"no such message\"}}",
            refused(404, "no such message"),
        ),
        (
            "HTTP/1.1 403 Forbidden\r\n\r\nthis Host is not served here\nmore",
            refused(403, "this Host is not served here"),
        ),
        ("HTTP/1.1 503 Service Unavailable\r\n\r\n", refused(503, "the hub refused with status 503")),
        ("HTTP/1.1 500 X\r\n\r\n{\"error\":\"text\"}", refused(500, "{\"error\":\"text\"}")),
    ];
    for (answer, expected) in cases {
        assert_eq!(parse_response(answer.as_bytes()), expected, "{answer}");
    }
}

#[test]
fn what_is_no_answer_is_told_as_such() {
    let cases = [
        ("", "it has no end of its head"),
        ("HTTP/1.1 200 OK\r\n", "it has no end of its head"),
        ("SSH-2.0\r\n\r\n", "it is not HTTP"),
        ("HTTP/1.1 fine\r\n\r\n", "it has no status"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "it was cut short"),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}", "its length is not a number"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", "it was cut short"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}\r\n0\r\n\r\n",
            "it was cut short",
        ),
    ];
    for (answer, why) in cases {
        assert_eq!(parse_response(answer.as_bytes()), unreadable(why), "{answer}");
    }
    assert!(matches!(parse_response(b"HTTP/1.1 200 OK\r\n\r\n<html>"), Err(HubError::Unreadable(_))));
    assert_eq!(parse_response(b"HTTP/1.1 200 OK\r\nX: \xff\r\n\r\n{}"), unreadable("its head is not text"));
}
