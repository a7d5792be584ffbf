//! A collector that answers as it is told and keeps what it got.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

#[derive(Debug, Clone)]
pub(super) struct Collector {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
}

#[derive(Debug, Clone)]
pub(super) struct Received {
    /// The request line and the headers, in lower case.
    pub(super) head: String,
    pub(super) body: Value,
}

/// A status line and, after a blank, a body.
pub(super) const OK: &str = "200 OK {}";

impl Collector {
    /// Gives these answers in order, then `OK` for ever.
    pub(super) async fn start(answers: impl IntoIterator<Item = &'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let collector = Self { port: listener.local_addr().unwrap().port(), received: Arc::default() };
        let (serving, mut answers) = (collector.clone(), answers.into_iter().collect::<Vec<_>>().into_iter());
        TaskTracker::new().spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let received = read(&mut stream).await;
                serving.received.lock().unwrap().push(received);
                let (status, body) = answers.next().unwrap_or(OK).rsplit_once(' ').unwrap();
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}", body.len());
                stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
            }
        });
        collector
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The names of the spans of each request.
    pub(super) fn names(&self) -> Vec<Vec<String>> {
        self.received().iter().map(Received::names).collect()
    }
}

impl Received {
    fn names(&self) -> Vec<String> {
        let spans = self.body.pointer("/resourceSpans/0/scopeSpans/0/spans").and_then(Value::as_array).unwrap();
        spans.iter().map(|span| span["name"].as_str().unwrap().to_owned()).collect()
    }
}

async fn read(stream: &mut TcpStream) -> Received {
    let mut bytes = Vec::new();
    let end = loop {
        stream.read_buf(&mut bytes).await.unwrap();
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = bytes.split_off(end);
    while body.len() < length {
        stream.read_buf(&mut body).await.unwrap();
    }
    Received { head, body: serde_json::from_slice(&body).unwrap() }
}
