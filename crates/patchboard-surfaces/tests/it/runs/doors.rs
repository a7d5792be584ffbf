//! Who gets in, and what others are told.

use super::*;

/// The status line and the whole answer to a request head.
async fn ask(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", server.address);
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await.unwrap();
        answer.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&answer);
        if read == 0 || is_whole(&text) {
            let status = text[9..12].parse().unwrap();
            return (status, text.into_owned());
        }
    }
}

/// The connection may go on after the answer, so its end is where its length says.
fn is_whole(answer: &str) -> bool {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.map_or(head.starts_with("HTTP/1.1 101"), |length| body.len() >= length.parse().unwrap())
}

const UPGRADE: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

async fn upgrade(server: &Server, header: Option<(&str, &str)>) -> (u16, String) {
    let headers: Vec<(&str, &str)> = UPGRADE.into_iter().chain(header).collect();
    ask(server, "GET", "/", &headers).await
}

#[tokio::test]
async fn what_is_no_websocket_is_told_so() {
    let server = serve([], Setup::default()).await;
    let (status, text) = ask(&server, "GET", "/", &[]).await;
    assert_eq!(status, 400);
    assert!(text.contains("did not include 'upgrade'"), "{text}");
    assert_eq!(ask(&server, "GET", "/nope", &[]).await.0, 404);
    assert_eq!(ask(&server, "GET", "/ws", &UPGRADE).await.0, 404);
    assert_eq!(ask(&server, "POST", "/", &[("Content-Length", "0")]).await.0, 405);
    assert_eq!(upgrade(&server, None).await.0, 101);
}

#[tokio::test]
async fn foreign_pages_are_kept_out() {
    let server = serve([], Setup::default()).await;
    assert_eq!(upgrade(&server, Some(("Origin", "https://evil.example"))).await.0, 403);
    assert_eq!(upgrade(&server, Some(("Origin", "null"))).await.0, 403);
    assert_eq!(upgrade(&server, Some(("Host", "evil.example"))).await.0, 403);
    assert_eq!(upgrade(&server, Some(("Origin", "http://localhost:3000"))).await.0, 101);
}

#[tokio::test]
async fn tokens_are_checked_before_the_upgrade() {
    let server = serve([], Setup { token: Some("s3cret"), ..Setup::default() }).await;
    let (status, text) = upgrade(&server, None).await;
    assert_eq!(status, 401);
    assert!(text.to_ascii_lowercase().contains("www-authenticate: bearer"), "{text}");
    for wrong in [
        ("Authorization", "Bearer wrong"),
        ("Authorization", "Basic s3cret"),
        ("Sec-WebSocket-Protocol", "bearer.wrong"),
        ("Sec-WebSocket-Protocol", "s3cret"),
    ] {
        assert_eq!(upgrade(&server, Some(wrong)).await.0, 401, "{wrong:?}");
    }
    assert_eq!(upgrade(&server, Some(("Authorization", "Bearer s3cret"))).await.0, 101);
    let (status, text) = upgrade(&server, Some(("Sec-WebSocket-Protocol", "chat, bearer.s3cret"))).await;
    assert_eq!(status, 101);
    assert!(text.to_ascii_lowercase().contains("sec-websocket-protocol: bearer.s3cret\r\n"), "{text}");
}

#[tokio::test]
async fn a_message_too_big_closes_the_connection() {
    let server = serve([], Setup::default()).await;
    let mut client = server.connect().await;
    let big = "x".repeat(17 * 1024 * 1024);
    // The server may have gone before all of it is written.
    drop(client.send(Message::text(big)).await);
    match client.next().await {
        Some(Ok(Message::Close(Some(frame)))) => assert_eq!(u16::from(frame.code), 1009),
        Some(Err(_)) | None => {}
        other => panic!("unexpected: {other:?}"),
    }
    server.connections_fall_to(0).await;
}
