//! A scripted HTTP server on a real socket.
#![expect(clippy::unwrap_used, reason = "a test that gets no socket has failed")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// What one connection is answered with.
#[derive(Debug)]
pub struct Answer {
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Debug, PartialEq, Eq)]
enum Then {
    Close,
    /// Nothing more, until the client goes away.
    Hold,
}

impl Answer {
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then: Then::Close }
    }

    pub fn then_hold(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then: Then::Hold }
    }

    pub fn ok(body: &str) -> Self {
        Self::with("200 OK", "text/plain", body)
    }

    pub fn with(status: &str, content_type: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n");
        Self::raw([head.as_bytes(), body].concat())
    }

    pub fn redirect(status: u16, location: &str) -> Self {
        Self::raw(format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"))
    }
}

/// Answers one connection after another; without an answer it closes them.
#[derive(Debug)]
pub struct Stub {
    port: u16,
    shared: Arc<Shared>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    answers: Mutex<VecDeque<Answer>>,
    received: Mutex<Vec<String>>,
    holding: watch::Sender<bool>,
    left: watch::Sender<bool>,
}

impl Stub {
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            answers: Mutex::new(answers.into_iter().collect()),
            received: Mutex::default(),
            holding: watch::Sender::new(false),
            left: watch::Sender::new(false),
        });
        let serving = AbortOnDropHandle::new(TaskTracker::new().spawn({
            let shared = Arc::clone(&shared);
            async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    shared.serve(stream).await;
                }
            }
        }));
        Self { port, shared, _serving: serving }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn add(&self, answer: Answer) {
        self.shared.answers.lock().unwrap().push_back(answer);
    }

    /// The requests, head and body.
    pub fn received(&self) -> Vec<String> {
        self.shared.received.lock().unwrap().clone()
    }

    /// Resolves when an answer is being held back.
    pub async fn holding(&self) {
        self.shared.holding.subscribe().wait_for(|holding| *holding).await.unwrap();
    }

    /// Resolves when a client has left an answer that was being held back.
    pub async fn left(&self) {
        self.shared.left.subscribe().wait_for(|left| *left).await.unwrap();
    }
}

/// A port without a listener, reserved for the lifetime of this value.
#[derive(Debug)]
pub struct ClosedPort(TcpSocket);

impl ClosedPort {
    pub fn take() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self(socket)
    }

    pub fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }
}

impl Shared {
    async fn serve(&self, mut stream: TcpStream) {
        let Some(request) = read_request(&mut stream).await else { return };
        self.received.lock().unwrap().push(request);
        let Some(answer) = self.answers.lock().unwrap().pop_front() else { return };
        // A client may have heard enough before the end.
        drop(stream.write_all(&answer.bytes).await);
        if answer.then == Then::Hold {
            self.holding.send_replace(true);
            while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
            self.left.send_replace(true);
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        let mut piece = [0; 1024];
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
    }
}
