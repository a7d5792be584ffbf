//! Apps on real sockets.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::*;
use crate::listen::{self, ConnectionSlots};

type Socket = WebSocketStream<TcpStream>;

impl Bench {
    async fn listen(&self, places: usize) -> SocketAddr {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, http) = (self.draining.clone(), TaskTracker::new());
        let places = ConnectionSlots::new(places);
        http.spawn(listen::serve_or_refuse("hub", socket, None, places, self.router.clone(), stop, http.clone()));
        address
    }
}

async fn connect(address: SocketAddr, path: &str, headers: &[(&'static str, &str)]) -> (Socket, String) {
    let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(address).await.unwrap();
    let (socket, response) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let protocol = response.headers().get("sec-websocket-protocol");
    (socket, protocol.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default())
}

async fn send(socket: &mut Socket, frame: Value) {
    socket.send(Message::text(frame.to_string())).await.unwrap();
}

async fn next(socket: &mut Socket) -> Value {
    loop {
        match socket.next().await.unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other @ (Message::Binary(_) | Message::Close(_) | Message::Frame(_)) => panic!("unexpected: {other:?}"),
        }
    }
}

fn registration(name: &str) -> Value {
    json!({"type": "registration", "payload": {"name": name, "description": "Keeps notes."}})
}

async fn register(socket: &mut Socket, name: &str) -> Value {
    send(socket, registration(name)).await;
    next(socket).await["payload"].clone()
}

async fn respond(socket: &mut Socket, message: &Value, kind: &str, payload: Value) {
    let id = &message["payload"]["id"];
    send(socket, json!({"type": "response", "payload": {"messageId": id, "type": kind, "payload": payload}})).await;
}

#[tokio::test]
async fn from_the_users_words_to_the_apps_answer() {
    let bench = Bench::new();
    let address = bench.listen(10).await;
    let (mut app, _) = connect(address, "/any/path?at=all", &[("origin", "app://obsidian.md")]).await;
    assert_eq!(register(&mut app, "notebook").await["success"], true);
    let clients = bench.get("/v1/clients").await.json();
    let notebook = &clients["items"][0];
    assert_eq!(
        (&notebook["name"], &notebook["description"], &notebook["connected"]),
        (&json!("notebook"), &json!("Keeps notes."), &json!(true))
    );
    let (message, frame) =
        tokio::join!(bench.post("/v1/messages?wait=20", json!({"text": "notebook: buy milk"})), async {
            let frame = next(&mut app).await;
            let pending = bench.get("/v1/clients").await.json();
            assert_eq!(pending["items"][0]["pending"], 1);
            respond(&mut app, &frame, "ack", json!({})).await;
            frame
        });
    let message = message.json();
    assert_eq!((&message["state"], &message["id"]), (&json!("delivered"), &frame["payload"]["id"]));
    assert_eq!(frame["payload"]["text"], "buy milk");
    assert_eq!(frame["payload"]["metadata"], json!({"inputMethod": "text", "directRouted": true}));
    let attempt = &message["attempts"][0];
    assert_eq!(
        (&attempt["client"], &attempt["state"], &attempt["stage"]),
        (&json!("notebook"), &json!("delivered"), &json!("direct"))
    );
    let path = format!("/v1/messages/{}?newer_than={}&wait=20", message["id"].as_str().unwrap(), message["version"]);
    let (shown, ()) = tokio::join!(bench.get(&path), async {
        respond(&mut app, &frame, "notification", json!({"body": "Saved.", "priority": "high"})).await;
    });
    let notifications = json!([{"client": "notebook", "title": "notebook", "body": "Saved.", "priority": "high"}]);
    assert_eq!(shown.json()["notifications"], notifications);
    app.close(None).await.unwrap();
    while bench.get("/v1/clients").await.json()["items"][0]["connected"] != false {}
}

#[tokio::test]
async fn an_answer_right_before_leaving_counts() {
    let bench = Bench::new();
    let address = bench.listen(10).await;
    let (mut app, _) = connect(address, "/", &[]).await;
    register(&mut app, "notebook").await;
    let id = bench.say("notebook: x").await;
    let frame = next(&mut app).await;
    respond(&mut app, &frame, "ack", json!({})).await;
    drop(app);
    let settled = bench.get(&format!("/v1/messages/{id}?wait=20")).await.json();
    assert_eq!(settled["state"], "delivered", "{settled}");
}

#[tokio::test]
async fn a_message_of_exactly_a_mebibyte_passes() {
    let bench = Bench::new();
    let address = bench.listen(10).await;
    let (mut app, _) = connect(address, "/", &[]).await;
    register(&mut app, "notebook").await;
    for binary in [false, true] {
        let frame = " ".repeat(1024 * 1024 - 2) + "{}";
        app.send(if binary { Message::binary(frame) } else { Message::text(frame) }).await.unwrap();
        assert_eq!(next(&mut app).await["type"], "error");
    }
    // The server may have closed the connection before everything is written.
    drop(app.send(Message::text("x".repeat(1024 * 1024 + 1))).await);
    match app.next().await {
        Some(Ok(Message::Close(Some(frame)))) => assert_eq!(u16::from(frame.code), 1009),
        other => panic!("unexpected: {other:?}"),
    }
}

#[tokio::test]
async fn subprotocols_are_answered() {
    let bench = Bench::new();
    let address = bench.listen(10).await;
    assert_eq!(connect(address, "/", &[]).await.1, "");
    assert_eq!(connect(address, "/", &[("sec-websocket-protocol", "smart, other")]).await.1, "smart");
    assert_eq!(connect(address, "/", &[("sec-websocket-protocol", "smart, bearer.t")]).await.1, "bearer.t");
}

#[tokio::test]
async fn an_app_shows_its_token_wherever_it_can() {
    let bench = Bench::with(Setup { pairing: PairingMode::Token, ..Setup::default() });
    let address = bench.listen(10).await;
    let paired = bench.as_operator("POST", "/v1/clients/notebook/pair", "").await.json();
    let token = paired["token"].as_str().unwrap();
    let (mut app, _) = connect(address, "/", &[]).await;
    let refused = register(&mut app, "notebook").await;
    assert_eq!(refused["code"], "VALIDATION_ERROR");
    assert!(refused["message"].as_str().unwrap().contains("patchboard hub pair notebook"), "{refused}");
    // The socket is still good for the right one.
    let mut shown = registration("notebook");
    shown["payload"]["token"] = token.into();
    send(&mut app, shown).await;
    assert_eq!(next(&mut app).await["payload"]["success"], true);
    let taken = bench.as_operator("GET", "/v1/clients", "").await.json();
    assert_eq!(taken["items"][0]["approved"], true);
    let head = format!("Bearer {token}");
    let protocol = format!("bearer.{token}");
    for header in [("authorization", head.as_str()), ("sec-websocket-protocol", protocol.as_str())] {
        app.close(None).await.unwrap();
        while bench.as_operator("GET", "/v1/clients", "").await.json()["items"][0]["connected"] != false {}
        app = connect(address, "/", &[header]).await.0;
        assert_eq!(register(&mut app, "notebook").await["success"], true, "{header:?}");
    }
}

/// Opens a WebSocket by hand, so that nothing is answered that a test does not answer.
async fn open_by_hand(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    stream
}

#[tokio::test]
async fn whoever_does_not_pong_is_cut_off_without_a_close_frame() {
    let brief = Duration::from_millis(20);
    let times = HubTimeouts { ping_interval: brief, pong_timeout: brief, ..HubTimeouts::default() };
    let bench = Bench::with(Setup { times, ..Setup::default() });
    let mut deaf = open_by_hand(bench.listen(10).await).await;
    let mut received = Vec::new();
    deaf.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, [0x89, 0], "a ping, and the end");
}

#[tokio::test]
async fn whoever_pongs_stays_and_whoever_does_not_register_goes() {
    let brief = Duration::from_millis(20);
    // There is room for a hundred pings before it is over, of which a busy machine has to manage two.
    let pong_timeout = Duration::from_secs(600);
    let times =
        HubTimeouts { ping_interval: brief, pong_timeout, register_timeout: brief * 100, ..HubTimeouts::default() };
    let bench = Bench::with(Setup { times, ..Setup::default() });
    let address = bench.listen(10).await;
    let (mut app, _) = connect(address, "/", &[]).await;
    register(&mut app, "notebook").await;
    let (mut nobody, _) = connect(address, "/", &[]).await;
    let mut pings = 0;
    // The client answers pings by itself while it is read from.
    while let Some(Ok(message)) = nobody.next().await {
        assert!(matches!(message, Message::Ping(_)), "{message:?}");
        pings += 1;
    }
    assert!(pings >= 2, "{pings}");
    // The other one was not read from all the while, and had ten minutes to answer.
    bench.say("notebook: x").await;
    assert_eq!(next(&mut app).await["payload"]["text"], "x");
}

#[tokio::test]
async fn there_are_so_many_places() {
    let bench = Bench::new();
    let address = bench.listen(2).await;
    let (mut app, _) = connect(address, "/", &[]).await;
    register(&mut app, "notebook").await;
    let unregistered = connect(address, "/", &[]).await;
    let request = format!("ws://{address}/").into_client_request().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    match tokio_tungstenite::client_async(request, stream).await {
        Err(tokio_tungstenite::tungstenite::Error::Http(refused)) => assert_eq!(refused.status(), 503),
        other => panic!("unexpected: {other:?}"),
    }
    drop(unregistered);
    bench.say("notebook: x").await;
    assert_eq!(next(&mut app).await["payload"]["text"], "x");
}

#[tokio::test]
async fn a_living_connection_keeps_its_name_and_the_end_is_told() {
    let bench = Bench::new();
    let address = bench.listen(10).await;
    let (mut app, _) = connect(address, "/", &[]).await;
    register(&mut app, "Notebook").await;
    let (mut rival, _) = connect(address, "/", &[]).await;
    send(&mut rival, registration("notebook")).await;
    let refused = tokio::select! {
        refused = next(&mut rival) => refused,
        // The client library answers pings only while it is read.
        frame = next(&mut app) => panic!("unexpected: {frame}"),
    };
    assert_eq!(refused["payload"]["code"], "DUPLICATE_NAME");
    bench.draining.cancel();
    bench.board.drain(Duration::ZERO).await.unwrap();
    for socket in [&mut app, &mut rival] {
        let mut message = socket.next().await;
        while let Some(Ok(Message::Ping(_))) = message {
            message = socket.next().await;
        }
        match message {
            Some(Ok(Message::Close(Some(frame)))) => assert_eq!(u16::from(frame.code), 1001),
            other => panic!("unexpected: {other:?}"),
        }
    }
    bench.tracker.close();
    bench.tracker.wait().await;
}
