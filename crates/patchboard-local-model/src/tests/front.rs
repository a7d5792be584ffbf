//! The public address against hand-made servers and clients.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::within;
use crate::activity::ServerActivity;
use crate::proxy::{BackendState, serve};

async fn front(upstream: BackendState) -> (SocketAddr, watch::Sender<BackendState>, DropGuard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (say, hear) = watch::channel(upstream);
    let stop = CancellationToken::new();
    let tracker = TaskTracker::new();
    tracker.spawn(serve(listener, hear, ServerActivity::new(Instant::now()), stop.clone(), tracker.clone()));
    (address, say, stop.drop_guard())
}

#[tokio::test]
async fn a_stopped_server_is_a_well_formed_503() {
    let (address, _say, _stop) = front(BackendState::Stopped).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    within(client.read_to_string(&mut answer)).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    let error: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(error["error"]["message"], "the local model is not available now");
}

#[tokio::test]
async fn an_early_answer_survives_a_request_still_being_sent() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, _say, _stop) = front(BackendState::Ready(server.local_addr().unwrap())).await;
    let refusing = TaskTracker::new().spawn(async move {
        let (mut peer, _) = server.accept().await.unwrap();
        let mut some = [0; 16];
        peer.read_exact(&mut some).await.unwrap();
        peer.write_all(b"HTTP/1.1 401 Unauthorized\r\n\r\n").await.unwrap();
        peer.shutdown().await.unwrap();
        // Reads the rest like a server that lingers, so that only the front's own closing is tested.
        tokio::io::copy(&mut peer, &mut tokio::io::sink()).await.unwrap();
    });
    let client = TcpStream::connect(address).await.unwrap();
    let (mut read, mut write) = client.into_split();
    let sending = TaskTracker::new().spawn(async move {
        // Far more than the buffers of the sockets hold.
        for _ in 0..256 {
            if write.write_all(&[b'x'; 65536]).await.is_err() {
                break;
            }
        }
    });
    let mut answer = String::new();
    within(read.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(answer, "HTTP/1.1 401 Unauthorized\r\n\r\n");
    within(sending).await.unwrap();
    within(refusing).await.unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_behind() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, _say, _stop) = front(BackendState::Ready(server.local_addr().unwrap())).await;
    let client = TcpStream::connect(address).await.unwrap();
    let (mut peer, _) = within(server.accept()).await.unwrap();
    drop(client);
    assert_eq!(within(peer.read(&mut [0; 1])).await.unwrap(), 0);
}

#[tokio::test]
async fn a_client_waits_for_the_successor() {
    // Bound, so that nobody else gets the port, but nobody listens at it.
    let dead = TcpSocket::new_v4().unwrap();
    dead.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let (address, say, _stop) = front(BackendState::Ready(dead.local_addr().unwrap())).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"ping").await.unwrap();
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    say.send_replace(BackendState::Restarting);
    say.send_replace(BackendState::Ready(server.local_addr().unwrap()));
    let (mut peer, _) = within(server.accept()).await.unwrap();
    let mut asked = [0; 4];
    within(peer.read_exact(&mut asked)).await.unwrap();
    assert_eq!(&asked, b"ping");
}
