//! The router over a board in memory: requests without a socket here, connections on real ones in `sockets`.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::Uri;
use patchboard_core::hub::PairingMode;
use patchboard_core::scripted::ManualClock;
use patchboard_testkit::board::TestBoard;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;

mod doors;
mod messages;
mod sockets;

const OPERATOR: &str = "the operator's token";

struct Bench {
    router: Router,
    board: Board,
    tracker: TaskTracker,
    draining: CancellationToken,
}

struct Setup {
    pairing: PairingMode,
    times: HubTimeouts,
}

impl Default for Setup {
    fn default() -> Self {
        Self { pairing: PairingMode::Open, times: HubTimeouts::default() }
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Status and code of a refusal, which says why.
    fn fault(&self) -> (u16, String) {
        let fault = &self.json()["error"];
        assert!(fault["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        (self.status, fault["code"].as_str().unwrap().to_owned())
    }
}

impl Bench {
    fn new() -> Self {
        Self::with(Setup::default())
    }

    fn with(setup: Setup) -> Self {
        let board = TestBoard::new([]).with(|parts| parts.hub.pairing = setup.pairing).assemble();
        let (tracker, draining) = (TaskTracker::new(), CancellationToken::new());
        let options = HubOptions {
            gate: AuthGate::new("hub", None, Some(OPERATOR.into()), Arc::default()),
            http_needs_token: setup.pairing == PairingMode::Token,
            guard: OriginGuard {
                surface: "hub",
                allowed_hosts: Vec::new(),
                allowed_origins: vec!["app://obsidian.md".to_owned()],
            },
            timeouts: setup.times,
            clock: Arc::new(ManualClock::default()),
            max_sockets: 100,
            stall: Duration::from_secs(30),
            draining: draining.clone(),
            tracker: tracker.clone(),
        };
        Self { router: router(board.clone(), options), board, tracker, draining }
    }

    async fn send(&self, request: Request) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        Answer { status, headers, text: String::from_utf8(body.to_vec()).unwrap() }
    }

    async fn ask(&self, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        self.send(request(method, path, &[], body)).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "").await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask("POST", path, body.to_string()).await
    }

    async fn as_operator(&self, method: &str, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {OPERATOR}");
        self.send(request(method, path, &[("authorization", &bearer)], body.to_owned())).await
    }

    /// Submits an utterance that needs no immediate answer; returns its id.
    async fn say(&self, text: &str) -> String {
        let response = self.post("/v1/messages", json!({ "text": text })).await;
        assert_eq!(response.status, 202, "{response:?}");
        response.json()["id"].as_str().unwrap().to_owned()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.draining.cancel();
    }
}

/// From this machine, unless a test says otherwise.
fn request(method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Request {
    let mut builder = Request::builder().method(method).uri(path.parse::<Uri>().unwrap());
    if !headers.iter().any(|(name, _)| *name == "host") {
        builder = builder.header("host", "localhost:9473");
    }
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let mut request = builder.body(body.into()).unwrap();
    request.extensions_mut().insert(Peer::at("127.0.0.1".parse::<IpAddr>().unwrap()));
    request
}
