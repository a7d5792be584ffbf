use patchboard_testkit::http_stub::{Answer, Stub};

use super::*;
use crate::client::{ClientKind, ClientOptions};

/// What is read of an answer's body, and how it ended.
async fn read(answer: Answer, before: &[u8], limit: usize) -> (Vec<u8>, Option<BodyEnd>) {
    let stub = Stub::start([answer]).await;
    let client = ClientOptions::new(ClientKind::Loopback).build().await.unwrap();
    let mut response = client.get(format!("http://127.0.0.1:{}/", stub.port())).send().await.unwrap();
    let mut body = before.to_vec();
    let end = read_body(&mut response, limit, &mut body).await.ok();
    (body, end)
}

#[tokio::test]
async fn no_more_is_read_than_there_is_room_for() {
    use BodyEnd::{Complete, Cut};
    for (sent, limit, expected, end) in [
        ("hello", 9, "hello", Complete),
        ("hello", 5, "hello", Complete),
        ("hello", 4, "hell", Cut),
        ("hello", 0, "", Cut),
        ("", 0, "", Complete),
    ] {
        let read = read(Answer::ok(sent), b"", limit).await;
        assert_eq!(read, (expected.as_bytes().to_vec(), Some(end)), "{sent} at {limit}");
    }
    assert_eq!(
        read(Answer::ok("hello"), b"12", 4).await,
        (b"12he".to_vec(), Some(Cut)),
        "the limit is that of the buffer"
    );
    assert_eq!(read(Answer::ok("hello"), b"12", 1).await, (b"12".to_vec(), Some(Cut)));
}

#[tokio::test]
async fn what_came_before_an_error_stays() {
    let broken = Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel");
    assert_eq!(read(broken, b"", 100).await, (b"hel".to_vec(), None));
}
