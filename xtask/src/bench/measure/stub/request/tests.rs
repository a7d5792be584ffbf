use super::*;

const REQUEST: &[u8] =
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 21\r\n\r\n{\"model\":\"instant-8\"}";

#[test]
fn a_request_is_whole_with_its_body() {
    assert_eq!(length(REQUEST), Some(REQUEST.len()));
    let mut more = REQUEST.to_vec();
    more.extend(b"POST /next");
    assert_eq!(length(&more), Some(REQUEST.len()));
    for end in [0, 10, REQUEST.len() - 22, REQUEST.len() - 1] {
        assert_eq!(length(&REQUEST[..end]), None, "{end} bytes");
    }
    assert_eq!(length(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"), Some(36));
    assert_eq!(length(b"POST / HTTP/1.1\r\ncontent-length:2\r\n\r\n{}"), Some(39));
}

#[test]
fn the_model_is_named_in_the_body() {
    assert_eq!(model(REQUEST), Some(b"instant-8".as_slice()));
    assert_eq!(model(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"), None);
}
