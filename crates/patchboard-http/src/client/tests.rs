use std::future::pending;

use patchboard_testkit::http_stub::{Answer, Stub};

use super::*;

#[tokio::test(start_paused = true)]
async fn connecting_takes_no_longer_than_the_request_allows() {
    let within = Duration::from_secs(3);
    let began = tokio::time::Instant::now();
    let connecting =
        CONNECT_WITHIN.scope(within, async { with_connect_limit(pending::<Result<(), BoxError>>()).await });
    let error = connecting.await.unwrap_err();
    assert_eq!(error.downcast_ref::<io::Error>().map(io::Error::kind), Some(io::ErrorKind::TimedOut));
    assert_eq!(began.elapsed(), within);
}

#[test]
fn kinds() {
    for (url, expected) in [
        ("http://app.localhost:1", ClientKind::Loopback),
        ("https://[::ffff:127.0.0.1]", ClientKind::LoopbackTls),
        ("http://localhost.example.com", ClientKind::Plain),
        ("https://10.0.0.1", ClientKind::Tls),
    ] {
        assert_eq!(ClientKind::for_url(&Url::parse(url).unwrap()), expected, "{url}");
    }
}

#[tokio::test]
async fn loopback_names_are_not_looked_up() {
    let resolve = async |name: &str| {
        let found = LoopbackResolver.resolve(name.parse().unwrap()).await;
        found.map(|addresses| addresses.map(|address| address.to_string()).collect::<Vec<_>>().join(" ")).ok()
    };
    assert_eq!(resolve("app.localhost").await.as_deref(), Some("[::1]:0 127.0.0.1:0"));
    assert_eq!(resolve("example.com").await, None);
}

#[tokio::test]
async fn a_loopback_name_reaches_a_server_on_either_address() {
    let stub = Stub::start([Answer::ok("here")]).await;
    let client = ClientOptions::new(ClientKind::Loopback).build().await.unwrap();
    let response = client.get(format!("http://no-such-name.localhost:{}/", stub.port())).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let head = &stub.received()[0];
    assert!(head.contains(concat!("\r\nuser-agent: patchboard/", env!("CARGO_PKG_VERSION"), "\r\n")), "{head}");
    assert!(!head.contains("accept-encoding"), "{head}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let stub = Stub::start([Answer::redirect(302, "http://127.0.0.1:9/")]).await;
    let client = ClientOptions::new(ClientKind::Loopback).build().await.unwrap();
    let response = client.get(format!("http://127.0.0.1:{}/", stub.port())).send().await.unwrap();
    assert_eq!(response.status(), 302);
}
