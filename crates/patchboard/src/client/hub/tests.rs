use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{ForgetScope, HubClient, HubError, LocalUrl, percent_encode, socket_addresses};

/// A hub that gives these answers, one per connection, and the requests it got.
async fn scripted(answers: &[&str], ask: impl AsyncFnOnce(HubClient)) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = HubClient {
        authority: listener.local_addr().unwrap().to_string(),
        token: Some("0123456789abcdef0123456789abcdef".into()),
    };
    let serve = async {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !is_whole(&request) {
                let mut piece = [0; 1024];
                let count = stream.read(&mut piece).await.unwrap();
                assert_ne!(count, 0, "the request was cut short");
                request.extend_from_slice(&piece[..count]);
            }
            requests.push(String::from_utf8(request).unwrap());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        requests
    };
    let (requests, ()) = tokio::join!(serve, ask(client));
    requests
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    length.is_none_or(|length| body.len() == length.parse::<usize>().unwrap())
}

fn first_lines(requests: &[String]) -> Vec<&str> {
    requests.iter().map(|request| request.lines().next().unwrap_or_default()).collect()
}

#[tokio::test]
async fn a_message_is_submitted_as_the_operator() {
    let requests = scripted(&["HTTP/1.1 202 Accepted\r\n\r\n{\"id\":\"msg-1\"}"], async |client| {
        let answer = client.submit(&json!({ "text": "hello\r\nworld" })).await;
        assert_eq!(answer, Ok(json!({ "id": "msg-1" })));
    })
    .await;
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), json!({ "text": "hello\r\nworld" }));
    assert_eq!(head.lines().next(), Some("POST /v1/messages HTTP/1.1"));
    for header in ["Connection: close", "Authorization: Bearer 0123456789abcdef0123456789abcdef"] {
        assert!(head.lines().any(|line| line == header), "{head}");
    }
}

#[tokio::test]
async fn lists_are_read_to_the_wanted_length() {
    let page = |items: &str, next: &str| format!("HTTP/1.1 200 OK\r\n\r\n{{\"items\":{items},\"next_cursor\":{next}}}");
    let answers = [page("[1,2]", "\"a/b\""), page("[3]", "null")];
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    let requests = scripted(&answers, async |client| {
        assert_eq!(client.messages(Some("held"), 150).await, Ok(vec![json!(1), json!(2), json!(3)]));
    })
    .await;
    let expected = [
        "GET /v1/messages?limit=100&state=held HTTP/1.1",
        "GET /v1/messages?limit=100&state=held&cursor=a%2Fb HTTP/1.1",
    ];
    assert_eq!(first_lines(&requests), expected);
}

#[tokio::test]
async fn every_request_has_its_path() {
    let fine = "HTTP/1.1 200 OK\r\n\r\n{}";
    let requests = scripted(&[fine; 9], async |client| {
        let wait = Duration::from_millis(1500);
        drop(client.message("a b").await);
        drop(client.message_after("m", 7, wait).await);
        drop(client.message_after("m", 7, Duration::from_secs(9999)).await);
        drop(client.resend("m").await);
        drop(client.route("m", "x").await);
        drop(client.cancel("m").await);
        drop(client.approve("../x").await);
        drop(client.pair("x").await);
        drop(client.forget("x", ForgetScope::Everything).await);
    })
    .await;
    let expected = [
        "GET /v1/messages/a%20b HTTP/1.1",
        "GET /v1/messages/m?newer_than=7&wait=2 HTTP/1.1",
        "GET /v1/messages/m?newer_than=7&wait=120 HTTP/1.1",
        "POST /v1/messages/m/resend HTTP/1.1",
        "POST /v1/messages/m/route HTTP/1.1",
        "POST /v1/messages/m/cancel HTTP/1.1",
        "POST /v1/clients/..%2Fx/approve HTTP/1.1",
        "POST /v1/clients/x/pair HTTP/1.1",
        "POST /v1/clients/x/forget HTTP/1.1",
    ];
    assert_eq!(first_lines(&requests), expected);
}

#[tokio::test]
async fn a_hub_that_says_nothing_is_unreachable() {
    scripted(&[""], async |client| {
        let answer = client.message("m").await;
        assert!(matches!(answer, Err(HubError::Unreachable { .. })), "{answer:?}");
    })
    .await;
}

#[test]
fn only_hubs_of_this_machine_are_asked() {
    let named =
        |url: &str| HubClient::of_url(url, None).map(|client| client.authority).map_err(|error| error.to_string());
    let good = [
        ("http://127.0.0.1:9473", "127.0.0.1:9473"),
        ("ws://localhost:1/", "localhost:1"),
        ("127.0.0.1:5", "127.0.0.1:5"),
        ("http://[::1]:7", "[::1]:7"),
        ("http://127.0.0.1", "127.0.0.1:9473"),
    ];
    for (url, authority) in good {
        assert_eq!(named(url).as_deref(), Ok(authority));
    }
    for url in ["http://example.com:9473", "https://127.0.0.1:1", "http://10.0.0.1:1", "http://", "a b", "127.0.0.1:x"]
    {
        assert!(named(url).is_err(), "{url}");
    }
    assert!(HubClient::of_url("127.0.0.1:1", Some("a\r\nb".into())).is_err());
    assert!(named("[::ffff:127.0.0.1]:1").is_ok() && named("127.9.9.9:1").is_ok() && named("[::2]:1").is_err());
}

#[test]
fn names_of_this_machine_are_not_resolved() {
    for (authority, expected) in [
        ("127.0.0.1:5", "127.0.0.1:5"),
        ("[::1]:5", "[::1]:5"),
        ("localhost:5", "[::1]:5 127.0.0.1:5"),
        ("App.Localhost:5", "[::1]:5 127.0.0.1:5"),
        ("example.com:5", ""),
        ("localhost", ""),
    ] {
        let found: Vec<String> = socket_addresses(authority).iter().map(ToString::to_string).collect();
        assert_eq!(found.join(" "), expected, "{authority}");
    }
}

#[test]
fn addresses_with_a_path() {
    let read = |url: &str| LocalUrl::read(url, &["ws"]).ok().map(|url| format!("{} {}", url.authority, url.path));
    let cases = [
        ("ws://127.0.0.1:9474", Some("127.0.0.1:9474 /")),
        ("ws://localhost:0/", Some("localhost:0 /")),
        ("127.0.0.1:5", Some("127.0.0.1:5 /")),
        ("ws://[::1]:9/socket", Some("[::1]:9 /socket")),
        ("ws://127.0.0.1", Some("127.0.0.1:9473 /")),
        ("wss://127.0.0.1:1", None),
        ("http://127.0.0.1:1", None),
        ("ws://user@127.0.0.1:1", Some("127.0.0.1:1 /")),
        ("ws://user@127.0.0.1", None),
        ("ws://127.0.0.1:70000", None),
        ("ws://192.168.0.1:1", None),
        ("ws://0.0.0.0:1", None),
        ("ws://", None),
        ("", None),
    ];
    for (url, expected) in cases {
        assert_eq!(read(url).as_deref(), expected, "{url}");
    }
}

#[test]
fn parts_of_a_path_are_encoded() {
    assert_eq!(percent_encode("msg-1_2.3~"), "msg-1_2.3~");
    assert_eq!(percent_encode("a/b?c&d=é\r\n"), "a%2Fb%3Fc%26d%3D%C3%A9%0D%0A");
}
