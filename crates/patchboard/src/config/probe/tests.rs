use std::net::Ipv4Addr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::Instant,
};

use super::{Candidate, PROBE_TIMEOUT, parse_answer, probe};

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
        assert_eq!(parse_answer(answer.as_bytes()), models, "{answer}");
    }
    assert_eq!(parse_answer(&[0xff; 64]), None);
}

/// Answers one connection with `answer`, or leaves it open for ever.
async fn server(answer: Option<&'static str>) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    #[expect(clippy::disallowed_methods, reason = "a test has no tracker to drain")]
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let read = stream.read(&mut request).await.unwrap();
        match answer {
            Some(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
            None => std::future::pending().await,
        }
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    (port, task)
}

#[tokio::test]
async fn asks_for_models_and_keeps_the_order() {
    let (port, task) = server(Some("HTTP/1.0 200 OK\r\n\r\n{\"data\":[{\"id\":\"m\"}]}")).await;
    let (other_port, _other) = server(Some("HTTP/1.0 200 OK\r\n\r\n{\"data\":[]}")).await;
    let candidates = [Candidate::new("a", "A", port), Candidate::new("b", "B", other_port)];
    let found = probe(&candidates).await;
    let names: Vec<&str> = found.iter().map(|server| server.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(found[0].chat_model(), Some("m"));
    assert_eq!(found[0].root(), format!("http://127.0.0.1:{port}/v1"));
    let request = task.await.unwrap();
    assert!(request.starts_with("GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1:"), "{request}");
}

#[tokio::test]
async fn nobody_there_or_nobody_answering_costs_little() {
    let (silent, _task) = server(None).await;
    let closed = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let mut candidates = vec![Candidate::new("closed", "Closed", closed)];
    candidates.resize(40, Candidate::new("silent", "Silent", silent));
    let started = Instant::now();
    assert!(probe(&candidates).await.is_empty());
    // All are asked at once, so many silences are as long as one.
    assert!(started.elapsed() < PROBE_TIMEOUT * 20, "{:?}", started.elapsed());
}
