//! On real sockets: what a connection's end means.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::answers::held;
use super::*;
use crate::listen::{self, Listener};

/// Long enough on any machine; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(bench: &Bench) -> TcpStream {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let listener = Listener { surface: "gateway", socket, max_connections: 10, local_users: None };
    let tracker = TaskTracker::new();
    tracker.spawn(listen::serve(listener, bench.router.clone(), bench.draining.clone(), tracker.clone()));
    TcpStream::connect(address).await.unwrap()
}

fn head(channel: &str, length: usize) -> String {
    format!(
        "POST /webhook/{channel} HTTP/1.1\r\nhost: localhost\r\nx-token: {SECRET}\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// The same, and the client asks for nothing more on this connection.
fn last_head(channel: &str, length: usize) -> String {
    head(channel, length).replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn whoever_hangs_up_is_answered_another_way() {
    let (script, gate) = held();
    let bench = Bench::with(Setup { scripts: vec![script], ..Setup::default() });
    let mut stream = connect(&bench).await;
    stream.write_all(format!("{}hello", head("wait", 5)).as_bytes()).await.unwrap();
    let stop = bench.adapter.next_stop().await;
    drop(stream);
    tokio::time::timeout(PATIENCE, stop.cancelled()).await.unwrap();
    // The board is notified too, before the model continues.
    tokio::task::yield_now().await;
    gate.close();
    let reply = tokio::time::timeout(PATIENCE, bench.next_reply()).await.unwrap();
    assert_eq!((reply.content.as_str(), reply.is_synchronous), ("at last", false));
}

#[tokio::test]
async fn whoever_was_heard_out_is_not_gone() {
    let bench = Bench::new();
    let mut stream = connect(&bench).await;
    stream.write_all(format!("{}hello", last_head("wait", 5)).as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok"), "{answer}");
    assert!(!bench.adapter.next_stop().await.is_cancelled());
}

#[tokio::test]
async fn a_service_posts_several_webhooks_on_one_connection() {
    let bench = Bench::new();
    let mut stream = connect(&bench).await;
    // The last one is refused, but its body was read: only its own head ends the connection.
    let too_late = last_head("slack", 5);
    for head in [head("wait", 5), head("wait", 5), head("nobody", 0), too_late] {
        stream.write_all(head.as_bytes()).await.unwrap();
        if !head.contains("content-length: 0") {
            stream.write_all(b"hello").await.unwrap();
        }
    }
    let mut answers = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answers)).await.unwrap().unwrap();
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)).collect();
    assert_eq!(statuses, ["200", "200", "404", "401"], "{answers}");
    assert_eq!(answers.matches("connection: close").count(), 1, "{answers}");
}

/// A refusal comes while the body is still on its way, and is heard all the same.
#[tokio::test]
async fn refusals_are_heard_in_the_middle_of_a_body() {
    let bench = Bench::new();
    let large = vec![b'x'; 4 * MAX_BODY];
    for (head, status) in [
        (head("hook", large.len()), "413"),
        (head("nobody", large.len()), "404"),
        (head("hook", large.len()).replace(SECRET, "wrong"), "401"),
    ] {
        let (mut answers, mut sending) = connect(&bench).await.into_split();
        sending.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let exchange = async {
            // Whether all of it is taken does not matter.
            tokio::join!(sending.write_all(&large), answers.read_to_string(&mut answer)).1
        };
        tokio::time::timeout(PATIENCE, exchange).await.unwrap().unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    }
}
