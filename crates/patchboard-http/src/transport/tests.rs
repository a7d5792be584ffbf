use patchboard_testkit::http_stub::{ClosedPort, Stub};

use super::*;
use crate::client::{ClientKind, ClientOptions};

#[tokio::test]
async fn texts_hold_no_url() {
    let (closed, stub) = (ClosedPort::take(), Stub::start([]).await);
    for (port, expected, unsent) in
        [(closed.port(), "connection refused", true), (stub.port(), "connection closed before an answer", false)]
    {
        let client = ClientOptions::new(ClientKind::Loopback).build().await.unwrap();
        let error = client.get(format!("http://127.0.0.1:{port}/hush")).send().await.unwrap_err();
        assert_eq!((reason(&error), is_unsent(&error)), (expected, unsent));
        assert!(!root_cause(&error).contains("hush"), "{}", root_cause(&error));
    }
}

#[test]
fn labels() {
    for (url, expected) in [
        ("http://u:p@host:1/x?y", Some("host:1")),
        ("https://host/", Some("host")),
        ("http://[::1]:80", Some("[::1]")),
        ("data:x", None),
    ] {
        assert_eq!(host_label(&Url::parse(url).unwrap()).as_deref(), expected, "{url}");
    }
}
