//! Connections past the limit.

use std::net::Ipv4Addr;

use axum::routing::get;
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
        let router = Router::new().route("/", get(async || "hello"));
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
