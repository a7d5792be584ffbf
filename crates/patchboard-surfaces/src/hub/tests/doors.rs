//! Who gets in, and what others are told.

use super::*;

const UPGRADE: [(&str, &str); 4] = [
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

#[tokio::test]
async fn only_this_machine_is_talked_to() {
    let bench = Bench::new();
    for (address, status) in [
        ("127.0.0.1", 200),
        ("127.8.9.10", 200),
        ("::1", 200),
        ("::ffff:127.0.0.1", 200),
        ("192.0.2.1", 403),
        ("::ffff:192.0.2.1", 403),
        ("2001:db8::1", 403),
    ] {
        let mut request = request("GET", "/v1/clients", &[], "");
        request.extensions_mut().insert(Peer::at(address.parse().unwrap()));
        assert_eq!(bench.send(request).await.status, status, "{address}");
    }
    let mut nobody = request("GET", "/v1/clients", &[], "");
    nobody.extensions_mut().remove::<Peer>();
    assert_eq!(bench.send(nobody).await.status, 403);
}

#[tokio::test]
async fn foreign_pages_are_kept_out() {
    let bench = Bench::new();
    for (header, status) in [
        (("origin", "https://evil.example"), 403),
        (("origin", "null"), 403),
        (("host", "evil.example"), 403),
        (("origin", "app://obsidian.md"), 200),
        (("origin", "http://localhost:3000"), 200),
        (("host", "[::1]:9473"), 200),
    ] {
        assert_eq!(bench.send(request("GET", "/v1/clients", &[header], "")).await.status, status, "{header:?}");
        let upgrade: Vec<_> = UPGRADE.into_iter().chain([header]).collect();
        let upgraded = bench.send(request("GET", "/", &upgrade, "")).await.status;
        // Without a socket there is nothing to upgrade, which is detected after admission.
        assert_eq!(upgraded, if status == 200 { 426 } else { 403 }, "{header:?}");
    }
}

#[tokio::test]
async fn what_is_no_websocket_is_told_so() {
    let bench = Bench::new();
    for path in ["/", "/ws", "/a/b", "/v1"] {
        let answer = bench.get(path).await;
        assert_eq!((answer.status, answer.header("upgrade")), (426, "websocket"), "{path}");
        assert!(answer.text.contains("WebSocket"), "{answer:?}");
        assert_eq!(bench.post(path, json!({})).await.fault(), (405, "method_not_allowed".to_owned()), "{path}");
    }
    assert_eq!(bench.get("/").await.header("connection"), "close");
    assert_eq!(bench.get("/").await.header("x-content-type-options"), "nosniff");
    for missing in ["sec-websocket-key", "connection"] {
        let headers: Vec<_> = UPGRADE.into_iter().filter(|(name, _)| *name != missing).collect();
        assert_eq!(bench.send(request("GET", "/", &headers, "")).await.status, 400, "{missing}");
    }
    let old = [UPGRADE[0], UPGRADE[1], UPGRADE[3], ("sec-websocket-version", "8")];
    assert_eq!(bench.send(request("GET", "/", &old, "")).await.status, 400);
}

#[tokio::test]
async fn paths_and_methods() {
    let bench = Bench::new();
    let id = bench.say("hello").await;
    let not_found = (404, "not_found".to_owned());
    for path in ["/v1/", "/v1/nope", "/v1/messages/", "/v1/messages/x", "/v1/clients/a", "/v1/messages/msg-0/cancel"] {
        assert_eq!(bench.get(path).await.fault(), not_found, "{path}");
    }
    let unknown = "/v1/messages/msg-00000000-0000-4000-8000-00000000ffff";
    assert_eq!(bench.get(unknown).await.fault(), not_found);
    assert_eq!(bench.get(&format!("{unknown}?wait=1&newer_than=0")).await.fault(), not_found);
    for action in ["resend", "cancel"] {
        assert_eq!(bench.post(&format!("{unknown}/{action}"), json!({})).await.fault(), not_found, "{action}");
    }
    for (method, path, allow) in [
        ("PUT", "/v1/messages".to_owned(), "GET, POST"),
        ("POST", format!("/v1/messages/{id}"), "GET"),
        ("GET", format!("/v1/messages/{id}/cancel"), "POST"),
        ("DELETE", "/v1/clients".to_owned(), "GET"),
        ("GET", "/v1/clients/a/pair".to_owned(), "POST"),
        ("OPTIONS", "/v1/route".to_owned(), "POST"),
        ("GET", "/v1/clients/*/forget".to_owned(), "POST"),
    ] {
        let answer = bench.ask(method, &path, "").await;
        assert_eq!(answer.fault(), (405, "method_not_allowed".to_owned()), "{method} {path}");
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
    }
    let head = bench.ask("HEAD", "/v1/messages", "").await;
    assert_eq!((head.status, head.header("allow")), (405, "GET, POST"));
}

#[tokio::test]
async fn a_token_comes_before_everything_else_about_a_request() {
    let strict = Bench::with(Setup { pairing: PairingMode::Token, ..Setup::default() });
    let never = || Body::from_stream(futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    for (method, path) in [
        ("GET", "/v1/nope"),
        ("PUT", "/v1/messages"),
        ("GET", "/v1/messages/x"),
        ("POST", "/v1/messages?wait=x"),
        ("POST", "/v1/clients/no%20name/pair"),
    ] {
        let refused = strict.ask(method, path, never()).await;
        assert_eq!(refused.fault(), (401, "unauthenticated".to_owned()), "{method} {path}");
        assert_eq!((refused.header("www-authenticate"), refused.header("allow")), ("Bearer", ""), "{method} {path}");
    }
}

#[tokio::test]
async fn tokens_over_http() {
    let open = Bench::new();
    let with = |token: &str| request("GET", "/v1/clients", &[("authorization", token)], "");
    assert_eq!(open.get("/v1/clients").await.status, 200);
    assert_eq!(open.send(with("Bearer wrong")).await.fault(), (401, "unauthenticated".to_owned()));
    assert_eq!(open.send(with("Basic x")).await.status, 401);
    assert_eq!(open.as_operator("GET", "/v1/clients", "").await.status, 200);
    // Where apps need tokens, submitting needs one too.
    let strict = Bench::with(Setup { pairing: PairingMode::Token, ..Setup::default() });
    let refused = strict.get("/v1/clients").await;
    assert_eq!((refused.fault().0, refused.header("www-authenticate")), (401, "Bearer"));
    assert_eq!(strict.post("/v1/messages", json!({"text": "x"})).await.status, 401);
    assert_eq!(strict.as_operator("POST", "/v1/messages", r#"{"text":"x"}"#).await.status, 202);
}

#[tokio::test]
async fn apps_are_the_operators_business() {
    let bench = Bench::new();
    for action in ["approve", "pair", "forget"] {
        let path = format!("/v1/clients/notebook/{action}");
        assert_eq!(bench.post(&path, json!({})).await.fault(), (403, "forbidden".to_owned()), "{action}");
        let odd = format!("/v1/clients/note%20book/{action}");
        assert_eq!(bench.as_operator("POST", &odd, "").await.fault(), (400, "invalid".to_owned()), "{action}");
    }
    let approved = bench.as_operator("POST", "/v1/clients/notebook/approve", "").await;
    assert_eq!((approved.status, approved.json()), (200, json!({"ok": true})));
    let token = |answer: Answer| answer.json()["token"].as_str().unwrap().to_owned();
    let paired = bench.as_operator("POST", "/v1/clients/notebook/pair", "").await;
    assert_eq!((paired.status, paired.header("cache-control")), (200, "no-store"));
    let first = token(paired);
    assert_eq!(first.len(), 64);
    assert_ne!(first, token(bench.as_operator("POST", "/v1/clients/notebook/pair", "{}").await));
    let unclear = bench.as_operator("POST", "/v1/clients/notebook/forget", r#"{"unpair":"yes"}"#).await;
    assert_eq!(unclear.fault(), (400, "invalid".to_owned()));
    let forgotten = bench.as_operator("POST", "/v1/clients/notebook/forget", r#"{"unpair":true}"#).await;
    assert_eq!((forgotten.status, forgotten.json()), (200, json!({"ok": true})));
    assert_eq!(bench.get("/v1/clients").await.json(), json!({"items": []}));
}

#[test]
fn subprotocols_and_tokens_of_an_upgrade() {
    let offered = |headers: &[(&str, &str)]| {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect::<Vec<(axum::http::HeaderName, axum::http::HeaderValue)>>()
            .into_iter()
            .collect();
        let UpgradeOffer { token, protocol } = UpgradeOffer::read(&headers);
        (token.unwrap_or_default(), protocol.unwrap_or_default())
    };
    let expect = |token: &str, protocol: &str| (token.to_owned(), protocol.to_owned());
    assert_eq!(offered(&[]), expect("", ""));
    assert_eq!(offered(&[("sec-websocket-protocol", "chat, superchat")]), expect("", "chat"));
    assert_eq!(offered(&[("sec-websocket-protocol", "chat,bearer.s3")]), expect("s3", "bearer.s3"));
    assert_eq!(offered(&[("sec-websocket-protocol", "bearer.")]), expect("", "bearer."));
    assert_eq!(offered(&[("authorization", "bearer s3")]), expect("s3", ""));
    assert_eq!(offered(&[("authorization", "Basic s3"), ("sec-websocket-protocol", "x")]), expect("", "x"));
    let both = [("authorization", "Bearer head"), ("sec-websocket-protocol", "bearer.protocol")];
    assert_eq!(offered(&both), expect("head", "bearer.protocol"));
}
