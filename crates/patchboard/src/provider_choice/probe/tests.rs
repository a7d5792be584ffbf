use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{ServerCandidate, parse_model_list, probe};

/// A probe waits so briefly that on a busy machine even a server that is there may be missed; then it is tried again.
const TRIES: usize = 10;

#[test]
fn answers() {
    let ok = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}");
    let some = |models: &[&str]| Some(models.iter().map(|model| (*model).to_owned()).collect::<Vec<_>>());
    let cases = [
        (ok(r#"{"object":"list","data":[{"id":"llama3.2","object":"model"},{"id":"b"}]}"#), some(&["llama3.2", "b"])),
        (ok(r#"{"data":null}"#), some(&[])),
        (ok("{}"), some(&[])),
        (ok("[]"), None),
        (ok("<html>"), None),
        (ok(r#"{"data":[{"name":"x"}]}"#), None),
        ("HTTP/1.1 404 Not Found\r\n\r\n{\"data\":[]}".to_owned(), None),
        ("HTTP/1.1 426 Upgrade Required\r\n\r\n".to_owned(), None),
        ("SSH-2.0-OpenSSH_9.9\r\n".to_owned(), None),
        (String::new(), None),
        ("\r\n\r\n".to_owned(), None),
    ];
    for (answer, models) in cases {
        assert_eq!(parse_model_list(answer.as_bytes()), models, "{answer}");
    }
    assert_eq!(parse_model_list(&[0xff; 64]), None);
}

struct Server {
    port: u16,
    seen: Arc<Seen>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<String>>,
    open: AtomicUsize,
    most_open: AtomicUsize,
}

/// Answers every connection with `answer`, or leaves it open until the client closes it.
async fn server(answer: Option<&'static str>) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let (port, seen) = (listener.local_addr().unwrap().port(), Arc::<Seen>::default());
    let tasks = TaskTracker::new();
    let serving = AbortOnDropHandle::new(tasks.clone().spawn({
        let seen = seen.clone();
        async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let open = seen.open.fetch_add(1, Ordering::SeqCst) + 1;
                seen.most_open.fetch_max(open, Ordering::SeqCst);
                let seen = seen.clone();
                tasks.spawn(async move {
                    // The client may be gone at any time.
                    drop(serve(stream, answer, &seen).await);
                    seen.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        }
    }));
    Server { port, seen, _serving: serving }
}

async fn serve(mut stream: TcpStream, answer: Option<&'static str>, seen: &Seen) -> std::io::Result<()> {
    let mut request = [0; 1024];
    let read = stream.read(&mut request).await?;
    seen.requests.lock().unwrap().push(String::from_utf8_lossy(&request[..read]).into_owned());
    match answer {
        Some(answer) => stream.write_all(answer.as_bytes()).await,
        None => stream.read(&mut request).await.map(|_| ()),
    }
}

#[tokio::test]
async fn asks_for_models_and_keeps_the_order() {
    let one = server(Some("HTTP/1.0 200 OK\r\n\r\n{\"data\":[{\"id\":\"m\"}]}")).await;
    let other = server(Some("HTTP/1.0 200 OK\r\n\r\n{\"data\":[]}")).await;
    let port = one.port;
    let candidates = [ServerCandidate::new("a", "A", port), ServerCandidate::new("b", "B", other.port)];
    let mut found = probe(&candidates).await;
    for _ in 1..TRIES {
        if found.len() < candidates.len() {
            found = probe(&candidates).await;
        }
    }
    let names: Vec<&str> = found.iter().map(|server| server.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(found[0].chat_model(), Some("m"));
    assert_eq!(found[0].root(), format!("http://127.0.0.1:{port}/v1"));
    let request = one.seen.requests.lock().unwrap().last().unwrap().clone();
    assert!(request.starts_with("GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1:"), "{request}");
}

#[tokio::test]
async fn nobody_there_or_nobody_answering_costs_little() {
    let silent = server(None).await;
    // Bound, so that nobody else gets the port, but nobody listens at it.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let mut candidates = vec![ServerCandidate::new("closed", "Closed", closed.local_addr().unwrap().port())];
    candidates.resize(40, ServerCandidate::new("silent", "Silent", silent.port));
    for _ in 0..TRIES {
        assert!(probe(&candidates).await.is_empty());
        // All are asked at once, so many silences are as long as one.
        if silent.seen.most_open.load(Ordering::SeqCst) >= 39 {
            return;
        }
    }
    panic!("at most {:?} were asked at once", silent.seen.most_open);
}
