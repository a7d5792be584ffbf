use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use patchboard_core::id::MessageId;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use uuid::Uuid;

use super::{CheckOutput, run_mock_hub};
use crate::checker::{CheckOptions, ConformanceChecker};
use crate::finding::Tally;
use crate::handshake::EndpointConfig;
use crate::script::HubScript;

type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Puts a client through one connection; gives the tally and what was seen.
async fn judged(client: impl AsyncFnOnce(String)) -> (Tally, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let place = EndpointConfig { path: "/".to_owned(), allowed_origins: Vec::new() };
    let plan = CheckOptions { endpoint: place, once: true, timeout: Duration::from_secs(60) };
    let script = HubScript {
        start: "2026-01-02T03:04:05Z".parse().unwrap(),
        client: Uuid::from_u128(9),
        messages: [1, 2, 3, 4].map(|number| MessageId(Uuid::from_u128(number))),
    };
    let mut seen = Vec::new();
    let say = |said| {
        if let CheckOutput::Finding(verdict) = said {
            seen.push(format!("{} {}", verdict.finding.level.word(), verdict.finding.observed));
        }
    };
    let (tally, ()) = tokio::join!(run_mock_hub(&listener, ConformanceChecker::new(plan, script), say), client(url));
    (tally, seen)
}

async fn register(url: &str) -> Client {
    let (mut socket, _) = connect_async(url).await.unwrap();
    let frame = json!({ "type": "registration", "payload": { "name": "notes", "description": "I take notes." } });
    socket.send(Message::text(frame.to_string())).await.unwrap();
    socket
}

#[tokio::test]
async fn a_client_that_acknowledges_everything_conforms() {
    let (tally, seen) = judged(async |url| {
        let mut socket = register(&url).await;
        let mut got = Vec::new();
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            let frame: Value = serde_json::from_str(&text).unwrap();
            got.push(frame["type"].as_str().unwrap().to_owned());
            if frame["type"] == "message" {
                let id = &frame["payload"]["id"];
                let answer =
                    json!({ "type": "response", "payload": { "messageId": id, "type": "ack", "payload": {} } });
                socket.send(Message::text(answer.to_string())).await.unwrap();
            }
        }
        let wanted =
            ["registration_response", "message", "message", "message", "message", "hub_check_unknown", "message"];
        assert_eq!(got, wanted);
    })
    .await;
    assert_eq!((tally.warn, tally.wrong), (0, 0), "{seen:#?}");
    assert!(seen.iter().any(|line| line.starts_with("ok pong")), "{seen:#?}");
}

#[tokio::test]
async fn a_frame_over_the_limit_is_told_and_closes() {
    let (tally, seen) = judged(async |url| {
        let mut socket = register(&url).await;
        // The stand-in may close before it has read all of it.
        drop(socket.send(Message::text("x".repeat(super::MAX_MESSAGE + 1))).await);
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    assert_eq!(tally.wrong, 2, "{seen:#?}");
}

#[tokio::test]
async fn what_is_no_websocket_is_told_and_the_next_may_come() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (tally, seen) = judged(async |url| {
        let address = url.trim_start_matches("ws://").trim_end_matches('/').to_owned();
        let mut plain = TcpStream::connect(&address).await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        drop(plain.read_to_end(&mut Vec::new()).await);
        let mut socket = register(&url).await;
        let second = TcpStream::connect(&address).await.unwrap();
        drop(second);
        // The answer is there; leaving now is leaving too early.
        assert!(matches!(socket.next().await, Some(Ok(Message::Text(_)))));
        socket.close(None).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    let has = |start: &str| seen.iter().any(|line| line.starts_with(start));
    assert!(has("wrong a connection that is no WebSocket") && has("ok registered"), "{seen:#?}");
    assert!(has("wrong the client ended the connection") && tally.wrong == 2, "{seen:#?}");
}
