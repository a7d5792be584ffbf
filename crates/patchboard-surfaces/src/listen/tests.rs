//! Connections past the limit.

use std::net::Ipv4Addr;

use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

impl Peer {
    /// A peer at that address, for tests that ask a router without a socket.
    pub(crate) fn at(address: IpAddr) -> Self {
        let places = ConnectionSlots::new(1);
        let permit = places.permits.clone().try_acquire_owned().unwrap();
        Self::new("test", address, None, permit, &places.pool)
    }
}

struct Served {
    addresses: [SocketAddr; 2],
    stop: CancellationToken,
    tracker: TaskTracker,
}

async fn serve_two(places: usize) -> Served {
    let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
    let places = ConnectionSlots::new(places);
    let mut addresses = Vec::new();
    for _ in 0..2 {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        addresses.push(socket.local_addr().unwrap());
        let router = Router::new()
            .route("/", get(async || "hello"))
            .route("/whole", post(async |body: String| body))
            .route("/unread", post(async || "not now"));
        tracker.spawn(serve_or_refuse("test", socket, None, places.clone(), router, stop.clone(), tracker.clone()));
    }
    Served { addresses: addresses.try_into().unwrap(), stop, tracker }
}

async fn ask(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn whoever_comes_too_many_is_told_so_whatever_the_listener() {
    let served = serve_two(2).await;
    let [first, second] = served.addresses;
    let mut inside = TcpStream::connect(first).await.unwrap();
    let mut beside = TcpStream::connect(second).await.unwrap();
    for address in [first, second] {
        let answer = ask(&mut TcpStream::connect(address).await.unwrap()).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", text.len())), "{answer}");
    }
    assert!(ask(&mut inside).await.ends_with("hello"));
    assert!(ask(&mut beside).await.ends_with("hello"));
    // A slot is released when its connection has ended, slightly after the peer has observed the end.
    while !ask(&mut TcpStream::connect(first).await.unwrap()).await.ends_with("hello") {}
}

/// One answer whose length is announced, and nothing after it.
async fn next_answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(answer).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    head + std::str::from_utf8(&body).unwrap()
}

const ASKING: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn posting(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_connection_carries_one_request_after_the_other() {
    let served = serve_two(1).await;
    let mut stream = TcpStream::connect(served.addresses[0]).await.unwrap();
    for (request, text) in
        [(ASKING.to_owned(), "hello"), (posting("/whole", "all of it"), "all of it")].iter().cycle().take(6)
    {
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = next_answer(&mut stream).await;
        assert!(answer.ends_with(text) && !answer.contains("connection:"), "{answer}");
    }
}

#[tokio::test]
async fn a_body_that_was_not_read_ends_its_connection() {
    let served = serve_two(1).await;
    let mut stream = TcpStream::connect(served.addresses[0]).await.unwrap();
    // What was not read must not be taken for the next request.
    stream.write_all(posting("/unread", ASKING).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("connection: close\r\n") && answer.ends_with("not now"), "{answer}");
    // Without a body there is nothing left to read.
    let mut stream = TcpStream::connect(served.addresses[1]).await.unwrap();
    for _ in 0..2 {
        stream.write_all(posting("/unread", "").as_bytes()).await.unwrap();
        assert!(!next_answer(&mut stream).await.contains("connection:"));
    }
}

#[tokio::test]
async fn what_was_read_of_one_request_is_not_charged_to_the_next() {
    let reads = Peer::at(IpAddr::V4(Ipv4Addr::LOCALHOST)).read_budget;
    reads.record_read(UnfinishedPool::FAIR_SHARE + 1);
    assert_eq!(reads.pool.0.load(Ordering::Relaxed), 1);
    reads.message_completed();
    assert_eq!((reads.pool.0.load(Ordering::Relaxed), reads.unfinished.load(Ordering::Relaxed)), (0, 0));
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let served = serve_two(1).await;
    let mut stream = TcpStream::connect(served.addresses[0]).await.unwrap();
    stream.write_all(ASKING.as_bytes()).await.unwrap();
    assert!(next_answer(&mut stream).await.ends_with("hello"));
    tokio::time::pause();
    let before = tokio::time::Instant::now();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    assert!(before.elapsed() >= HEAD_TIMEOUT, "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_says_nothing_is_not_waited_for() {
    let served = serve_two(0).await;
    let mut silent = TcpStream::connect(served.addresses[0]).await.unwrap();
    let mut nothing = Vec::new();
    // Paused time advances only when all tasks wait, here for the refusal's timeout.
    drop(silent.read_to_end(&mut nothing).await);
    assert!(nothing.is_empty());
    served.stop.cancel();
    served.tracker.close();
    served.tracker.wait().await;
}
