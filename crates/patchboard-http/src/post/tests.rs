use super::*;

#[test]
fn addresses() {
    let cases = [
        ("http://127.0.0.1:4318", Ok("http://127.0.0.1:4318/v1/traces")),
        (" http://127.0.0.1:4318/ ", Ok("http://127.0.0.1:4318/v1/traces")),
        ("https://traces.example/otlp/", Ok("https://traces.example/otlp/v1/traces")),
        ("https://traces.example/otlp/v1/traces", Ok("https://traces.example/otlp/v1/traces")),
        ("https://traces.example/v1/traces/", Ok("https://traces.example/v1/traces")),
        ("http://u:p@host:1?team=a", Ok("http://u:p@host:1/v1/traces?team=a")),
        ("localhost:4318", Err("it must start with `http://` or `https://`")),
        ("127.0.0.1", Err("it is not a URL")),
        ("", Err("it is not a URL")),
    ];
    for (root, expected) in cases {
        let address = PostAddress::below(root, "/v1/traces");
        assert_eq!(address.map(|address| address.url.to_string()), expected.map(str::to_owned), "{root}");
    }
}

#[test]
fn credentials_are_not_shown() {
    let address = PostAddress::below("http://user:hush@host:4318/key-hush?token=hush", "/v1/traces").unwrap();
    assert_eq!(address.host(), "host:4318");
    assert!(!format!("{address:?}").contains("hush"));
}

#[tokio::test]
async fn nobody_there() {
    // Bound, so that nobody else gets the port, but nobody listens at it.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let port = closed.local_addr().unwrap().port();
    let address = PostAddress::below(&format!("http://127.0.0.1:{port}"), "/v1/traces").unwrap();
    let posted = ClientPool::new().post_json(&address, b"{}".to_vec(), Duration::from_secs(60)).await;
    assert_eq!(posted, Err(format!("connection refused (127.0.0.1:{port})")));
}
